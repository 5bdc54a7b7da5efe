# pyright: basic
# The language's names have no Python types: what is checked strictly is everything around kernels.
"""The kernels behind `softmax`, `layernorm` and `rmsnorm`, each on the rows of a matrix.

Everything is computed in f32.  An exponent is one fused multiply-add, scores times log2(e) minus the row's bound: what
rounding the bound changes is common to a row, and cancels.  Short rows are tiles of their own, ROWS of them a group,
read once; long ones are read BLOCK elements at a time, once for their sums and once more for the result.  On GPUs
powers of two and reciprocal roots are the hardware's (2 ulp).
"""

from __future__ import annotations

import math
from typing import Final

from tessera import f32, kernel, mut, tensor, tile

# What a launch fixes by its operands (`variant`): the values here only let each name stand for something.
ROWS: Final = 1
BLOCK: Final = 8192
_LOG2_E: Final = math.log2(math.e)


@kernel(fast=True)
def softmax_rows(x: tensor, y: mut[tensor]):
    """The softmax of each row."""
    for r in tile.range(x.shape[0], step=ROWS):
        row = tile.cast(x[r : r + ROWS, :], f32)
        bound = tile.max(row, axis=1, keepdims=True) * _LOG2_E
        weights = tile.exp2(tile.fma(row, _LOG2_E, -bound))
        y[r : r + ROWS, :] = tile.cast(weights * (1.0 / tile.sum(weights, axis=1, keepdims=True)), y.dtype)


@kernel(fast=True)
def softmax_long_rows(x: tensor, y: mut[tensor]):
    """The softmax of each row: the largest element so far, and the sum of weights relative to it, block by block."""
    columns = x.shape[1]
    for r in tile.range(x.shape[0]):
        top, total = f32(-math.inf), f32(0.0)
        for c in range(0, columns, BLOCK):
            inside = tile.arange(c, c + BLOCK) < columns
            block = tile.where(inside, tile.cast(x[r, c : c + BLOCK], f32), -math.inf)
            peak = max(top, tile.max(block) * _LOG2_E)
            bound = 0.0 if peak == -math.inf else peak
            total = total * tile.exp2(top - bound) + tile.sum(tile.exp2(tile.fma(block, _LOG2_E, -bound)))
            top = peak
        scale = 1.0 / total
        for c in range(0, columns, BLOCK):
            weights = tile.exp2(tile.fma(tile.cast(x[r, c : c + BLOCK], f32), _LOG2_E, -top))
            y[r, c : c + BLOCK] = tile.cast(weights * scale, y.dtype)


@kernel(fast=True)
def layernorm_rows(x: tensor, weight: tensor, bias: tensor, y: mut[tensor], eps: f32):
    """(x - mean) / sqrt(variance + eps) * weight + bias, the variance from the centred row."""
    share = 1.0 / x.shape[1]
    for r in tile.range(x.shape[0], step=ROWS):
        row = tile.cast(x[r : r + ROWS, :], f32)
        centred = row - tile.sum(row, axis=1, keepdims=True) * share
        variance = tile.sum(centred * centred, axis=1, keepdims=True) * share
        scaled = centred * tile.rsqrt(variance + eps) * tile.cast(weight[:], f32)[None, :]
        y[r : r + ROWS, :] = tile.cast(scaled + tile.cast(bias[:], f32)[None, :], y.dtype)


@kernel(fast=True)
def layernorm_long_rows(x: tensor, weight: tensor, bias: tensor, y: mut[tensor], eps: f32):
    """Normalize rows that are read three times: for the mean, for the variance, and for the result."""
    columns = x.shape[1]
    share = 1.0 / columns
    for r in tile.range(x.shape[0]):
        total = f32(0.0)
        for c in range(0, columns, BLOCK):
            total += tile.sum(tile.cast(x[r, c : c + BLOCK], f32))
        mean = total * share
        squares = f32(0.0)
        for c in range(0, columns, BLOCK):
            inside = tile.arange(c, c + BLOCK) < columns
            centred = tile.where(inside, tile.cast(x[r, c : c + BLOCK], f32) - mean, 0.0)
            squares += tile.sum(centred * centred)
        scale = tile.rsqrt(squares * share + eps)
        for c in range(0, columns, BLOCK):
            scaled = (tile.cast(x[r, c : c + BLOCK], f32) - mean) * scale * tile.cast(weight[c : c + BLOCK], f32)
            y[r, c : c + BLOCK] = tile.cast(scaled + tile.cast(bias[c : c + BLOCK], f32), y.dtype)


@kernel(fast=True)
def rmsnorm_rows(x: tensor, weight: tensor, y: mut[tensor], eps: f32):
    """x / sqrt(mean(x^2) + eps) * weight."""
    share = 1.0 / x.shape[1]
    for r in tile.range(x.shape[0], step=ROWS):
        row = tile.cast(x[r : r + ROWS, :], f32)
        scale = tile.rsqrt(tile.sum(row * row, axis=1, keepdims=True) * share + eps)
        y[r : r + ROWS, :] = tile.cast(row * scale * tile.cast(weight[:], f32)[None, :], y.dtype)


@kernel(fast=True)
def rmsnorm_long_rows(x: tensor, weight: tensor, y: mut[tensor], eps: f32):
    """Normalize rows that are read twice."""
    columns = x.shape[1]
    share = 1.0 / columns
    for r in tile.range(x.shape[0]):
        squares = f32(0.0)
        for c in range(0, columns, BLOCK):
            block = tile.cast(x[r, c : c + BLOCK], f32)
            squares += tile.sum(block * block)
        scale = tile.rsqrt(squares * share + eps)
        for c in range(0, columns, BLOCK):
            scaled = tile.cast(x[r, c : c + BLOCK], f32) * scale * tile.cast(weight[c : c + BLOCK], f32)
            y[r, c : c + BLOCK] = tile.cast(scaled, y.dtype)
