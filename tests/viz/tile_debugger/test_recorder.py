"""What the recorder writes down, against NumPy's slicing and against the arrays that the kernel leaves."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support import stepped_kernels as kernels
from tessera.kernels.kernel import Kernel
from tessera.viz.tile_debugger.recording import Launch, Limits, record
from tessera.viz.tile_debugger.trace import Trace

FEW = settings(max_examples=25, deadline=None)


def recorded(kernel: Kernel, *arguments: object, limits: Limits | None = None) -> Trace:
    return record(Launch.of(kernel, arguments, {}, None), limits)


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


def elements(shape: tuple[int, ...], *parts: slice) -> list[int]:
    return np.arange(np.prod(shape)).reshape(shape)[parts].ravel().tolist()


@FEW
@given(st.tuples(*[st.integers(1, 6)] * 3), st.tuples(*[st.integers(0, 7)] * 3))
def test_a_window_touches_what_slicing_says(shape: tuple[int, int, int], starts: tuple[int, int, int]):
    a, b = numbers(*shape), np.zeros(shape, np.float32)
    trace = recorded(kernels.window, a, b, *starts)
    parts = [slice(start, start + extent) for start, extent in zip(starts, (2, 4, 4), strict=True)]
    expected = elements(shape, *parts)
    (read,) = [touch for _, touch in trace.touches(0)]
    (written,) = [touch for _, touch in trace.touches(1)]
    assert (read.writes, read.elements.tolist(), read.outside) == (False, expected, 32 - len(expected))
    assert (written.writes, written.elements.tolist()) == (True, expected)
    assert written.values is not None
    assert np.array_equal(written.values, 2 * a[tuple(parts)].ravel())
    assert not b.any(), "the user's array is not written"


@FEW
@given(st.integers(1, 40), st.integers(1, 20), st.integers(1, 9))
def test_tiles_of_a_product(m: int, n: int, k: int):
    a, b, c = numbers(m, k), numbers(k, n), np.zeros((m, n), np.float32)
    trace = recorded(kernels.matmul, a, b, c)
    rows, columns = -(-m // 16), -(-n // 8)
    assert trace.total == len(trace.tiles) == rows * columns
    assert sorted(tile.number for tile in trace.tiles) == list(range(trace.total))
    for place, tile in enumerate(trace.tiles):
        at_m, at_n = 16 * (tile.number // columns), 8 * (tile.number % columns)
        assert tile.name == f"m={at_m}, n={at_n}"
        touched = {name: np.flatnonzero(trace.marks(i, [place])).tolist() for i, name in enumerate("ABC")}
        assert touched == {
            "A": elements((m, k), slice(at_m, at_m + 16), slice(None)),
            "B": elements((k, n), slice(None), slice(at_n, at_n + 8)),
            "C": elements((m, n), slice(at_m, at_m + 16), slice(at_n, at_n + 8)),
        }
    after = trace.contents(2, len(trace.steps) - 1)
    kernels.matmul.launch((a, b, c))
    assert after is not None
    assert np.allclose(after, c, rtol=1e-5, atol=1e-5)


@FEW
@given(st.lists(st.integers(-3, 12), min_size=1, max_size=40))
def test_lanes_touch_the_elements_that_their_indices_name(indices: list[int]):
    index = np.asarray(indices, np.int32)
    trace = recorded(kernels.gather, numbers(10), index, np.zeros(len(index), np.float32))
    (touch,) = [touch for _, touch in trace.touches(0)]
    inside = [(lane, element) for lane, element in enumerate(indices) if 0 <= element < 10]
    assert touch.lanes is not None
    assert list(zip(touch.lanes.tolist(), touch.elements.tolist(), strict=True)) == inside
    assert touch.outside == len(indices) - len(inside)


def test_masked_lanes_at_a_ragged_end():
    launch = Launch.of(kernels.saxpy, (numbers(300), numbers(300), 2.0), {}, kernels.saxpy[3, 128].grid)
    trace = record(launch)
    assert [tile.name for tile in trace.tiles] == ["lanes 0 to 127", "lanes 128 to 255", "lanes 256 to 383"]
    last = [trace.steps[number] for number in trace.by_tile[2]]
    assert [(step.line - last[0].line, step.kind) for step in last] == [
        (0, "statement"), (1, "branch"), (2, "statement"), (3, "statement"),
    ]  # fmt: skip
    assert last[1].active is None
    active = last[2].active
    assert active is not None
    assert np.flatnonzero(active).tolist() == list(range(44))
    (t,) = last[2].variables
    assert (t.name, t.by_lane, t.values.shape) == ("t", True, (128,))
    assert t.exists is active
    assert [(touch.writes, len(touch.elements)) for touch in last[3].touches] == [(False, 44), (True, 44)]


def test_steps_of_a_loop_know_their_trips_and_variables():
    trace = recorded(kernels.matmul, numbers(16, 10), numbers(10, 8), np.zeros((16, 8), np.float32))
    dots = [step for step in trace.steps if any(touch.array == 0 for touch in step.touches)]
    assert [[(trip.name, trip.index, trip.number) for trip in step.trips] for step in dots] == [
        [("m", 0, 0), ("n", 0, 0), ("k", 4 * k, k)] for k in range(3)
    ]
    assert [variable.name for step in dots for variable in step.variables] == ["total"] * 3
    # What is outside in the last trip does not exist, but every element of the sum does.
    assert [touch.outside for touch in dots[2].touches] == [32, 16]


def test_shared_memory_barriers_and_who_wrote_an_element():
    x = numbers(80)
    launch = Launch.of(kernels.group_sum, (x, np.zeros(2, np.float32)), {}, kernels.group_sum[2, 32].grid)
    trace = record(launch)
    assert [array.name for array in trace.arrays] == ["x", "out", "smem"]
    assert trace.arrays[2].shared
    assert [tile.name for tile in trace.tiles] == ["group 0", "group 1"]
    assert any(step.kind == "barrier" for step in trace.steps)
    writer = [use for use in trace.users(2, 5) if use[1].writes]
    assert [(trace.steps[number].tile, lane) for number, _, lane in writer] == [(0, 5), (1, 5)]
    smem = trace.contents(2, trace.by_tile[1][-1])
    assert smem is not None
    assert np.allclose(smem, [x[32 + i :: 64].sum() for i in range(32)])
    # The group reads all of it at once.
    assert [lane for _, touch, lane in trace.users(2, 5) if not touch.writes] == [None, None]


def test_an_asynchronous_copy_lands_at_the_barrier():
    x = numbers(32)
    trace = recorded(kernels.staged, x, np.zeros(32, np.float32))
    barrier = next(step for step in trace.steps if step.kind == "barrier")
    (landed,) = barrier.touches
    assert (trace.arrays[landed.array].name, landed.writes, len(landed.elements)) == ("buffer", True, 32)
    assert landed.values is not None
    assert np.array_equal(landed.values, x)
    copy = next(step for step in trace.steps if any(touch.array == 0 for touch in step.touches))
    assert trace.steps.index(copy) < trace.steps.index(barrier)


def test_trips_of_a_while_loop():
    trace = recorded(kernels.halve, np.asarray([1, 2, 9], np.int32))
    loops = [step for step in trace.steps if step.kind == "loop"]
    assert [step.trips[-1].number for step in loops] == [0, 1, 2, 3]
    last = trace.contents(0, len(trace.steps) - 1)
    assert last is not None
    assert last.tolist() == [1, 1, 1]


@pytest.mark.parametrize(("steps", "said"), [(20, "after 40 statements"), (100_000, "elements computed")])
def test_a_recording_that_is_too_long_ends(steps: int, said: str):
    x = np.full(4, 1 << 30, np.int32)
    trace = recorded(kernels.halve, x, limits=Limits(tiles=1, steps=steps, work=20_000 if steps > 20 else 1 << 30))
    assert said in trace.left_out[-1]
    assert len(trace.steps) <= 2 * steps
