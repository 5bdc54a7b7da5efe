# pyright: basic
# The language's names have no Python types: what is checked strictly is everything around kernels.
"""The kernels behind `gemm`: C = activation(A B + bias), in blocks of BM x BN, BK steps of K at a time.

On GPUs the exponential and the division of an activation are the hardware's (see `lowering/cuda/base/fast_math.py`).
"""

from __future__ import annotations

import math
from typing import Final

from tessera import f32, kernel, mut, tensor, tile

# What a launch fixes by its operands (`variant`): the values here only let each name stand for something.
TRANSPOSE_A: Final = False
TRANSPOSE_B: Final = False
ACTIVATION: Final = 0
COMPUTE: Final = None
BM: Final = 128
BN: Final = 128
BK: Final = 64

RELU: Final = 1
GELU: Final = 2
SILU: Final = 3
_ROOT_HALF: Final = math.sqrt(0.5)


def activate(x):
    """The activation, on a tile of f32: gelu is the exact one, x Phi(x)."""
    if ACTIVATION == RELU:
        x = tile.maximum(x, 0.0)
    if ACTIVATION == GELU:
        x = 0.5 * x * (1.0 + tile.erf(x * _ROOT_HALF))
    if ACTIVATION == SILU:
        x = x / (1.0 + tile.exp(-x))
    return x


@kernel(fast=True)
def matrix_product(A: tensor, B: tensor, C: mut[tensor]):
    """C[M, N] = activation(A[M, K] B[K, N]); each operand may be stored with its axes swapped."""
    M, N = C.shape
    K = A.shape[0] if TRANSPOSE_A else A.shape[1]
    for m in tile.range(M, step=BM):
        for n in tile.range(N, step=BN):
            acc = tile.zeros((BM, BN), f32)
            for k in tile.range(K, step=BK):
                a = A[k : k + BK, m : m + BM].T if TRANSPOSE_A else A[m : m + BM, k : k + BK]
                b = B[n : n + BN, k : k + BK].T if TRANSPOSE_B else B[k : k + BK, n : n + BN]
                acc += tile.dot(a, b, compute=COMPUTE)
            C[m : m + BM, n : n + BN] = tile.cast(activate(acc), C.dtype)


@kernel(fast=True)
def matrix_product_with_bias(A: tensor, B: tensor, bias: tensor, C: mut[tensor]):
    """C[M, N] = activation(A[M, K] B[K, N] + bias[N])."""
    M, N = C.shape
    K = A.shape[0] if TRANSPOSE_A else A.shape[1]
    for m in tile.range(M, step=BM):
        for n in tile.range(N, step=BN):
            acc = tile.zeros((BM, BN), f32)
            for k in tile.range(K, step=BK):
                a = A[k : k + BK, m : m + BM].T if TRANSPOSE_A else A[m : m + BM, k : k + BK]
                b = B[n : n + BN, k : k + BK].T if TRANSPOSE_B else B[k : k + BK, n : n + BN]
                acc += tile.dot(a, b, compute=COMPUTE)
            shifted = acc + tile.cast(bias[n : n + BN], f32)[None, :]
            C[m : m + BM, n : n + BN] = tile.cast(activate(shifted), C.dtype)
