"""Bools whose bytes are neither 0 nor 1, as views of masks have them: true on every target, and written as 1."""

import numpy as np
import pytest

from support.every_target import everywhere
from tessera import op
from tessera.core.settings import overridden

BY_TILES = """
@kernel
def k(m: bool[n], chosen: mut f32[n], count: mut i64[2], same: mut bool[n], inverse: mut bool[n]):
    for t in tile.range(n, step=64):
        chosen[t:t+64] = tile.where(m[t:t+64], 1.0, 0.0)
        same[t:t+64] = m[t:t+64] == True
        inverse[t:t+64] = ~m[t:t+64]
    count[0] = tile.sum(tile.cast(m[0:n], i64))
    count[1] = tile.sum(m[0:n])
"""
BY_LANES = """
@kernel
def k(m: bool[n], chosen: mut f32[n], total: mut i32[n], copy: mut bool[n]):
    i = tile.linear_id()
    if i < n:
        chosen[i] = 1.0 if m[i] else 0.0
        total[i] = m[i] + m[i]
        copy[i] = m[i]
"""
ODD = np.array([0, 1, 2, 255, 3, 0, 128, 4, 254, 16], np.uint8)


@pytest.mark.parametrize("times", [1, 13])
def test_bytes_of_bools(times: int):
    mask = np.tile(ODD, times).view(np.bool_)
    true = np.tile(ODD, times) != 0
    n, wide = len(mask), true.astype(np.float32)
    empty = np.zeros(n, np.bool_)
    count = np.array([true.sum(), true.sum()])
    everywhere(
        BY_TILES, [mask, np.zeros(n, np.float32), np.zeros(2, np.int64), empty, empty], [mask, wide, count, true, ~true]
    )
    everywhere(
        BY_LANES, [mask, np.zeros(n, np.float32), np.zeros(n, np.int32), empty],
        [mask, wide, 2 * true.astype(np.int32), true], targets=("interpret", "cpu", "cuda"),
    )  # fmt: skip


@pytest.mark.parametrize("target", ["interpret", "cpu"])
def test_graphs(target: str):
    mask, true = ODD.view(np.bool_), ODD != 0
    one, zero = np.ones(len(ODD), np.float32), np.zeros(len(ODD), np.float32)
    with overridden(target=target):
        np.testing.assert_array_equal(np.asarray(op.where(mask, one, zero)), true.astype(np.float32))
        np.testing.assert_array_equal(np.asarray(op.sum(mask)), true.sum())
        np.testing.assert_array_equal(np.asarray(op.cumsum(mask)), np.cumsum(true))
