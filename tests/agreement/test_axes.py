"""Lanes, groups and grids are numbered as arrays are, the last axis fastest: `numpy.unravel_index` says where they are."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tessera
from frontend.kernels import array, build
from support import tile_machine
from support.simulate import simulate
from tessera.core.base.dtypes import f32, i64
from tessera.core.errors.catalog import MissingSchedule
from tessera.core.settings import overridden
from tessera.runtime.binding.grid import read_grid

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


@settings(max_examples=8)
@given(extents(12))
def test_groups_of_tile_kernels_are_too(grid: tuple[int, ...]):
    """On the interpreter, on the CPU, for a GPU and for CUDA Tile."""
    text = """@kernel
def groups(out: mut i64[n, 4]):
    g = group_linear_id()
    for axis in [0, 1, 2]:
        out[g, axis] = tile.group_id(axis)
    out[g, 3] = g
"""
    count = math.prod(grid)
    places = np.stack(np.unravel_index(np.arange(count), (*grid, 1, 1)[:3]), axis=1)
    want = np.concatenate([places, np.arange(count)[:, None]], axis=1)
    for target in ("interpret", "cpu"):
        out = np.full((count, 4), -1)
        with overridden(target=target):
            tessera.compile_source(text).groups[grid, 1](out)
        assert np.array_equal(out, want), target
    program = build(text, array(i64, count, 4))
    for run in (simulate, tile_machine.simulate):
        out = np.full((count, 4), -1)
        run(program, [out], read_grid(grid))
        assert np.array_equal(out, want), run


@pytest.mark.gpu
@pytest.mark.parametrize(("grid", "group"), [((40, 50), (4, 64)), ((10, 20, 30), (2, 4, 32)), ((3000,), (1, 256))])
def test_and_on_a_real_gpu(grid: tuple[int, ...], group: tuple[int, ...]):
    out = np.full((math.prod(grid) * math.prod(group), 14), -1)
    with overridden(target="cuda"):
        tessera.compile_source(IDS.format(group=group)).ids[grid, group](out)
    assert np.array_equal(out, numbered(grid, group))


IMAGES = {
    "along two axes": (
        "i, j = launch.thread_id(0), launch.thread_id(1)\n    if i < h and j < w:\n        y[i, j] = x[i, j] + x[i, j - 1] + x[i - 1, j]"
    ),
    "bounds of the inside": (
        "i, j = launch.thread_id(0), launch.thread_id(1)\n    if i >= h or j >= w:\n        return\n"
        "    y[i, j] = x[i, j] + x[i, j - 1] + x[i - 1, j]"
    ),
    "over all axes": (
        "t = launch.thread_id()\n    if t < h * w:\n        i, j = t // w, t % w\n        y[i, j] = x[i, j] + x[i, j - 1] + x[i - 1, j]"
    ),
}
SHAPES = st.tuples(st.sampled_from([0, 1, 2, 7, 33, 70]), st.sampled_from([0, 1, 3, 4, 31, 32, 33, 100, 256, 300]))


def image(body: str, group: str) -> str:
    return f"@kernel{group}\ndef k(x: f32[h, w], y: mut f32[h, w]):\n    {body}\n"


def added(x: np.ndarray) -> np.ndarray:
    padded = np.pad(x, ((1, 0), (1, 0)))
    return x + padded[1:, :-1] + padded[:-1, 1:]


@pytest.mark.parametrize("target", ["interpret", "cpu"])
@settings(max_examples=12)
@given(
    SHAPES, st.sampled_from(sorted(IMAGES)), st.sampled_from(["", " tile[(16, 16)]", " tile[(1, 64)]", " tile[(8, 4)]"])
)
def test_a_grid_is_derived_along_each_axis(target: str, shape: tuple[int, int], case: str, group: str):
    x, y = np.random.default_rng(sum(shape)).random(shape, np.float32), np.full(shape, np.nan, np.float32)
    text = image(IMAGES[case], "" if case == "over all axes" else group)
    with overridden(target=target):
        tessera.compile_source(text).k(x, y)
    assert np.array_equal(y, added(x))


@settings(max_examples=8)
@given(SHAPES, st.sampled_from(sorted(IMAGES)), st.sampled_from([None, (16, 16), (1, 64), (8, 4)]))
def test_and_on_a_gpu_too(shape: tuple[int, int], case: str, group: tuple[int, int] | None):
    x, y = np.random.default_rng(sum(shape)).random(shape, np.float32), np.full(shape, np.nan, np.float32)
    given_group = None if case == "over all axes" else group
    simulate(build(image(IMAGES[case], ""), array(f32, *shape), array(f32, *shape), group=given_group), [x, y])
    assert np.array_equal(y, added(x))


COUNTED = """@kernel{group}
def count(seen: mut i32[d, h, w]):
    i, j, k = launch.thread_id(0), launch.thread_id(1), launch.thread_id(2)
    if i < d and j < h and k < w:
        seen[i, j, k] += 1
"""


@pytest.mark.parametrize("target", ["interpret", "cpu"])
@pytest.mark.parametrize("group", ["", " tile[(2, 4, 8)]"])
@pytest.mark.parametrize("shape", [(3, 5, 300), (20, 30, 3), (2, 40, 33), (1, 1, 1), (4, 0, 5)])
def test_every_element_has_its_lane(shape: tuple[int, ...], group: str, target: str):
    seen = np.zeros(shape, np.int32)
    with overridden(target=target):
        kernel = tessera.compile_source(COUNTED.format(group=group)).count
        kernel(seen)
        assert (seen == 1).all()
        kernel(seen)
        assert (seen == 2).all()


@pytest.mark.parametrize("target", ["interpret", "cpu"])
def test_a_launch_may_say_the_groups_of_a_kernel_that_leaves_them_open(target: str):
    seen = np.zeros((40, 50), np.int32)
    text = "@kernel\ndef k(seen: mut i32[h, w]):\n    seen[launch.thread_id(0), launch.thread_id(1)] += 1\n"
    with overridden(target=target):
        kernel = tessera.compile_source(text).k
        kernel(seen)
        kernel[(2, 3), (4, 5)](seen)
        kernel[(2, 3), (8, 4)](seen)
        kernel[((2, 3),)](seen)
        tessera.launch.grid(blocks=(3, 1), threads=(1, 50))(kernel)(seen)
        kernel(seen)
    want = np.full((40, 50), 2)
    for rows, columns in ((8, 15), (16, 12), (2, 3), (3, 50)):
        want[:rows, :columns] += 1
    assert np.array_equal(seen, want)


def test_what_no_axis_is_compared_with_has_to_be_given():
    kernel = tessera.compile_source(
        "@kernel tile[(8, 8)]\ndef k(y: mut f32[h, w]):\n    i, j = launch.thread_id(0), launch.thread_id(1)\n    if i < h:\n"
        "        y[i, 2 * j] = 1.0\n"
    ).k
    with pytest.raises(MissingSchedule, match="nothing tells how many lanes k needs along axis 1") as caught:
        kernel(np.zeros((4, 4), np.float32))
    assert "compare the lane's index with an extent, or give a grid: k[blocks, threads](...)" in caught.value.hint


@pytest.mark.gpu
@pytest.mark.parametrize("case", IMAGES)
@pytest.mark.parametrize("shape", [(4096, 4096), (5000, 3001), (100_000, 3), (3, 1_000_000)])
def test_large_images(shape: tuple[int, int], case: str):
    x, y = np.random.default_rng(0).random(shape, np.float32), np.full(shape, np.nan, np.float32)
    with overridden(target="cuda"):
        tessera.compile_source(image(IMAGES[case], "")).k(x, y)
    assert np.array_equal(y, added(x))


@pytest.mark.gpu
@pytest.mark.parametrize("shape", [(300, 500, 700), (2000, 3000, 3), (1_000_000, 2, 5)])
def test_large_volumes(shape: tuple[int, ...]):
    seen = np.zeros(shape, np.int32)
    with overridden(target="cuda"):
        tessera.compile_source(COUNTED.format(group="")).count(seen)
    assert (seen == 1).all()


DIVIDED = """@kernel
def divided(x: f32[w], quotient: mut i64[n], remainder: mut i64[n], offset: i64):
    t = launch.thread_id()
    if t < n:
        quotient[t] = (t + 7) // w
        remainder[t] = (t + 7) % w
        if (t + offset) // w > (t + offset) % w:
            quotient[t] += 1000
"""


@pytest.mark.parametrize("target", ["interpret", "cpu"])
@given(st.one_of(st.integers(0, 70), st.sampled_from([100, 127, 128, 999, 1000, 100_000])), st.integers(-50, 50))
def test_rows_and_columns_of_lanes(target: str, width: int, offset: int):
    """One division a warp on the CPU, whatever the width of a row is; a width of 0 gives 0."""
    n = 1000
    quotient, remainder = np.full(n, -1), np.full(n, -1)
    with overridden(target=target):
        tessera.compile_source(DIVIDED).divided(np.zeros(width, np.float32), quotient, remainder, offset)
    t = np.arange(n)
    above = (t + offset) // width > (t + offset) % width if width else np.zeros(n, np.bool_)
    assert np.array_equal(quotient, ((t + 7) // width if width else 0 * t) + 1000 * above)
    assert np.array_equal(remainder, (t + 7) % width if width else 0 * t)
