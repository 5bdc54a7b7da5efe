"""Launches and copies as subscribers see them."""

from types import ModuleType

import numpy as np
import pytest

import tessera
from support import fake_cuda
from support.fake_cuda import FakeDriver
from tessera import graph, stream
from tessera.core.errors.catalog import TesseraError
from tessera.core.events import BytesMoved, Launched, subscribe
from tessera.runtime.binding.host_copies import HostArguments
from tessera.runtime.launch.copies import memcpy
from tessera.runtime.memory.owned import DeviceArray, pinned, to_device
from tessera.runtime.streams.graph_capture import CaptureSession, close_recording, open_recording
from tessera.runtime.streams.streams import Stream

TEXT = """
@kernel tile[(32,)]
def shift(x: f32[n], y: mut f32[n]):
    i = launch.thread_id()
    if i < n:
        y[i] = x[i] + 1.0

@kernel
def total(x: f32[n], out: mut f32[1]):
    out[0] = 0.0
    for i in tile.range(0, n, step=64):
        out[0] += x[i : i + 64].sum()
"""


@pytest.fixture(scope="module")
def kernels() -> ModuleType:
    return tessera.compile_source(TEXT)


def arrays(n: int = 100):
    return np.arange(n, dtype=np.float32), np.zeros(n, np.float32)


def test_every_way_to_launch_is_told(kernels: ModuleType):
    x, y = arrays()
    shift = kernels.shift
    told: list[Launched] = []
    shift(x, y)
    key, target = shift.last.artifact.key, str(shift.last.target)
    with subscribe(told.append, Launched):
        shift(x, y)
        shift(x=x, y=y)
        shift[2, 32](x, y)
    assert [(e.kernel, e.target, e.key, e.groups, e.stream) for e in told] == [
        ("shift", target, key, groups, "") for groups in (4, 4, 2)
    ]
    assert all(e.seconds > 0 for e in told)


def test_a_launch_is_told_after_it_ran(kernels: ModuleType):
    x, y = arrays()
    seen: list[float] = []
    with subscribe(lambda event: seen.append(y[1]), Launched):
        kernels.shift(x, y)
    assert seen == [2.0]


def test_a_launch_that_raises_is_not_told(kernels: ModuleType):
    x = arrays()[0]
    told: list[Launched] = []
    with subscribe(told.append, Launched), pytest.raises(TesseraError):
        kernels.shift(x, "nothing")
    assert told == []


def test_without_subscribers_calls_take_the_quick_way(kernels: ModuleType):
    x, y = arrays()
    kernels.shift(x, y)
    with subscribe(lambda event: None, Launched):
        assert CaptureSession.count == 1
        with subscribe(lambda event: None, BytesMoved):
            assert CaptureSession.count == 1
    assert CaptureSession.count == 0


def test_the_groups_of_all_phases_count(kernels: ModuleType):
    x = arrays(640)[0]
    told: list[Launched] = []
    out = np.zeros(1, np.float32)
    with subscribe(told.append, Launched):
        kernels.total(x, out)
    compiled = kernels.total.last
    assert out[0] == x.sum()
    assert len(compiled.phases) > 1
    assert [e.groups for e in told] == [compiled.groups]


def test_interpreted_launches(kernels: ModuleType):
    x, y = arrays()
    told: list[Launched] = []
    checked = tessera.compile_source(TEXT.replace("@kernel tile", "@kernel(sanitize=True) tile")).shift
    with subscribe(told.append, Launched):
        checked(x, y)
    assert [(e.kernel, e.target, e.key, e.groups) for e in told] == [("shift", "interpret", "", 4)]


def test_launches_on_a_stream(kernels: ModuleType):
    (x, y), s = arrays(), stream.new()
    told: list[Launched] = []
    with subscribe(told.append, Launched):
        kernels.shift.on(s)(x, y)
    s.synchronize()
    assert [(e.kernel, e.stream, e.seconds) for e in told] == [("shift", repr(s), None)]


def test_a_graph_tells_its_kernels_when_it_is_launched(kernels: ModuleType):
    x, y = arrays()
    told: list[Launched] = []
    with subscribe(told.append, Launched):
        with graph.capture() as captured:
            kernels.shift(x, y)
            kernels.shift(y, x)
        assert told == []
        captured.launch()
    assert told == [Launched("shift", "cpu", "", None)] * 2


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    return fake_cuda.install(monkeypatch, FakeDriver(2, run=False))


def test_copies(fake: FakeDriver):
    host = np.arange(8, dtype=np.float32)
    told: list[BytesMoved] = []
    with subscribe(told.append, BytesMoved):
        there = to_device(host, 1)
        there.get()
        memcpy(DeviceArray((8,), np.dtype(np.float32), 0), there, Stream())
        memcpy(host, np.zeros(8, np.float32), None)
        memcpy(np.zeros(0), np.zeros(0), None)
    assert told == [
        BytesMoved(32, "host", "cuda:1"),
        BytesMoved(32, "cuda:1", "host"),
        BytesMoved(32, "cuda:1", "cuda:0"),
        BytesMoved(32, "host", "host"),
    ]


def test_copies_that_a_launch_makes(fake: FakeDriver):
    copies = HostArguments(fake, 0)
    told: list[BytesMoved] = []
    with subscribe(told.append, BytesMoved):
        copies.on_device(np.zeros(4, np.float32), written=False)
        copies.on_device(np.zeros(2, np.float64), written=True)
        copies.copy_back()
    copies.close()
    assert told == [
        BytesMoved(16, "host", "cuda:0"),
        BytesMoved(16, "host", "cuda:0"),
        BytesMoved(16, "cuda:0", "host"),
    ]


def test_copies_that_are_only_captured_are_not_told(fake: FakeDriver):
    device = DeviceArray((4,), np.dtype(np.float32))
    told: list[BytesMoved] = []
    open_recording()
    try:
        with subscribe(told.append, BytesMoved):
            memcpy(device, pinned(4), None)
    finally:
        close_recording()
    assert told == []
