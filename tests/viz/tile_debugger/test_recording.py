"""Which tiles are recorded, and what is said of the others."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import stepped_kernels as kernels
from tessera.api.source_module import compile_source
from tessera.core.errors.catalog import OverlappingArrays
from tessera.viz.tile_debugger.recording import Launch, Limits, choose, record


@given(st.lists(st.integers(1, 50), min_size=1, max_size=4), st.integers(1, 64))
def test_places_are_within_the_bound_and_hold_the_edges(sizes: list[int], most: int):
    chosen = choose(sizes, most)
    assert 1 <= math.prod(map(len, chosen)) <= most
    for places, size in zip(chosen, sizes, strict=True):
        assert 0 in places
        assert max(places) < size
        assert len(places) == 1 or size - 1 in places
    if math.prod(sizes) <= most:
        assert math.prod(map(len, chosen)) == math.prod(sizes)


def launch(m: int = 70, n: int = 30, k: int = 4) -> Launch:
    random = np.random.default_rng(0)
    a, b = (random.standard_normal(shape).astype(np.float32) for shape in ((m, k), (k, n)))
    return Launch.of(kernels.matmul, (a, b, np.zeros((m, n), np.float32)), {}, None)


def test_few_tiles_are_the_first_and_the_last_along_each_axis():
    trace = record(launch(), Limits(tiles=4))
    assert trace.total == 20
    assert [tile.name for tile in trace.tiles] == ["m=0, n=0", "m=0, n=24", "m=64, n=0", "m=64, n=24"]
    assert [tile.number for tile in trace.tiles] == [0, 3, 16, 19]
    (said,) = trace.left_out
    assert said == (
        "4 of 20 tiles were recorded, the first ones and the last along each axis; "
        "the contents of arrays lack what the other tiles write"
    )


def test_any_one_tile_can_be_recorded():
    trace = record(launch(), tile=6)
    assert [(tile.number, tile.name) for tile in trace.tiles] == [(6, "m=16, n=16")]
    assert np.flatnonzero(trace.marks(2)).tolist() == np.arange(70 * 30).reshape(70, 30)[16:32, 16:24].ravel().tolist()
    with pytest.raises(IndexError, match="matmul has 20 tiles, and no tile 20"):
        record(launch(), tile=20)


def test_groups_are_chosen_along_the_grid():
    x = np.zeros(10_000, np.float32)
    trace = record(Launch.of(kernels.saxpy, (x, x.copy(), 1.0), {}, None), Limits(tiles=3))
    assert trace.total == 79
    assert [tile.lanes for tile in trace.tiles] == [(0, 128), (128, 256), (9984, 10_000)]


def test_one_array_given_twice_is_one():
    y = np.arange(8, dtype=np.float32).reshape(2, 2, 2)
    for other in (y, y[:], y.reshape(2, 2, 2)):  # as a call takes them: the same memory, whatever object names it
        trace = record(Launch.of(kernels.window, (y, other, 0, 0, 0), {}, None))
        assert [array.name for array in trace.arrays] == ["A"]
        after = trace.contents(0, len(trace.steps) - 1)
        assert after is not None
        assert np.array_equal(after, 2 * y)


def test_arrays_that_overlap_are_refused_as_a_call_refuses_them():
    x = np.zeros(100, np.float32)
    with pytest.raises(OverlappingArrays, match="y and x overlap without being the same array"):
        record(Launch.of(kernels.saxpy, (x[:-1], x[1:], 2.0), {}, None))


@pytest.mark.parametrize("count", [0, 1])
def test_a_launch_without_lanes_has_no_tiles(count: int):
    x = np.ones(count, np.float32)
    trace = record(Launch.of(kernels.saxpy, (x, x.copy(), 2.0), {}, None))
    assert (trace.total, len(trace.tiles)) == (count, count)
    said = ("no statement ran: the launch has no lanes, its loops have no trips, or it computes nothing",)
    assert trace.left_out == (() if count else said)


def test_copies_are_laid_out_like_the_arguments():
    a, b, c = (np.ones((70, 90), np.float32) for _ in range(3))
    given = Launch.of(kernels.matmul, (a[:40, :48], b[:48, :40], c[:40, :40]), {}, None)
    trace = record(given, Limits(tiles=4))
    assert trace.total > 0
    assert (c == 1).all()


def test_elements_without_a_value_are_told():
    kernel = compile_source(
        "@kernel\ndef above(x: f32[m, n], y: mut f32[m, n]):\n    for i in tile.range(m, step=4):\n"
        "        y[i : i + 4, :] = x[i - 1 : i + 3, :]\n"
    ).above
    x = np.ones((8, 3), np.float32)
    trace = record(Launch.of(kernel, (x, np.zeros_like(x)), {}, None))
    assert trace.left_out == (
        "line 4 leaves out 3 elements of y, where what is stored has no value: it comes from outside of an array",
    )
