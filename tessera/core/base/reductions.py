"""The one association of every sum, so that a reduction has the same bits on every target and in every run.

For n elements x[0..n):
1. Cut the index into blocks of 4096.  In a block, column c (0 <= c < 128) adds x[c], x[c + 128], x[c + 256], ...
   (32 steps) in that order: a chain a column, which is one element a lane of 4 warps, or 8 vectors of 16.
2. Add the 128 columns by halving: c += c + 64, then + 32, ... + 1.
3. Add the blocks pairwise, neighbours first: (0 1) (2 3) ..., then pairs of pairs, a lone last one passing through.

Elements past n are the identity (-0.0 for floats, which changes no sum, not even -0.0).  It depends on n alone.

The association of every running sum, of n elements, is made of such sums:
1. Cut the index into blocks of `scan_block(n)`, the largest divisor of n from 2 to 16; if n is at most 16 or has none,
   everything is one block.
2. In a block, element i is the sum of as many elements as the block has: its elements up to i, then identities.
3. A block's total is the sum of its elements.  Running sums of the totals, each without its own, are made in the same
   way, and added to all elements of their blocks: total + element.  There are none for one block.
"""

from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

BLOCK: Final = 4096
COLUMNS: Final = 128
SCAN_BLOCK: Final = 16
Numbers: TypeAlias = NDArray[Any]  # of every type that has a sum


def identity(kind: str, dtype: np.dtype) -> Numbers:
    """The value that changes nothing, as a 0-d array: kind is "sum", "max" or "min"."""
    if kind == "sum":
        value: float = -0.0 if dtype.kind not in "iub" else 0
    elif dtype.kind == "b":
        value = kind == "min"
    elif dtype.kind in "iu":
        value = np.iinfo(dtype).min if kind == "max" else np.iinfo(dtype).max
    else:
        value = -np.inf if kind == "max" else np.inf
    return np.array(value, dtype=dtype)


def scan_block(n: int) -> int:
    """Elements in each block of a running sum of `n`: `n` where there is one block, at least 1."""
    fits = (size for size in range(SCAN_BLOCK, 1, -1) if n % size == 0)
    return max(n, 1) if n <= SCAN_BLOCK else next(fits, n)


def tree_cumsum(x: Numbers, axis: int) -> Numbers:
    """Running sums of `x` along `axis` with the fixed association, in `x`'s own dtype (callers widen 16-bit floats)."""
    return np.moveaxis(_running(np.moveaxis(x, axis, -1), 0), -1, axis)


def _running(x: Numbers, left_out: int) -> Numbers:
    """Return running sums along the last axis; each without its last `left_out` elements."""
    *rest, n = x.shape
    block = scan_block(n)
    table = x.reshape(*rest, n // block, block)
    kept = np.arange(block)[:, None] >= np.arange(block)[None, :] + left_out
    sums = tree_sum(np.where(kept, table[..., None, :], identity("sum", x.dtype)), -1)
    if block < n:
        sums = _running(tree_sum(table, -1), 1)[..., None] + sums
    return sums.reshape(x.shape)


def tree_sum(x: Numbers, axis: int) -> Numbers:
    """Sum `x` along `axis` with the fixed association, in `x`'s own dtype (callers widen 16-bit floats)."""
    x = np.moveaxis(x, axis, -1)
    n = x.shape[-1]
    blocks = max(1, -(-n // BLOCK))
    padded = np.full((*x.shape[:-1], blocks * BLOCK), identity("sum", x.dtype), dtype=x.dtype)
    padded[..., :n] = x
    table = padded.reshape(*x.shape[:-1], blocks, BLOCK // COLUMNS, COLUMNS)
    columns = table[..., 0, :].copy()
    for step in range(1, BLOCK // COLUMNS):
        columns += table[..., step, :]
    width = COLUMNS
    while width > 1:
        width //= 2
        columns = columns[..., :width] + columns[..., width:]
    partial = columns[..., 0]
    while partial.shape[-1] > 1:
        pairs = partial.shape[-1] // 2
        rest = partial[..., 2 * pairs :]
        partial = partial[..., 0 : 2 * pairs : 2] + partial[..., 1 : 2 * pairs : 2]
        partial = np.concatenate([partial, rest], axis=-1)
    return partial[..., 0]
