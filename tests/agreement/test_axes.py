"""Lanes, groups and grids are numbered as arrays are, the last axis fastest: `numpy.unravel_index` says where they are."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tessera
from frontend.kernels import array, build
from support.simulate import simulate
from tessera.core.dtypes import i64
from tessera.core.settings import overridden
from tessera.runtime.grid import read_grid

IDS = """@kernel tile[{group}]
def ids(out: mut i64[n, 14]):
    t = launch.thread_id()
    if t < n:
        out[t, 0] = tile.linear_id(0)
        out[t, 1] = tile.linear_id(1)
        out[t, 2] = tile.linear_id(2)
        out[t, 3] = tile.group_id(0)
        out[t, 4] = tile.group_id(1)
        out[t, 5] = tile.group_id(2)
        out[t, 6] = launch.thread_id(0)
        out[t, 7] = launch.thread_id(1)
        out[t, 8] = launch.thread_id(2)
        out[t, 9] = tile.linear_id()
        out[t, 10] = group_linear_id()
        out[t, 11] = grid_group_count()
        out[t, 12] = tile.warp_id()
        out[t, 13] = t
"""


def numbered(grid: tuple[int, ...], group: tuple[int, ...]) -> np.ndarray:
    """What IDS writes, by NumPy."""
    grid, group = (*grid, 1, 1)[:3], (*group, 1, 1)[:3]
    groups, lanes = math.prod(grid), math.prod(group)
    t = np.arange(groups * lanes)
    within, of_grid = np.unravel_index(t % lanes, group), np.unravel_index(t // lanes, grid)
    along = [of_grid[axis] * group[axis] + within[axis] for axis in range(3)]
    columns = [*within, *of_grid, *along, t % lanes, t // lanes, np.full_like(t, groups), t % lanes // 32, t]
    return np.stack(columns, axis=1)


def extents(most: int) -> st.SearchStrategy[tuple[int, ...]]:
    """One to three axes, `most` in all."""
    return st.lists(st.integers(1, most), min_size=1, max_size=3).map(tuple).filter(lambda e: math.prod(e) <= most)


GROUPS = st.one_of(
    extents(256),
    st.sampled_from([(1, 256), (8, 32), (16, 16), (2, 4), (4, 64), (2, 2, 64), (1, 1, 128), (64, 1), (1, 32, 2)]),
)


@pytest.mark.parametrize("target", ["interpret", "cpu"])
@settings(max_examples=15)
@given(extents(24), GROUPS)
def test_ids_are_in_the_order_of_arrays(target: str, grid: tuple[int, ...], group: tuple[int, ...]):
    out = np.full((math.prod(grid) * math.prod(group), 14), -1)
    with overridden(target=target):
        tessera.compile_source(IDS.format(group=group)).ids[grid, group](out)
    assert np.array_equal(out, numbered(grid, group))


@settings(max_examples=10)
@given(extents(12), GROUPS)
def test_and_on_a_gpu(grid: tuple[int, ...], group: tuple[int, ...]):
    out = np.full((math.prod(grid) * math.prod(group), 14), -1)
    simulate(build(IDS.format(group=group), array(i64, *out.shape), group=group), [out], read_grid(grid, group))
    assert np.array_equal(out, numbered(grid, group))


@pytest.mark.gpu
@pytest.mark.parametrize(("grid", "group"), [((40, 50), (4, 64)), ((10, 20, 30), (2, 4, 32)), ((3000,), (1, 256))])
def test_and_on_a_real_gpu(grid: tuple[int, ...], group: tuple[int, ...]):
    out = np.full((math.prod(grid) * math.prod(group), 14), -1)
    with overridden(target="cuda"):
        tessera.compile_source(IDS.format(group=group)).ids[grid, group](out)
    assert np.array_equal(out, numbered(grid, group))
