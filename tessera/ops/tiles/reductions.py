# pyright: basic
# The language's names have no Python types: what is checked strictly is everything around kernels.
"""The kernels behind `reduce_sum`, `reduce_max` and `reduce_min`.

A reduction either takes a whole extent at once, or its blocks of BLOCK elements (4096, or a power of two times that)
side by side, in any groups, and then the blocks' results pairwise: the association of `tessera.core.base.reductions`,
so that all of them give the same bits.
"""

from __future__ import annotations

import math
from typing import Final

from tessera import f32, i64, kernel, mut, tensor, tile

# What a launch fixes by its operands (`variant`): the values here only let each name stand for something.
SUM: Final = 0
MAX: Final = 1
MIN: Final = 2
KIND: Final = SUM
ROWS: Final = 1
COLUMNS: Final = 64
BLOCK: Final = 4096
FLOAT: Final = 1
WHOLE: Final = 2
WIDEN: Final = 0
LOWEST: Final = -math.inf
HALVES: Final = (2, 1)


def combine(values, axis):
    """Sum, largest or smallest along an axis."""
    if KIND == SUM:
        result = tile.sum(values, axis=axis)
    elif KIND == MAX:
        result = tile.max(values, axis=axis)
    else:
        result = tile.min(values, axis=axis)
    return result


def widened(values):
    """Widen what is added: short floats to f32, and integers to i64 where the result is wider than they are."""
    if WIDEN == FLOAT:
        result = tile.cast(values, f32)
    elif WIDEN == WHOLE:
        result = tile.cast(values, i64)
    else:
        result = values
    return result


@kernel
def reduce_rows(x: tensor, y: mut[tensor]):
    """y[r] of x[r, :]."""
    for r in tile.range(x.shape[0], step=ROWS):
        y[r : r + ROWS] = tile.cast(combine(widened(x[r : r + ROWS, :]), 1), y.dtype)


@kernel
def reduce_columns(x: tensor, y: mut[tensor]):
    """y[o, c] of x[o, :, c]."""
    for o in tile.range(x.shape[0]):
        for c in tile.range(x.shape[2], step=COLUMNS):
            y[o, c : c + COLUMNS] = tile.cast(combine(widened(x[o, :, c : c + COLUMNS]), 0), y.dtype)


@kernel
def reduce_row_blocks(x: tensor, y: mut[tensor]):
    """y[r, i] of x[r, BLOCK i : BLOCK (i + 1)]; elements past the end change nothing, and whole blocks have none."""
    columns = x.shape[1]
    for r in tile.range(x.shape[0]):
        for i in tile.range(y.shape[1]):
            c = i * BLOCK
            if c + BLOCK <= columns:
                y[r, i] = combine(widened(x[r, c : c + BLOCK]), 0)
            else:
                values = tile.where(tile.arange(c, c + BLOCK) < columns, widened(x[r, c : c + BLOCK]), LOWEST)
                y[r, i] = combine(values, 0)


@kernel
def reduce_column_blocks(x: tensor, y: mut[tensor]):
    """y[o, c, i] of x[o, 4096 i : 4096 (i + 1), c]."""
    length = x.shape[1]
    for o in tile.range(x.shape[0]):
        for i in tile.range(y.shape[2]):
            for c in tile.range(x.shape[2], step=COLUMNS):
                n = i * BLOCK
                inside = (tile.arange(n, n + BLOCK) < length)[:, None]
                values = tile.where(inside, widened(x[o, n : n + BLOCK, c : c + COLUMNS]), LOWEST)
                y[o, c : c + COLUMNS, i] = combine(values, 0)


@kernel
def reduce_pairs(x: tensor, y: mut[tensor]):
    """y[r, i] of x[r, BLOCK i : BLOCK (i + 1)], pairwise; HALVES are BLOCK/2, BLOCK/4, ..., 1."""
    columns = x.shape[1]
    for r in tile.range(x.shape[0]):
        for i in tile.range(y.shape[1]):
            c = i * BLOCK
            values = tile.where(tile.arange(c, c + BLOCK) < columns, x[r, c : c + BLOCK], LOWEST)
            for half in HALVES:
                values = combine(tile.reshape(values, (half, 2)), 1)
            y[r, i : i + 1] = tile.cast(values, y.dtype)
