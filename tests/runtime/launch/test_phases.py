"""Kernels of several launches: values, workspaces, streams and graphs, on the CPU and on a driver that runs PTX."""

from typing import Any, cast

import numpy as np
import pytest

from frontend.kernels import array, build
from support import fake_cuda, raw_kernels
from support.fake_cuda import FakeDriver
from support.product_programs import matrix_product
from support.simulate import compile_cuda, compile_ptx
from tessera.core.base.dtypes import f32
from tessera.core.base.reductions import tree_sum
from tessera.core.errors.catalog import ExtentMismatch, OverlappingArrays
from tessera.core.program.program import Program
from tessera.lowering.base.host_cpu import host_target
from tessera.lowering.driver.compile import compile_program
from tessera.lowering.program.split_phases import phases
from tessera.runtime.launch.launch_plan import LaunchPlan
from tessera.runtime.launch.on_stream import launch_on, record_launch
from tessera.runtime.launch.phases import DevicePhases, HostPhases, launch_bytes
from tessera.runtime.memory.owned import DeviceArray
from tessera.runtime.streams.graph_capture import CapturedGraph, HostWork
from tessera.runtime.streams.streams import Stream

TEXT = """
def k(x: f32[n, 8], w: f32[8], y: mut f32[n, 8], out: mut f32[8]):
    for r in tile.range(n):
        y[r, :] = x[r, :] * w[:]
    for r in tile.range(n):
        out[:] += y[n - 1 - r, :]
"""
TYPES = (np.ndarray,) * 4


def program(n: int = 200) -> Program:
    return build(TEXT, array(f32, n, 8), array(f32, 8), array(f32, n, 8), array(f32, 8))


def arguments(n: int) -> tuple[np.ndarray, ...]:
    x = np.random.default_rng(n).standard_normal((n, 8)).astype(np.float32)
    return x, x[0].copy(), np.zeros((n, 8), np.float32), np.ones(8, np.float32)


def check(n: int, values: tuple[np.ndarray, ...], calls: int = 1) -> None:
    x, w, y, out = values
    np.testing.assert_array_equal(y, x * w)
    want = np.ones(8, np.float32)
    for _ in range(calls):
        want = want + tree_sum((x * w)[::-1], 0)
    np.testing.assert_array_equal(out, want)


@pytest.fixture(scope="module")
def host() -> HostPhases:
    parts = phases(program())
    assert len(parts) == 4
    target = host_target()
    return HostPhases([compile_program(part, target, False).artifact for part in parts], parts[0].given, TYPES)


@pytest.mark.parametrize("n", [1, 200, 5000])
def test_on_the_cpu(host: HostPhases, n: int):
    values = arguments(n)
    host(*values)
    check(n, values)
    assert host.run(values)
    check(n, values, calls=2)
    blocks = -(-n // 4096)
    assert host.last_groups == (n, 128 * blocks, blocks, 1)


def test_mistakes_are_those_of_one_launch(host: HostPhases):
    x, w, y, out = arguments(9)
    assert not host.run((x, w, y[:5], out))
    with pytest.raises(ExtentMismatch, match=r"n = 9 but y has n = 5"):
        host(x, w, y[:5], out)
    with pytest.raises(OverlappingArrays):
        host(x[1:], w, x[:-1], out)


def test_bound_to_run_later(host: HostPhases):
    values = arguments(64)
    bound = host.prepare(values)
    assert bound is not None
    for _ in range(3):
        bound.run()
    check(64, values, calls=3)
    bound.cancel()
    bound.run()
    check(64, values, calls=3)


def test_in_a_stream_and_in_a_recording(host: HostPhases):
    values, stream = arguments(30), Stream()
    launch_on(stream, host, values, None)
    stream.synchronize()
    check(30, values)
    noted = CapturedGraph()
    record_launch(noted, None, host, values, None)
    ((_, step),) = noted.steps
    assert isinstance(step, HostWork)
    step.work.run()
    check(30, values, calls=2)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    return fake_cuda.install(monkeypatch, FakeDriver())


@pytest.fixture(scope="module")
def ptx() -> tuple[Any, ...]:
    parts = phases(program())
    return [compile_ptx(part) for part in parts], parts[0].given, TYPES


def test_on_a_gpu(fake: FakeDriver, ptx: tuple[Any, ...]):
    kernel = DevicePhases(*ptx)
    values = arguments(40)
    placed = tuple(fake.device_array(value) for value in values)
    assert not kernel.run(placed)
    kernel(*placed)
    before = len(fake.memory)
    kernel(*placed)
    assert len(fake.memory) == before  # the workspaces are kept
    x, w, *_ = values
    check(40, (x, w, *(one.get() for one in placed[2:])), calls=2)
    assert kernel.last_groups == (40, 128, 1, 1)
    assert [blocks for blocks, *_ in fake.sizes] == [40, 128, 1, 1] * 2


def test_numpy_arrays_are_copied_once(fake: FakeDriver, ptx: tuple[Any, ...]):
    values = arguments(40)
    DevicePhases(*ptx)(*values)
    check(40, values)
    assert fake.waited == 3  # two workspaces, and the end


def test_recorded_launches_have_workspaces_of_their_own(fake: FakeDriver, ptx: tuple[Any, ...]):
    kernel, noted = DevicePhases(*ptx), CapturedGraph()
    placed = tuple(fake.device_array(value) for value in arguments(12))
    for _ in range(2):
        record_launch(noted, None, kernel, placed, None)
    assert len(noted.steps) == 8
    kept = cast("list[tuple[DeviceArray, ...]]", noted.keep)  # which are objects to all but phases
    spaces = [keep[len(placed) :] for keep in kept]
    assert len({one.address for each in spaces for one in each}) == 4
    for _, step in noted.steps:
        assert isinstance(step, LaunchPlan)
        step.begin()
    x, w, y, out = (one.get() for one in placed)
    check(12, (x, w, y, out), calls=2)


@pytest.mark.parametrize(("shape", "size"), [((20, 31), 20 * 128), ((20, 64), 20 * 256), ((0, 31), 0)])
def test_padded_copies_have_rows_of_whole_cache_lines(shape: tuple[int, int], size: int):
    arrays = [np.zeros(shape, np.float32), np.zeros((2, 16, 64), np.float32)]
    assert launch_bytes([raw_kernels.window(padded_rows=True)], (), arrays) == size
    assert launch_bytes([raw_kernels.window()], (), arrays) == 0


def test_copies_of_one_phase_are_gone_before_the_next():
    arrays = [np.zeros((20, 64), np.float32), np.zeros((2, 16, 64), np.float32)]
    phases = [raw_kernels.window(padded_rows=True), raw_kernels.window(padded_rows=True), raw_kernels.window()]
    assert launch_bytes(phases, (), arrays) == 20 * 256


def test_both_factors_of_a_product():
    compiled = compile_cuda(matrix_product((128, 128, 64), aligned=False))
    arrays = [np.zeros(shape, np.float16) for shape in ((300, 129), (129, 65), (300, 65))]
    assert launch_bytes([compiled.artifact], (), arrays) == 300 * 384 + 129 * 256


@pytest.mark.parametrize(("n", "rows"), [(1, 128 + 1), (5000, 256 + 2)])
def test_workspaces_are_counted(n: int, rows: int):
    """128 sums of 8 floats for each block of 4096 rows, and one of these."""
    parts = phases(program())
    artifacts = [compile_ptx(part) for part in parts]
    assert launch_bytes(artifacts, parts[0].given, arguments(n)) == rows * 8 * 4
