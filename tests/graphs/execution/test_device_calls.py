"""Calls on a GPU whose kernels the oracle runs: the same values however a call goes, and nothing shared by two calls."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownLambdaType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

import gc
import sys
import threading
from collections.abc import Callable

import numpy as np
import pytest

from support.interpreted_gpu import InterpretedDriver, install
from support.interrupts import interrupted_everywhere
from support.operators import Array, drawn
from tessera import graph, op
from tessera.core.errors.catalog import CudaFailure
from tessera.core.events import Launched, subscribe
from tessera.graphs.execution import frames
from tessera.graphs.function import GraphFunction
from tessera.runtime.launch.bound_launches import GRAPH_AFTER
from tessera.runtime.memory.owned import DeviceArray, to_device
from tessera.runtime.streams.graph_capture import CaptureSession, recording
from tessera.session.session import resolve_target

CALLS = GRAPH_AFTER + 3


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> InterpretedDriver:
    return install(monkeypatch, InterpretedDriver(2))


def steps(x: Array, w: Array) -> tuple[Array, Array]:
    """Several kernels: products, sums of rows and of columns of what they give."""
    a = op.matmul(x, w)
    b = op.softmax(a)
    c = op.matmul(b, w)
    return c - op.sum(c, 0), op.sum(op.exp(b), 1)


def expected(x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a = x.astype(np.float64) @ w
    b = np.exp(a - a.max(1, keepdims=True))
    b /= b.sum(1, keepdims=True)
    c = b @ w
    return c - c.sum(0), np.exp(b).sum(1)


def made(gpu: InterpretedDriver, function: Callable[..., Array], *arrays: np.ndarray) -> GraphFunction[..., Array]:
    """Capture a function whose kernels the GPU knows."""
    found: GraphFunction[..., Array] = graph.module("made")(function)
    gpu.know(found.executable_for(*arrays).kernels(resolve_target("cuda:sm_90a")))
    return found


def inputs(seed: int) -> tuple[np.ndarray, np.ndarray]:
    return drawn((16, 16), np.float32, seed), drawn((16, 16), np.float32, seed + 50, low=-1, high=1)


def agree(found: Array, wanted: tuple[np.ndarray, ...]) -> None:
    for each, want in zip(found, wanted, strict=True):
        assert isinstance(each, DeviceArray)
        np.testing.assert_allclose(each.get(), want, rtol=2e-4, atol=2e-4)


def test_calls_give_the_same_as_one_graph_as_by_launches(gpu: InterpretedDriver):
    """Inputs and outputs lie elsewhere in each call, and the third one is a graph whose parameters are patched."""
    run = made(gpu, steps, *inputs(0))
    kept = []
    for seed in range(CALLS):
        given = inputs(seed)
        found = run(*map(to_device, given))
        agree(found, expected(*given))
        kept.append((found, expected(*given)))
    kernels = len(run.executable.plan.groups)
    assert kernels > 3
    assert len(gpu.names) == CALLS * kernels
    assert sum(entry[0] == "replay" for entry in gpu.log) == CALLS - GRAPH_AFTER
    for found, wanted in kept:  # what was returned belongs to the caller
        agree(found, wanted)


def test_outputs_alone_are_allocated_by_further_calls(gpu: InterpretedDriver):
    run = made(gpu, steps, *inputs(0))
    given = tuple(map(to_device, inputs(0)))
    outputs = [run(*given) for _ in range(2)]
    before = len(gpu.memory)
    outputs += [run(*given) for _ in range(2 * CALLS)]
    assert len(gpu.memory) == before + 2 * 2 * CALLS
    assert len(outputs) == 2 + 2 * CALLS


def test_one_array_for_two_inputs_and_other_ones_later(gpu: InterpretedDriver):
    run = made(gpu, steps, *inputs(0))
    x, w = inputs(3)
    same = to_device(x)
    agree(run(same, same), expected(x, x))
    for _ in range(CALLS):
        agree(run(to_device(x), to_device(w)), expected(x, w))
        agree(run(same, same), expected(x, x))


def test_small_arrays_of_numpy_go_along(gpu: InterpretedDriver):
    run = made(gpu, lambda x, t: (op.softmax(op.matmul(x, x)) * t, op.sum(x, 0)), inputs(0)[0], np.array(1.0))
    x, _ = inputs(1)
    a = np.exp(x.astype(np.float64) @ x)
    for count in range(CALLS):
        t = np.array(count, np.float64)
        found, total = run(to_device(x), t)
        t[...] = -7  # what is the caller's may change as soon as the call is back
        np.testing.assert_allclose(found.get(), a / a.sum(1, keepdims=True) * count, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(total.get(), x.sum(0), rtol=1e-4, atol=1e-4)


def test_loops_are_unrolled_into_the_graph(gpu: InterpretedDriver):
    def run_all(x: Array, xs: Array) -> Array:
        return op.scan(lambda c, v: (op.tanh(op.matmul(c, v)), op.sum(c, 0)), x, xs)

    x, xs = drawn((16, 16), np.float32, low=-0.5, high=0.5), drawn((5, 16, 16), np.float32, low=-0.5, high=0.5)
    run = made(gpu, run_all, x, xs)
    for seed in range(CALLS):
        x = drawn((16, 16), np.float32, seed, low=-0.5, high=0.5)
        last, sums = run(to_device(x), to_device(xs))
        state = x.astype(np.float64)
        for number, v in enumerate(xs):
            np.testing.assert_allclose(sums.get()[number], state.sum(0), rtol=1e-3, atol=1e-4)
            state = np.tanh(state @ v)
        np.testing.assert_allclose(last.get(), state, rtol=1e-3, atol=1e-4)
    assert sum(entry[0] == "replay" for entry in gpu.log) == CALLS - GRAPH_AFTER


def test_what_the_host_does_lies_between_two_graphs(gpu: InterpretedDriver):
    @op.custom(shape=lambda x: x.shape)
    def turned(x: Array) -> Array:
        return np.ascontiguousarray(np.asarray(x).T)

    def around(x: Array, w: Array) -> Array:
        a = op.softmax(op.matmul(x, w))
        b = turned(a - op.sum(a, 0))
        return op.softmax(op.matmul(op.softmax(b), w)), b

    run = made(gpu, around, *inputs(0))
    for seed in range(CALLS):
        x, w = inputs(seed)
        a = np.exp(x.astype(np.float64) @ w)
        a /= a.sum(1, keepdims=True)
        b = (a - a.sum(0)).T
        e = np.exp(b)
        e = np.exp(e / e.sum(1, keepdims=True) @ w)
        agree(run(to_device(x), to_device(w)), (e / e.sum(1, keepdims=True), b))
    assert sum(entry[0] == "replay" for entry in gpu.log) == 2 * (CALLS - GRAPH_AFTER)


def test_two_threads_at_once_share_nothing(gpu: InterpretedDriver):
    """Between any two launches of one call another one runs whole."""
    run = made(gpu, steps, *inputs(0))
    agree(run(*map(to_device, inputs(0))), expected(*inputs(0)))
    nested: list[tuple[Array, tuple[np.ndarray, ...]]] = []
    real, depth = gpu._launch, 0

    def launch(*arguments: object) -> int:
        nonlocal depth
        if depth == 0:
            depth = 1
            given = inputs(len(nested) + 9)
            thread = threading.Thread(target=lambda: nested.append((run(*map(to_device, given)), expected(*given))))
            thread.start()
            thread.join()
            depth = 0
        return real(*arguments)  # type: ignore[arg-type]  # handed on

    gpu._launch = launch  # type: ignore[method-assign]  # between any two launches
    agree(run(*map(to_device, inputs(1))), expected(*inputs(1)))
    gpu._launch = real  # type: ignore[method-assign]  # as it was
    assert len(nested) == len(run.executable.plan.groups)
    for found, wanted in nested:
        agree(found, wanted)
    agree(run(*map(to_device, inputs(2))), expected(*inputs(2)))


def test_each_device_has_its_own(gpu: InterpretedDriver):
    run = made(gpu, steps, *inputs(0))
    for seed in range(CALLS):
        for device in (0, 1):
            given = inputs(seed + 7 * device)
            found = run(*(to_device(each, device) for each in given))
            assert all(each.device == device for each in found)
            agree(found, expected(*given))


def test_subscribers_are_told_of_every_kernel(gpu: InterpretedDriver):
    run = made(gpu, steps, *inputs(0))
    given = tuple(map(to_device, inputs(0)))
    for _ in range(CALLS):
        run(*given)
    told: list[Launched] = []
    with subscribe(told.append, Launched):
        agree(run(*given), expected(*inputs(0)))
    assert len(told) == len(run.executable.plan.groups)


def test_calls_are_part_of_a_graph_that_is_captured(gpu: InterpretedDriver):
    run = made(gpu, steps, *inputs(0))
    given = tuple(map(to_device, inputs(0)))
    for _ in range(CALLS):
        run(*given)
    with graph.capture() as captured:
        found = run(*given)
    run(*map(to_device, inputs(1)))  # an arena of its own: not that of the graph
    given[0].set(inputs(5)[0])
    graph.launch(captured)
    agree(found, expected(inputs(5)[0], inputs(0)[1]))
    assert len(captured.kernels) == len(run.executable.plan.groups)


def test_what_the_driver_refuses_names_the_kernel(gpu: InterpretedDriver):
    run = made(gpu, steps, *inputs(0))
    given = tuple(map(to_device, inputs(0)))
    run(*given)
    gpu.statuses = [0, 1]
    with pytest.raises(CudaFailure, match="kernel softmax_exp_sum: cuLaunchKernelEx: 1"):
        run(*given)
    for _ in range(CALLS):  # nothing is left of it
        agree(run(*given), expected(*inputs(0)))
    gpu.statuses = [1]  # of the graph: its kernels are launched one by one
    agree(run(*given), expected(*inputs(0)))
    # Either of another graph, of other places, and of a kernel that is launched instead, or of the first kernel.
    gpu.statuses = [1, 1]
    with pytest.raises(CudaFailure, match=r"kernel \w+: cuLaunchKernelEx: 1"):
        run(*given)


def test_ctrl_c_at_any_line_leaves_nothing_held(gpu: InterpretedDriver, monkeypatch: pytest.MonkeyPatch):
    """Neither a recording nor memory; the next calls are right, whatever was bound, moved or captured halfway."""
    # At the end of a `with` a tracer is called before the lock is released, where no signal comes: this one stays held.
    monkeypatch.setattr(frames, "_IDLE", frames._Idle())  # pyright: ignore[reportPrivateUsage]

    def two(x: Array) -> Array:
        return op.softmax(op.matmul(x, x))

    x = drawn((4, 4), np.float32)
    a = np.exp(x.astype(np.float64) @ x)
    wanted = a / a.sum(1, keepdims=True)
    run = made(gpu, two, x)
    executable, given = run.executable, (to_device(x), to_device(x.copy()))
    executable(given[0])
    before, counts = len(gpu.memory), 0

    def call() -> None:
        nonlocal counts
        counts += 1
        executable(given[counts % 2])

    def check(line: int) -> None:
        assert CaptureSession.count == 0, line
        assert recording() is None, line
        assert not gpu.captured, line
        (found,) = executable(given[0])
        assert isinstance(found, DeviceArray)
        np.testing.assert_allclose(found.get(), wanted, rtol=1e-5)
        del found
        sys.last_value = None
        gc.collect()
        assert len(gpu.memory) <= before + 3, line

    lines = interrupted_everywhere(call, check, "tessera/graphs/execution/", "launch/bound_launches.py")
    assert lines > 30


def test_arrays_at_odd_addresses_go_the_long_way(gpu: InterpretedDriver):
    run = made(gpu, steps, *inputs(0))
    x, w = inputs(1)
    for _ in range(CALLS):
        run(*map(to_device, inputs(0)))
    room = to_device(np.concatenate([[0], x.reshape(-1)]).astype(np.float32))
    odd = DeviceArray.over(room.address + 4, x.shape, x.dtype, 0, room)
    target = resolve_target("cuda:sm_90a")
    gpu.know(run.executable.kernels(target, [False, True]))
    for _ in range(CALLS):
        agree(run(odd, to_device(w)), expected(x, w))
