"""The one association of every sum, so that a reduction has the same bits on every target and in every run.

For n elements x[0..n):
1. Cut the index into blocks of 4096.  In a block, column c (0 <= c < 128) adds x[c], x[c + 128], x[c + 256], ...
   (32 steps) in that order: a chain a column, which is one element a lane of 4 warps, or 8 vectors of 16.
2. Add the 128 columns by halving: c += c + 64, then + 32, ... + 1.
3. Add the blocks pairwise, neighbours first: (0 1) (2 3) ..., then pairs of pairs, a lone last one passing through.

Elements past n are the identity (-0.0 for floats, which changes no sum, not even -0.0).  It depends on n alone.
"""

from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

BLOCK: Final = 4096
COLUMNS: Final = 128
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
