"""Kernels whose compilations are compared."""

# pyright: reportUndefinedVariable=false, reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportGeneralTypeIssues=false, reportInvalidTypeForm=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportAttributeAccessIssue=false

import numpy as np

from tessera import f32, kernel, tile

BK = 32


@kernel
def product(A: "f16[m, k]", B: "f16[k, n]", C: "mut[f32[m, n]]"):
    for i in tile.range(m, step=64):
        for j in tile.range(n, step=64):
            total = tile.zeros((64, 64), f32)
            for l in tile.range(k, step=BK):
                total += tile.dot(A[i : i + 64, l : l + BK], B[l : l + BK, j : j + 64])
            C[i : i + 64, j : j + 64] = total


@kernel
def scale(x: "f32[n]", y: "mut[f32[n]]"):
    i = tile.linear_id()
    if i < n:
        y[i] = 2.0 * x[i]


@kernel
def scale_and_add(u: "f32[n]", v: "mut[f32[n]]"):
    i = tile.linear_id()
    if i < n:
        v[i] = 2.0 * u[i] + 1.0


def arguments() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Arrays for `product`."""
    return np.ones((128, 64), np.float16), np.ones((64, 128), np.float16), np.zeros((128, 128), np.float32)
