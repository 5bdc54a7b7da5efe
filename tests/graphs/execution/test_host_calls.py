"""Calls on the host with bound launches: the same values however a call goes, and nothing shared by two calls."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownLambdaType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

import sys
import threading
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from support.interrupts import interrupted_everywhere
from support.operators import Array, drawn
from tessera import graph, op
from tessera.core.errors.catalog import NotAnArray
from tessera.core.events import Launched, subscribe
from tessera.core.graph.graph import Value
from tessera.graphs.execution import frames, host_calls
from tessera.graphs.execution.frames import Memory
from tessera.graphs.execution.host_calls import BoundHostGraph, HostSequence
from tessera.graphs.function import GraphFunction
from tessera.runtime.streams.graph_capture import CaptureSession, recording

CALLS = 4
SHAPE = (24, 16)


def steps(x: Array, w: Array) -> tuple[Array, Array]:
    """Several kernels: products, sums of rows and of columns of what they give."""
    a = op.matmul(x, w)
    b = op.softmax(a)
    c = op.matmul(b, w)
    return c - op.sum(c, 0), op.sum(op.exp(b), 1)


def expected(x: NDArray[Any], w: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    a = x.astype(np.float64) @ w
    b = np.exp(a - a.max(1, keepdims=True))
    b /= b.sum(1, keepdims=True)
    c = b @ w
    return c - c.sum(0), np.exp(b).sum(1)


def inputs(seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    return drawn(SHAPE, np.float32, seed), drawn((16, 16), np.float32, seed + 50, low=-1, high=1)


def agree(found: Array, wanted: tuple[NDArray[Any], ...]) -> None:
    for each, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(each, want, rtol=2e-4, atol=2e-4)


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the bound rows of each call that goes the quick way."""
    counts: list[int] = []
    run = BoundHostGraph.run

    def counted(self: BoundHostGraph, places: dict[Value, int], memory: Memory) -> None:
        counts.append(sum(isinstance(part, HostSequence) for part in self.parts))
        run(self, places, memory)

    monkeypatch.setattr(host_calls.BoundHostGraph, "run", counted)
    return counts


def made(function: Callable[..., Array]) -> GraphFunction[..., Array]:
    found: GraphFunction[..., Array] = graph.module("made")(function)
    return found


def test_arrays_elsewhere_in_each_call(bound: list[int]):
    run, returned = made(steps), []
    for seed in range(CALLS):
        found = run(*inputs(seed))
        agree(found, expected(*inputs(seed)))
        returned.append((found, expected(*inputs(seed))))
    assert len(run.executable.plan.groups) > 3
    assert bound == [1] * CALLS
    for found, wanted in returned:  # what was returned belongs to the caller
        agree(found, wanted)


def test_one_array_for_two_inputs_and_other_ones_later(bound: list[int]):
    run = made(lambda a, b: op.matmul(op.softmax(a), b) + op.sum(b))
    x, w = drawn((16, 16), np.float32, 1), drawn((16, 16), np.float32, 2)

    def right(a: NDArray[Any], b: NDArray[Any]) -> NDArray[Any]:
        weights = np.exp(a.astype(np.float64))
        return weights / weights.sum(1, keepdims=True) @ b + b.sum()

    for pair in ((x, x), (x, w), (w, w), (w, x), (x, x)):
        np.testing.assert_allclose(run(*pair), right(*pair), rtol=1e-4, atol=1e-4)
    assert len(bound) == 5


def test_arrays_of_another_kind_go_the_long_way(bound: list[int]):
    run = made(steps)
    x, w = inputs(1)
    room = np.zeros(x.nbytes + 1, np.uint8)
    odd = room[1:].view(np.float32).reshape(x.shape)
    odd[...] = x
    for _ in range(CALLS):
        agree(run(x, w), expected(x, w))
    quick = len(bound)
    for other in (np.asfortranarray(x), np.repeat(x, 2, axis=1)[:, ::2], x[::-1][::-1], x.astype(">f4").astype("f4")):
        agree(run(other, w), expected(x, w))
    with pytest.raises(NotAnArray, match="the elements of x are not aligned"):
        run(odd, w)
    agree(run(x[:5], w), expected(x[:5], w))
    agree(run(x.astype(np.float64), w), expected(x, w))
    assert len(bound) > quick


def test_steps_between_two_rows(bound: list[int]):
    @op.custom(shape=lambda x: x.shape)
    def turned(x: Array) -> Array:
        return np.ascontiguousarray(np.asarray(x).T)

    def around(x: Array, w: Array) -> tuple[Array, Array, Array]:
        a = op.softmax(op.matmul(x, w))
        b = turned(a - op.sum(a, 0))
        return op.softmax(op.matmul(op.sort(b), w)), b, op.cumsum(b, 0)

    run = made(around)
    for seed in range(CALLS):
        x, w = drawn((16, 16), np.float32, seed), drawn((16, 16), np.float32, seed + 50, low=-1, high=1)
        a = np.exp(x.astype(np.float64) @ w)
        a /= a.sum(1, keepdims=True)
        b = (a - a.sum(0)).T
        e = np.exp(np.sort(b) @ w)
        agree(run(x, w), (e / e.sum(1, keepdims=True), b, b.cumsum(0)))
    assert len(bound) == CALLS
    assert min(bound) > 1


def test_loops_and_branches(bound: list[int]):
    def run_all(x: Array, xs: Array) -> tuple[Array, Array]:
        last, sums = op.scan(lambda c, v: (op.tanh(op.matmul(c, v)), op.sum(c, 0)), op.softmax(x), xs)
        return op.cond(op.sum(last) > 0.0, lambda: last, lambda: -last), sums

    run = made(run_all)
    for seed in range(CALLS):
        x, xs = drawn((8, 8), np.float32, seed), drawn((5, 8, 8), np.float32, seed, low=-0.5, high=0.5)
        state = np.exp(x.astype(np.float64))
        state /= state.sum(1, keepdims=True)
        sums = []
        for v in xs:
            sums.append(state.sum(0))
            state = np.tanh(state @ v)
        agree(run(x, xs), (state if state.sum() > 0 else -state, np.stack(sums)))
    assert len(bound) == CALLS


@pytest.mark.parametrize("dtype", [np.float64, np.float16, ml_dtypes.bfloat16, np.int32, np.uint8, np.bool_], ids=str)
def test_results_of_every_dtype(dtype: type, bound: list[int]):
    run = made(lambda x, y: (op.where(x > y, x, y), op.sum(x, 0), op.reshape(x, (-1,))[3:], x))
    for seed in range(CALLS):
        x, y = (np.round(drawn((5, 7), np.float64, seed + n, low=0)).astype(dtype) for n in range(2))
        found = run(x, y)
        for each, want in zip(found, (np.where(x > y, x, y), x.sum(0), x.reshape(-1)[3:], x), strict=True):
            np.testing.assert_array_equal(np.asarray(each, np.float64), np.asarray(want, np.float64))
        assert found[0].dtype == dtype
        assert not np.shares_memory(found[3], x)
    assert len(bound) == CALLS


def test_arrays_without_elements_and_without_axes(bound: list[int]):
    run = made(lambda x, t: (op.sum(x, 0) + t, x * 2.0, op.exp(t)))
    for shape in ((0, 3), (4, 0), (4, 3)):
        for seed in range(2):
            x, t = drawn(shape, np.float32, seed), np.array(1.5 + seed, np.float32)
            total, doubled, grown = run(x, t)
            np.testing.assert_allclose(total, x.sum(0) + t, rtol=1e-6)
            np.testing.assert_array_equal(doubled, 2 * x)
            np.testing.assert_allclose(grown, np.exp(t), rtol=1e-6)
    assert bound


def test_arrays_that_fill_all_threads(bound: list[int]):
    run = made(lambda x, w: op.softmax(op.matmul(x, w)) + 1.0)
    for seed in range(2):
        x, w = drawn((600, 300), np.float32, seed), drawn((300, 500), np.float32, seed, low=-0.1, high=0.1)
        a = np.exp(x.astype(np.float64) @ w)
        np.testing.assert_allclose(run(x, w), a / a.sum(1, keepdims=True) + 1, rtol=1e-5)
    assert len(bound) == 2


def test_numbers_that_vary_are_elements(bound: list[int]):
    run = made(lambda x, rate: (x - rate * op.sum(x), x * rate))
    x = drawn(SHAPE, np.float32)
    for step in range(1, 9):
        rate = 0.1 / step
        found = run(x, rate)
        np.testing.assert_allclose(found[1], x * np.float32(rate), rtol=1e-6)
    assert bound


def test_two_threads_at_once_share_nothing(monkeypatch: pytest.MonkeyPatch):
    """Between any two rows and launches of one call another one runs whole."""
    run = made(steps)
    agree(run(*inputs(0)), expected(*inputs(0)))
    nested: list[tuple[Array, tuple[NDArray[Any], ...]]] = []
    real, depth = HostSequence.run, 0

    def between(self: HostSequence, places: dict[Value, int]) -> None:
        nonlocal depth
        if depth == 0:
            depth = 1
            for _ in range(3):
                given = inputs(len(nested) + 9)
                thread = threading.Thread(target=lambda given=given: nested.append((run(*given), expected(*given))))
                thread.start()
                thread.join()
            depth = 0
        real(self, places)

    monkeypatch.setattr(HostSequence, "run", between)
    agree(run(*inputs(1)), expected(*inputs(1)))
    assert len(nested) == 3
    for found, wanted in nested:
        agree(found, wanted)


def test_threads_that_run_together():
    run, wrong = made(steps), list[BaseException]()
    agree(run(*inputs(0)), expected(*inputs(0)))

    def many(first: int) -> None:
        try:
            for seed in range(first, first + 20):
                agree(run(*inputs(seed)), expected(*inputs(seed)))
        except BaseException as mistake:  # noqa: BLE001 - the main thread reports it
            wrong.append(mistake)

    threads = [threading.Thread(target=many, args=(30 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_subscribers_are_told_of_every_kernel(bound: list[int]):
    run = made(steps)
    for _ in range(CALLS):
        run(*inputs(0))
    quick = len(bound)
    told: list[Launched] = []
    with subscribe(told.append, Launched):
        agree(run(*inputs(0)), expected(*inputs(0)))
    assert len(told) == len(run.executable.plan.groups)
    assert len(bound) == quick


def test_calls_are_part_of_a_graph_that_is_captured(bound: list[int]):
    run = made(steps)
    given = inputs(0)
    for _ in range(CALLS):
        run(*given)
    quick = len(bound)
    with graph.capture() as captured:
        found = run(*given)
    assert len(bound) == quick
    run(*inputs(1))  # an arena of its own: not that of the graph
    given[0][...] = inputs(5)[0]
    graph.launch(captured)
    agree(found, expected(inputs(5)[0], inputs(0)[1]))


def test_ctrl_c_at_any_line_leaves_nothing_held(monkeypatch: pytest.MonkeyPatch):
    """The next calls are right, whatever was bound or moved halfway."""
    # At the end of a `with` a tracer is called before the lock is released, where no signal comes: this one stays held.
    monkeypatch.setattr(frames, "_IDLE", frames._Idle())  # pyright: ignore[reportPrivateUsage]
    run = made(lambda x: op.softmax(op.matmul(x, x)))
    x = drawn((4, 4), np.float32)
    a = np.exp(x.astype(np.float64) @ x)
    wanted = a / a.sum(1, keepdims=True)
    run(x)
    executable, given, counts = run.executable, (x, x.copy()), 0

    def call() -> None:
        nonlocal counts
        counts += 1
        executable(given[counts % 2])

    def check(line: int) -> None:
        assert CaptureSession.count == 0, line
        assert recording() is None, line
        for each in given:
            (found,) = executable(each)
            np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-5)
        sys.last_value = None

    assert interrupted_everywhere(call, check, "execution/host_calls.py", "launch/cpu.py") > 15


def test_tensors_of_pytorch(bound: list[int]):
    torch = pytest.importorskip("torch", reason="could not import 'torch'")
    run = made(steps)
    x, w = inputs(0)
    for _ in range(CALLS):
        found = run(torch.from_numpy(x.copy()), torch.from_numpy(w))
        assert all(isinstance(each, torch.Tensor) for each in found)
        agree([each.numpy() for each in found], expected(x, w))
    agree([each.numpy() for each in run(torch.from_numpy(x.T.copy()).T, torch.from_numpy(w))], expected(x, w))
    assert len(bound) >= CALLS
