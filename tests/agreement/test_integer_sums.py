"""Sums of integers in tiles have NumPy's 64 bits on every target."""

import numpy as np
import pytest

from support.every_target import everywhere

TEXT = """
@kernel
def k(x: T[4, 64], whole: mut W[1], rows: mut W[4], columns: mut W[64], running: mut W[4, 64], again: mut T[4]):
    t = x[:, :]
    whole[0] = tile.sum(t)
    rows[:] = t.sum(axis=1)
    columns[:] = tile.sum(t, axis=0)
    running[:, :] = tile.cumsum(t, axis=1)
    again[:] = tile.sum(t, axis=1)
"""


@pytest.mark.parametrize("name", ["i8", "u8", "i16", "u16", "i32", "u32"])
def test_sums(name: str):
    dtype = np.dtype(name[0] + str(int(name[1:]) // 8))
    wide = np.dtype(np.uint64 if name[0] == "u" else np.int64)
    largest = np.iinfo(dtype).max
    x = np.random.default_rng(0).integers(largest // 2, largest, (4, 64), dtype, endpoint=True)
    sums = x.sum(axis=1)
    assert sums.dtype == wide
    assert sums.max() > largest
    expected = [
        np.array([x.sum()]), sums, x.sum(axis=0), np.cumsum(x, axis=1), sums.astype(dtype),
    ]  # fmt: skip
    empty = [np.zeros_like(each) for each in expected]
    text = TEXT.replace("W", "u64" if name[0] == "u" else "i64").replace("T[", f"{name}[")
    everywhere(text, [x, *empty], [x, *expected])
