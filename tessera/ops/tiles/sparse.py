# pyright: basic
# The language's names have no Python types: what is checked strictly is everything around kernels.
"""The kernel behind `spmm`: a warp sums the products of a row's elements with 128 columns of the dense matrix."""

from __future__ import annotations

from typing import Final

from tessera import ceil_div, f32, f64, group_linear_id, i64, kernel, mut, tensor, tile

# What a launch fixes by its operands (`variant`).
KIND: Final = 0

DOUBLE: Final = 1
INTEGER: Final = 2
"""The kinds of sums besides those of f32."""
WARPS: Final = 4
"""Warps of a group, each with a row of its own."""
COLUMNS: Final = 128
"""Columns of a warp."""


def widened(x):
    """An element in the type that sums have."""
    return f64(x) if KIND == DOUBLE else i64(x) if KIND == INTEGER else f32(x)


def taken(total, v, dense, k, c):
    """A sum with one more product, where there is such a column."""
    return total + v * widened(dense[k, c]) if c < dense.shape[1] else total


@kernel(tile=(128,))
def csr_product(values: tensor, columns: tensor, starts: tensor, dense: tensor, out: mut[tensor]):
    """out[rows, n] = the sparse matrix of these values times dense[columns, n]; rows begin at `starts`.

    Columns outside of the matrix count for nothing.  Sums are made in the order of the elements.
    """
    rows, n = out.shape
    chunks = ceil_div(n, COLUMNS)
    warp = i64(group_linear_id()) * WARPS + tile.warp_id()
    row = warp // chunks
    if row < rows:
        c = warp % chunks * COLUMNS + tile.lane_id()
        first, last = max(i64(starts[row]), 0), min(i64(starts[row + 1]), values.shape[0])
        s0, s1, s2, s3 = widened(0), widened(0), widened(0), widened(0)
        for e in range(first, last):
            k, v = i64(columns[e]), widened(values[e])
            if k >= 0 and k < dense.shape[0]:
                s0, s1 = taken(s0, v, dense, k, c), taken(s1, v, dense, k, c + 32)
                s2, s3 = taken(s2, v, dense, k, c + 64), taken(s3, v, dense, k, c + 96)
        for part in range(4):
            total = s0 if part == 0 else s1 if part == 1 else s2 if part == 2 else s3
            if c + 32 * part < n:
                out[row, c + 32 * part] = tile.cast(total, out.dtype)
