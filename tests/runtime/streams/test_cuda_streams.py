"""Streams as CUDA streams: on a driver that only notes, and on a GPU."""

import gc
import threading
import weakref
from collections.abc import Iterator
from contextlib import AbstractContextManager
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from support import fake_cuda, programs
from support.fake_cuda import FakeDriver
from support.simulate import compile_ptx
from tessera.core.artifact import Artifact
from tessera.core.errors.catalog import CudaFailure
from tessera.core.targets import Target
from tessera.lowering.driver.compile import compile_program
from tessera.runtime.driver import driver as door
from tessera.runtime.launch import cuda
from tessera.runtime.launch.on_stream import launch_on
from tessera.runtime.memory.owned import to_device
from tessera.runtime.streams.fair_scheduler import dispatcher
from tessera.runtime.streams.streams import Stream, as_stream


@pytest.fixture(scope="module")
def saxpy() -> Artifact:
    return compile_ptx(programs.saxpy())


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    gc.collect()  # streams of earlier tests, of other weights
    yield fake_cuda.install(monkeypatch, FakeDriver(run=False))
    dispatcher().wait()
    gc.collect()


def vectors(fake: FakeDriver, n: int = 64):
    return fake.device_array(np.zeros(n, np.float32)), fake.device_array(np.zeros(n, np.float32))


# -- on a driver that only notes ---------------------------------------------------------------------------------------


def test_launches_go_straight_to_the_streams_own_cuda_stream(fake: FakeDriver, saxpy: Artifact):
    launcher, (x, y) = cuda.CudaLauncher(saxpy), vectors(fake)
    first, second = Stream(), Stream()
    for s in (first, second, first):
        launch_on(s, launcher, (x, y, 1.0), None)
    assert fake.streams == [first.handle(0), second.handle(0), first.handle(0)]
    assert len({*fake.streams, 0}) == 3
    first.synchronize()
    assert fake.log[-1] == ("wait", first.handle(0))


def test_a_stream_has_one_cuda_stream_a_device(monkeypatch: pytest.MonkeyPatch, saxpy: Artifact):
    fake = fake_cuda.install(monkeypatch, FakeDriver(2, run=False))
    launcher, s = cuda.CudaLauncher(saxpy), Stream()
    for device in (0, 1):
        arrays = [fake.device_array(np.zeros(8, np.float32), device) for _ in range(2)]
        launch_on(s, launcher, (*arrays, 1.0), None)
    assert fake.loads == [0, 1]
    assert fake.streams == [s.handles[0], s.handles[1]]
    assert s.handles[0] != s.handles[1]


def test_events_of_cuda_streams(fake: FakeDriver, saxpy: Artifact):
    launcher, (x, y) = cuda.CudaLauncher(saxpy), vectors(fake)
    first, second = Stream(), Stream()
    launch_on(first, launcher, (x, y, 1.0), None)
    fake.held.add(first.handle(0))
    event = first.record()
    assert not event.query()
    second.wait(event)
    launch_on(second, launcher, (x, y, 1.0), None)  # its CUDA stream is made now, and follows
    follows = [entry for entry in fake.log if entry[0] == "follow"]
    assert follows == [("follow", second.handle(0), event.marks[0])]
    fake.events[event.marks[0]] = True
    assert event.query()
    assert event.elapsed(event) == 0.5


def test_another_librarys_stream_is_one_stream_however_often_it_is_given(fake: FakeDriver, saxpy: Artifact):
    """What is launched there waits for a copy that is still on its way through the host's memory."""
    theirs = SimpleNamespace(cuda_stream=0x40)
    launcher, (x, y) = cuda.CudaLauncher(saxpy), vectors(fake)
    gate = threading.Event()
    as_stream(theirs).submit(gate.wait, "copy")
    launch_on(as_stream(theirs), launcher, (x, y, 1.0), None)
    early = list(fake.streams)
    gate.set()
    as_stream(theirs).synchronize()
    assert early == []
    assert fake.streams == [0x40]


def test_another_librarys_stream_lives_as_long_as_it_may_be_launched_on():
    class Theirs:
        ptr = 0x60

    theirs = Theirs()
    reference, s = weakref.ref(theirs), as_stream(theirs)
    del theirs
    gc.collect()
    assert reference() is not None
    del s
    gc.collect()
    assert reference() is None


def test_an_event_that_cannot_be_recorded_is_waited_for_in_vain_and_not_for_ever(fake: FakeDriver, saxpy: Artifact):
    launcher, (x, y) = cuda.CudaLauncher(saxpy), vectors(fake)
    first, second, gate = Stream(), Stream(), threading.Event()
    seen: list[int] = []
    launch_on(first, launcher, (x, y, 1.0), None)
    first.submit(gate.wait, "copy")

    def refuse(event: int, stream: int) -> None:
        raise CudaFailure("cuEventRecord: 1")

    fake.record = refuse
    event = first.record()
    second.wait(event)
    second.submit(lambda: seen.append(1), "compute")
    gate.set()
    for wait in (event.wait, first.synchronize, second.synchronize):
        with pytest.raises(CudaFailure, match="cuEventRecord"):
            wait()


def test_threads_that_share_a_stream_share_its_cuda_stream(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch):
    s, made = Stream(), fake.new_stream
    found: list[int] = []
    asking = threading.Semaphore(0)

    def slow() -> int:
        for _ in range(4):  # until all of them are about to ask
            assert asking.acquire(timeout=60)
        return made()

    def ask() -> None:
        asking.release()
        found.append(s.handle(0))

    monkeypatch.setattr(fake, "new_stream", slow)
    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(found) == {s.handles[0]}


def test_streams_of_different_weights_get_launches_in_proportion(fake: FakeDriver, saxpy: Artifact):
    launcher, (x, y) = cuda.CudaLauncher(saxpy), vectors(fake)
    heavy, light, other = Stream(3.0), Stream(1.0), Stream(1.0)
    held, gate = threading.Event(), threading.Event()

    def hold() -> None:
        held.set()
        gate.wait()

    other.submit(hold, "gpu")  # holds the engine, so that both have work
    assert held.wait(60)
    for _ in range(40):
        launch_on(heavy, launcher, (x, y, 1.0), None)
        launch_on(light, launcher, (x, y, 2.0), None)
    early = list(fake.streams)
    gate.set()
    assert early == []
    heavy.synchronize()
    light.synchronize()
    assert len(fake.streams) == 80
    assert [fake.streams[:n].count(heavy.handle(0)) for n in (8, 20, 40)] == [6, 15, 30]
    # Never more than four are on the GPU: the fifth waits for the first one's end.
    begins = [i for i, entry in enumerate(fake.log) if entry[0] == "launch"]
    waits = [i for i, entry in enumerate(fake.log) if entry[0] == "wait event"]
    assert all(sum(w < b for w in waits) >= n - 3 for n, b in enumerate(begins))


def test_equal_weights_never_wait_for_a_turn(fake: FakeDriver, saxpy: Artifact):
    first, second = Stream(2.0), Stream(2.0)
    assert not first.queued
    assert not second.queued
    third = Stream(1.0)
    assert first.queued
    del third
    gc.collect()
    assert not first.queued


def test_what_the_driver_refuses_names_the_kernel(fake: FakeDriver, saxpy: Artifact):
    launcher, (x, y) = cuda.CudaLauncher(saxpy), vectors(fake)
    heavy, light = Stream(3.0), Stream(1.0)
    fake.statuses = [701]
    launch_on(heavy, launcher, (x, y, 1.0), None)
    with pytest.raises(CudaFailure, match="kernel saxpy: cuLaunchKernelEx: 701") as caught:
        heavy.synchronize()
    assert caught.value.span == saxpy.span
    assert light.query()


def test_another_context_is_current_in_this_thread(fake: FakeDriver, saxpy: Artifact):
    launcher, (x, y) = cuda.CudaLauncher(saxpy), vectors(fake)
    launcher(x, y, 1.0)
    fake.statuses = [400]
    launcher(x, y, 1.0)
    assert len(fake.sizes) == 2


# -- on a GPU -----------------------------------------------------------------------------------------------------------


class Hold:
    """A kernel from cupy that runs until the host lets it go; after 20 s in any case, so that a failure is no hang."""

    CODE = """extern "C" __global__ void hold(volatile int* flag) {
        long long begin = clock64();
        while (*flag == 0 && clock64() - begin < 40000000000LL) {}
    }"""

    def __init__(self) -> None:
        from tessera import stream  # noqa: PLC0415

        self.flag = stream.pinned((1,), np.int32)
        self.kernel = pytest.importorskip("cupy").RawKernel(self.CODE, "hold")
        self.let_go()
        self.launch()  # it is loaded now: loading a kernel may wait for those that run

    def launch(self) -> None:
        """Launch it in cupy's current stream."""
        self.kernel((1,), (1,), (self.flag.ctypes.data,))

    def begin(self, cp: ModuleType, s: Stream) -> None:
        """Launch it in a stream of ours, to be held."""
        cp.cuda.Device().synchronize()
        self.flag[0] = 0
        with theirs(cp, s):
            self.launch()

    def let_go(self) -> None:
        self.flag[0] = 1


@pytest.fixture
def hold():
    made = Hold()
    yield made
    made.let_go()


def theirs(cp: ModuleType, s: Stream) -> AbstractContextManager[object]:
    """Our stream as cupy's, by the protocol for that."""
    return cp.cuda.Stream.from_external(SimpleNamespace(__cuda_stream__=lambda: (0, s.handle(0))))


@pytest.mark.gpu
def test_copies_and_kernels_overlap(hold: Hold):
    """A copy ends while a kernel launched before it, in another stream, still runs."""
    from tessera import stream  # noqa: PLC0415

    cp = pytest.importorskip("cupy")
    host = stream.pinned((64 << 20,), np.uint8)
    host[:] = 7
    device = cp.zeros(host.shape, cp.uint8)
    copying, computing = stream.new(), stream.new()
    hold.begin(cp, computing)
    compute_end = computing.record()
    copy_begin = copying.record()
    stream.memcpy_async(dst=device, src=host, stream=copying)
    copy_end = copying.record()
    copying.synchronize()
    assert not compute_end.query()
    hold.let_go()
    stream.synchronize()
    assert compute_end.query()
    assert (device[-1000:] == 7).all()
    assert copy_begin.elapsed(copy_end) > 0


@pytest.mark.gpu
def test_weights_on_a_gpu():
    """Of launches that each take 0.1 ms, a stream of weight 3 gets three for each of weight 1."""
    cp = pytest.importorskip("cupy")
    target = Target("cuda", cuda.device_architecture())
    launcher = cuda.CudaLauncher(compile_program(programs.saxpy(), target, observe=False).artifact)
    heavy, light = Stream(3.0), Stream(1.0)
    n = 1 << 26
    x, y, z = (cp.ones(n, cp.float32) for _ in range(3))
    cp.cuda.Device().synchronize()
    marks = []
    for _ in range(40):
        launch_on(heavy, launcher, (x, y, 1.0), None)
        launch_on(light, launcher, (x, z, 1.0), None)
    begin = heavy.record()
    marks = [heavy.record(), light.record()]
    heavy.synchronize()
    light.synchronize()
    assert begin.query()
    assert all(mark.query() for mark in marks)
    assert float(y[0]) == 41.0
    assert float(z[-1]) == 41.0
    # The heavy stream's 40 launches end when about 40 + 13 of the 80 are done.
    assert marks[0].time < marks[1].time


@pytest.mark.gpu
def test_order_of_events_on_a_gpu(hold: Hold):
    """An event is not reached while a kernel before it runs, and another stream waits for the event."""
    cp = pytest.importorskip("cupy")
    first, second = Stream(), Stream()
    a = to_device(np.zeros(1 << 20, np.float32))
    view = cp.asarray(a)  # here, since cupy waits for an array that it takes over
    view[:] = 4
    view[:] += 1  # all of cupy's kernels are loaded now
    hold.begin(cp, first)
    with theirs(cp, first):
        view[:] = 5
    event = first.record()
    second.wait(event)
    with theirs(cp, second):
        view[:] += 1
    assert not event.query()
    assert not second.query()
    hold.let_go()
    second.synchronize()
    assert event.query()
    assert (a.get() == 6).all()
    assert door.driver().lost is None
