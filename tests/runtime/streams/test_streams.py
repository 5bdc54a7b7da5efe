"""Streams and events: on the CPU, on a driver that only notes, and, where there is one, on a GPU."""

import gc
import os
import signal
import sys
import threading
import time
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

from support import fake_cuda, programs
from support.fake_cuda import FakeDriver
from support.interrupts import ctrl_c_inside
from support.simulate import compile_ptx
from tessera.core.errors.catalog import BadCapture, BadStream, CudaFailure
from tessera.core.targets import Target
from tessera.lowering.driver.compile import compile_program
from tessera.runtime.driver import driver as door
from tessera.runtime.launch import cuda
from tessera.runtime.launch.on_stream import launch_on
from tessera.runtime.memory.owned import to_device
from tessera.runtime.streams.fair_scheduler import dispatcher
from tessera.runtime.streams.graph_capture import close_recording, open_recording
from tessera.runtime.streams.streams import ExternalStream, Stream, as_stream, synchronize


@pytest.fixture(scope="module")
def saxpy():
    return compile_ptx(programs.saxpy())


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch):
    gc.collect()  # streams of earlier tests, of other weights
    yield fake_cuda.install(monkeypatch, FakeDriver(run=False))
    dispatcher().wait()
    gc.collect()


def vectors(fake: FakeDriver, n: int = 64):
    return fake.device_array(np.zeros(n, np.float32)), fake.device_array(np.zeros(n, np.float32))


# -- on the CPU -------------------------------------------------------------------------------------------------------


def test_work_of_a_stream_runs_in_order_and_is_waited_for():
    s, seen = Stream(), []
    for number in range(20):
        s.submit(lambda n=number: seen.append(n), ("compute", "copy")[number % 2])
    s.synchronize()
    assert seen == list(range(20))
    assert s.query()


def test_a_failure_is_raised_once_where_the_stream_is_waited_for():
    s = Stream()
    s.submit(lambda: 1 // 0, "compute")
    with pytest.raises(ZeroDivisionError):
        s.synchronize()
    s.synchronize()


def test_synchronize_waits_for_all_streams_and_raises_what_any_of_them_raised():
    first, second, seen = Stream(), Stream(), []
    first.submit(lambda: 1 // 0, "compute")
    second.submit(lambda: seen.append(1), "compute")
    with pytest.raises(ZeroDivisionError):
        synchronize()
    assert seen == [1]


def test_an_event_is_reached_after_what_came_before_it():
    s, gate = Stream(), threading.Event()
    s.submit(gate.wait, "compute")
    event = s.record()
    assert not event.query()
    gate.set()
    event.wait()
    assert event.query()


def test_a_stream_waits_for_another_ones_event():
    first, second, gate, seen = Stream(), Stream(), threading.Event(), []
    first.submit(gate.wait, "compute")
    first.submit(lambda: seen.append("first"), "compute")
    second.wait(first.record())
    second.submit(lambda: seen.append("second"), "copy")
    gate.set()
    second.synchronize()
    assert seen == ["first", "second"]


def test_time_between_events():
    s = Stream()
    begin = s.record()
    s.submit(lambda: time.sleep(0.01), "compute")
    end = s.record()
    assert 0.01 <= begin.elapsed(end) < 10


@pytest.mark.parametrize("weight", [0, -1.0, float("inf"), float("nan"), True, "2"])
def test_a_weight_is_a_positive_number(weight):
    with pytest.raises(BadStream, match="weight is a positive number"):
        Stream(weight)


def test_streams_of_other_libraries():
    def protocol() -> tuple[int, int]:
        return (0, 0x20)

    given = [0x10, SimpleNamespace(__cuda_stream__=protocol), SimpleNamespace(__cuda_stream__=(0, 0x30)),
             SimpleNamespace(cuda_stream=0x40), SimpleNamespace(ptr=0x50)]  # fmt: skip
    assert [as_stream(value).handle(0) for value in given] == [0x10, 0x20, 0x30, 0x40, 0x50]
    ours = Stream()
    assert as_stream(ours) is ours


@pytest.mark.parametrize("value", [None, "fast", True, -1, 1.5, SimpleNamespace(ptr=None)])
def test_what_is_no_stream(value):
    with pytest.raises(BadStream, match="is no stream"):
        as_stream(value)


def test_a_cuda_stream_does_not_order_work_of_the_cpu():
    with pytest.raises(BadStream, match="cannot order kernels that run on the CPU"):
        ExternalStream(0x10).submit(lambda: None, "compute")


def test_a_failure_of_a_stream_that_is_gone_is_raised_where_all_are_waited_for():
    Stream().submit(lambda: 1 // 0, "compute")
    dispatcher().wait()
    gc.collect()
    with pytest.raises(ZeroDivisionError):
        synchronize()
    synchronize()


def test_failures_of_several_streams_are_raised_one_by_one():
    first, second = Stream(), Stream()
    second.submit(lambda: {}["second"], "compute")
    first.submit(lambda: {}["first"], "compute")
    for name in ("first", "second"):
        with pytest.raises(KeyError, match=name):
            synchronize()
    synchronize()


def test_events_of_a_stream_whose_wait_was_interrupted_are_reached():
    first, second, started, gate, seen = Stream(), Stream(), threading.Event(), threading.Event(), []

    def work() -> None:
        started.set()
        gate.wait()

    first.submit(work, "compute", gate.set)
    first.submit(lambda: seen.append("dropped"), "compute")
    event = first.record()
    second.wait(event)
    second.submit(lambda: seen.append("second"), "copy")
    assert started.wait(60)
    with ctrl_c_inside(Stream.synchronize):
        first.synchronize()
    event.wait()
    second.synchronize()
    assert seen == ["second"]


def test_an_event_of_a_capture_is_no_place_outside():
    open_recording()
    try:
        event = Stream().record()
    finally:
        close_recording()
    for use in (event.wait, event.query, lambda: Stream().wait(event), lambda: event.elapsed(event)):
        with pytest.raises(BadCapture, match="recorded while a graph was captured") as caught:
            use()
    assert "graph.capture()" in caught.value.hint


def test_streams_come_and_go_in_several_threads():
    """While weights are looked at, which happens whenever one does."""
    failures, keep = [], [Stream() for _ in range(200)]

    def make() -> None:
        try:
            for _ in range(300):
                Stream()
        except RuntimeError as error:
            failures.append(error)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert failures == []
    assert len(keep) == 200


@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
def test_a_forked_child_begins_with_empty_streams():
    s, gate = Stream(), threading.Event()
    s.submit(gate.wait, "compute")
    child = os.fork()
    if not child:
        signal.alarm(20)  # it ends whatever happens
        seen: list[int] = []
        s.submit(lambda: seen.append(1), "compute")
        s.synchronize()
        os._exit(0 if seen == [1] else 1)
    _, status = os.waitpid(child, 0)
    gate.set()
    s.synchronize()
    assert status == 0


# -- on a driver that only notes ---------------------------------------------------------------------------------------


def test_launches_go_straight_to_the_streams_own_cuda_stream(fake: FakeDriver, saxpy):
    launcher, (x, y) = cuda.CudaLauncher(saxpy), vectors(fake)
    first, second = Stream(), Stream()
    for s in (first, second, first):
        launch_on(s, launcher, (x, y, 1.0), None)
    assert fake.streams == [first.handle(0), second.handle(0), first.handle(0)]
    assert len({*fake.streams, 0}) == 3
    first.synchronize()
    assert fake.log[-1] == ("wait", first.handle(0))


def test_a_stream_has_one_cuda_stream_a_device(monkeypatch: pytest.MonkeyPatch, saxpy):
    fake = fake_cuda.install(monkeypatch, FakeDriver(2, run=False))
    launcher, s = cuda.CudaLauncher(saxpy), Stream()
    for device in (0, 1):
        arrays = [fake.device_array(np.zeros(8, np.float32), device) for _ in range(2)]
        launch_on(s, launcher, (*arrays, 1.0), None)
    assert fake.loads == [0, 1]
    assert fake.streams == [s.handles[0], s.handles[1]]
    assert s.handles[0] != s.handles[1]


def test_events_of_cuda_streams(fake: FakeDriver, saxpy):
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


def test_another_librarys_stream_is_one_stream_however_often_it_is_given(fake: FakeDriver, saxpy):
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


def test_an_event_that_cannot_be_recorded_is_waited_for_in_vain_and_not_for_ever(fake: FakeDriver, saxpy):
    launcher, (x, y) = cuda.CudaLauncher(saxpy), vectors(fake)
    first, second, gate, seen = Stream(), Stream(), threading.Event(), []
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
    s, found, made = Stream(), [], fake.new_stream

    def slow() -> int:
        time.sleep(0.02)
        return made()

    monkeypatch.setattr(fake, "new_stream", slow)
    threads = [threading.Thread(target=lambda: found.append(s.handle(0))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(found) == {s.handles[0]}


def test_streams_of_different_weights_get_launches_in_proportion(fake: FakeDriver, saxpy):
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


def test_equal_weights_never_wait_for_a_turn(fake: FakeDriver, saxpy):
    first, second = Stream(2.0), Stream(2.0)
    assert not first.queued
    assert not second.queued
    third = Stream(1.0)
    assert first.queued
    del third
    gc.collect()
    assert not first.queued


def test_what_the_driver_refuses_names_the_kernel(fake: FakeDriver, saxpy):
    launcher, (x, y) = cuda.CudaLauncher(saxpy), vectors(fake)
    heavy, light = Stream(3.0), Stream(1.0)
    fake.statuses = [701]
    launch_on(heavy, launcher, (x, y, 1.0), None)
    with pytest.raises(CudaFailure, match="kernel saxpy: cuLaunchKernelEx: 701") as caught:
        heavy.synchronize()
    assert caught.value.span == saxpy.span
    assert light.query()


def test_another_context_is_current_in_this_thread(fake: FakeDriver, saxpy):
    launcher, (x, y) = cuda.CudaLauncher(saxpy), vectors(fake)
    launcher(x, y, 1.0)
    fake.statuses = [400]
    launcher(x, y, 1.0)
    assert len(fake.sizes) == 2


# -- on a GPU -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def spin():
    """A kernel that keeps one multiprocessor busy for a number of cycles, from cupy."""
    cp = pytest.importorskip("cupy")
    code = 'extern "C" __global__ void spin(long long n) { long long t = clock64(); while (clock64() - t < n) {} }'
    return cp.RawKernel(code, "spin")


def theirs(cp, s: Stream):
    """Our stream as cupy's, by the protocol for that."""
    return cp.cuda.Stream.from_external(SimpleNamespace(__cuda_stream__=lambda: (0, s.handle(0))))


@pytest.mark.gpu
def test_copies_and_kernels_overlap(spin):
    """Timestamps of events show that a copy begins before a kernel launched before it ends, and the other way round."""
    from tessera import stream  # noqa: PLC0415

    cp = pytest.importorskip("cupy")
    host = stream.pinned((64 << 20,), np.uint8)
    host[:] = 7
    device = cp.empty(host.shape, cp.uint8)
    copying, computing = stream.new(), stream.new()
    for s in (copying, computing):
        s.handle(0)
    compute_begin = computing.record()
    with theirs(cp, computing):
        spin((1,), (32,), (20_000_000,))  # 10 ms
    compute_end = computing.record()
    copy_begin = copying.record()
    stream.memcpy_async(dst=device, src=host, stream=copying)  # 1.2 ms
    copy_end = copying.record()
    stream.synchronize()
    assert (device[-1000:] == 7).all()
    assert compute_begin.elapsed(copy_end) < compute_begin.elapsed(compute_end)
    assert copy_begin.elapsed(copy_end) > 0


@pytest.mark.gpu
def test_weights_on_a_gpu(spin):
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
def test_order_of_events_on_a_gpu(spin):
    cp = pytest.importorskip("cupy")
    first, second = Stream(), Stream()
    a = to_device(np.zeros(1 << 20, np.float32))
    view = cp.asarray(a)  # here, since cupy waits for an array that it takes over
    spin((1,), (32,), (0,))
    view[:] = 0
    view[:] += 1  # cupy has compiled its kernels before the clock of `spin` begins
    cp.cuda.Device().synchronize()
    with theirs(cp, first):
        spin((1,), (32,), (2_000_000_000,))  # a second: the host is busy with other tests, too
        view[:] = 5
    event = first.record()
    assert not event.query()
    second.wait(event)
    with theirs(cp, second):
        view[:] += 1
    second.synchronize()
    assert (a.get() == 6).all()
    assert door.driver().lost is None
