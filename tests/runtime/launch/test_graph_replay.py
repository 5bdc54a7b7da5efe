"""Graphs: lists of launches on the CPU, CUDA graphs on a driver that only notes, and on a GPU."""

import ctypes
import os
import threading
from typing import Any

import numpy as np
import pytest

from support import fake_cuda, raw_kernels
from support.fake_cuda import FakeDriver
from support.interrupts import ctrl_c_inside, interrupted
from tessera.core.errors.catalog import BadCapture, CudaFailure
from tessera.runtime.launch import cuda
from tessera.runtime.launch.copies import memcpy
from tessera.runtime.launch.graph_replay import Graph
from tessera.runtime.launch.on_stream import record_launch
from tessera.runtime.memory.owned import DeviceArray, pinned, to_device
from tessera.runtime.streams.graph_capture import CapturedGraph, HostWork, close_recording, open_recording
from tessera.runtime.streams.streams import Event, Stream


class Work:
    """Something done on the CPU."""

    def __init__(self, name: str, log: list[str]) -> None:
        self.name, self.log, self.cancelled = name, log, False

    def run(self) -> None:
        self.log.append(self.name)

    def cancel(self) -> None:
        self.cancelled = True


def graph_of(recording: CapturedGraph) -> Graph:
    graph = Graph()
    graph.complete(recording)
    return graph


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    return fake_cuda.install(monkeypatch, FakeDriver(2, run=False))


def array(device: int = 0) -> DeviceArray:
    return to_device(np.zeros(8, np.float32), device)


def test_work_of_the_cpu_is_done_again_in_order():
    recording, log, s = CapturedGraph(), [], Stream()
    for name in "abc":
        recording.add(None if name == "b" else s, HostWork(name, Work(name, log)))
    graph = graph_of(recording)
    assert log == []
    graph.launch()
    graph.launch(s)
    s.synchronize()
    assert log == [*"abc"] * 2
    assert (graph.kernels, graph.device) == (("a", "b", "c"), "cpu")
    assert repr(graph) == "<graph: 3 kernels on cpu>"


def test_an_interrupted_graph_ends_with_the_work_that_runs():
    started, gate, log = threading.Event(), threading.Event(), []

    class Long(Work):
        def run(self) -> None:
            super().run()
            started.set()
            gate.wait()

        def cancel(self) -> None:
            super().cancel()
            gate.set()

    recording, s = CapturedGraph(), Stream()
    for work in (Work("a", log), Long("b", log), Work("c", log), Work("d", log)):
        recording.add(s, HostWork(work.name, work))
    graph = graph_of(recording)
    graph.launch(s)
    assert started.wait(60)
    with ctrl_c_inside(Stream.synchronize):
        s.synchronize()
    s.synchronize()
    assert log == ["a", "b"]
    graph.launch(s)  # which was not cancelled
    s.synchronize()
    assert log == [*"ab", *"abcd"]


def test_two_threads_never_run_one_graph_at_a_time():
    """Its launches have one workspace, which begins as zeros."""
    running: list[str] = []
    most: list[int] = []
    asking = threading.Barrier(4)

    class Shared(Work):
        def run(self) -> None:
            running.append(self.name)
            os.sched_yield()
            most.append(len(running))
            running.remove(self.name)

    recording = CapturedGraph()
    recording.add(None, HostWork("a", Shared("a", [])))
    graph = graph_of(recording)

    def ask() -> None:
        asking.wait(60)
        graph.launch()

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 4


def test_a_graph_without_work_does_nothing():
    graph = graph_of(CapturedGraph())
    graph.launch()
    assert graph.kernels == ()


def test_a_graph_that_is_still_captured_cannot_be_launched():
    with pytest.raises(BadCapture, match="not complete"):
        Graph().launch()


def recorded(fake: FakeDriver, *steps: tuple[Stream | None, int]) -> CapturedGraph:
    """Launches of a kernel on streams, with a number each."""
    launcher, x, recording = cuda.CudaLauncher(raw_kernels.spin()), array(), CapturedGraph()
    for stream, number in steps:
        record_launch(recording, stream, launcher, (x, number), None)
    return recording


def test_launches_on_a_gpu_become_one_cuda_graph(fake: FakeDriver):
    fake.keep = [8, 8]
    recording = recorded(fake, (None, 1), (None, 2), (None, 3))
    assert fake.sizes == []
    graph = graph_of(recording)
    assert fake.sizes == []
    graph.launch()
    s = Stream()
    graph.launch(s)
    assert [entry for entry in fake.log if entry[0] == "replay"] == [("replay", 0), ("replay", s.handle(0))]
    assert [int.from_bytes(given[1], "little") for given in fake.parameters] == [1, 2, 3, 1, 2, 3]
    assert (graph.kernels, graph.device) == (("spin",) * 3, "cuda:0")


def test_a_capture_leaves_the_default_stream_to_others(fake: FakeDriver):
    """No stream that is in order with the default one is captured: memory is given back there at any time."""
    captured: list[int] = []
    begin = fake.begin_capture

    def noted(stream: int) -> None:
        captured.append(stream)
        begin(stream)

    fake.begin_capture = noted
    graph_of(recorded(fake, (None, 1), (Stream(), 2)))
    assert captured
    assert set(captured) <= fake.apart


def test_streams_branch_off_and_join_the_default_one(fake: FakeDriver):
    first, second = Stream(), Stream()
    graph_of(recorded(fake, (first, 1), (second, 2), (first, 3), (None, 4), (second, 5)))
    # Each branch follows the origin once before the default stream's launch; that one follows both; the last branch
    # follows it, and the end follows the branch.
    assert len([entry for entry in fake.log if entry[0] == "follow"]) == 2 + 2 + 1 + 1
    assert fake.captured == {}


def test_events_order_streams_inside_a_graph(fake: FakeDriver):
    first, second = Stream(), Stream()
    recording = open_recording()
    try:
        launcher, x = cuda.CudaLauncher(raw_kernels.spin()), array()
        record_launch(recording, first, launcher, (x, 1), None)
        second.wait(first.record())
        record_launch(recording, second, launcher, (x, 2), None)
    finally:
        close_recording()
    graph_of(recording)
    assert len([entry for entry in fake.log if entry[0] == "follow"]) == 2 + 1 + 2


def test_an_event_from_outside_cannot_be_waited_for(fake: FakeDriver):
    recording = recorded(fake, (None, 1))
    open_recording().steps.extend(recording.steps)
    try:
        from tessera.runtime.streams.graph_capture import CaptureSession  # noqa: PLC0415

        inside = CaptureSession.active.recording
        assert inside is not None
        Stream().wait(Event())
    finally:
        close_recording()
    with pytest.raises(BadCapture, match="before the capture"):
        graph_of(inside)
    assert fake.captured == {}  # the stream does not go on noting


def test_copies_are_part_of_a_graph(fake: FakeDriver):
    source, target = pinned(8), array()
    source[:] = 4
    recording = open_recording()
    try:
        memcpy(target, source, None)
    finally:
        close_recording()
    graph = graph_of(recording)
    source[:] = 5
    graph.launch()
    assert (target.get() == 5).all()


def test_one_graph_runs_on_one_device(fake: FakeDriver):
    launcher, recording = cuda.CudaLauncher(raw_kernels.spin()), CapturedGraph()
    for device in (0, 1):
        record_launch(recording, None, launcher, (array(device), 1), None)
    with pytest.raises(BadCapture, match="cuda:0 and cuda:1"):
        graph_of(recording)
    recording = recorded(fake, (None, 1))
    recording.add(None, HostWork("a", Work("a", [])))
    with pytest.raises(BadCapture, match="the CPU and cuda:0"):
        graph_of(recording)


def test_a_graph_takes_over_anothers_executable(fake: FakeDriver):
    fake.keep = [8, 8]
    old, new = graph_of(recorded(fake, (None, 1))), graph_of(recorded(fake, (None, 2)))
    assert new.adopt(old)
    assert fake.log[-1] == ("close executable",)
    new.launch()
    assert int.from_bytes(fake.parameters[-1][1], "little") == 2
    assert not Graph().adopt(new)


def test_ctrl_c_at_any_time_leaves_a_graph_on_the_stream_it_is_given(fake: FakeDriver):
    graph, s = graph_of(recorded(fake, (None, 1))), Stream()
    s.handle(0)
    line = 0
    while True:
        graph.launch()
        if not interrupted(lambda: graph.launch(s), line):
            break
        for again in (None, s) if line % 2 else (s, None):
            graph.launch(again)
            assert fake.streams[-1] == (0 if again is None else s.handle(0)), line
        line += 1
    assert line > 5


def test_in_another_context_a_graph_is_launched_in_its_own(fake: FakeDriver):
    graph = graph_of(recorded(fake, (None, 1)))
    fake.statuses = [400]
    graph.launch()
    assert len(fake.sizes) == 1


def test_streams_of_different_weights_take_turns_with_graphs(fake: FakeDriver):
    graph, heavy, light = graph_of(recorded(fake, (None, 1))), Stream(3.0), Stream(1.0)
    graph.launch(heavy)
    graph.launch(light)
    heavy.synchronize()
    light.synchronize()
    assert sorted(fake.streams) == sorted([heavy.handle(0), light.handle(0)])


def test_graphs_that_wait_for_their_turn_are_a_few_at_a_time(fake: FakeDriver):
    graphs = {weight: graph_of(recorded(fake, (None, 1))) for weight in (3.0, 1.0)}
    streams, held, gate = {weight: Stream(weight) for weight in graphs}, threading.Event(), threading.Event()
    other = Stream()

    def hold() -> None:
        held.set()
        gate.wait()

    other.submit(hold, "gpu")
    assert held.wait(60)
    for _ in range(20):
        for weight, graph in graphs.items():
            graph.launch(streams[weight])
    gate.set()
    for stream in streams.values():
        stream.synchronize()
    heavy = streams[3.0].handle(0)
    assert [fake.streams[:n].count(heavy) for n in (8, 20)] == [6, 15]
    begins = [i for i, entry in enumerate(fake.log) if entry[0] == "replay"]
    waits = [i for i, entry in enumerate(fake.log) if entry[0] == "wait event"]
    assert all(sum(w < b for w in waits) >= n - 3 for n, b in enumerate(begins))


def test_the_default_stream_is_that_of_the_graphs_own_gpu(fake: FakeDriver, monkeypatch: pytest.MonkeyPatch):
    launcher, recording = cuda.CudaLauncher(raw_kernels.spin()), CapturedGraph()
    where: list[int] = []
    record_launch(recording, None, launcher, (array(1), 1), None)
    graph = graph_of(recording)
    replay = fake.replay

    def noted(executable: ctypes.c_void_p, stream: ctypes.c_void_p) -> int:
        where.append(fake.current)
        return replay(executable, stream)

    monkeypatch.setattr(fake, "replay", noted)
    assert fake.current == 0
    graph.launch()
    with fake.inside(1):
        graph.launch()
    assert where == [1, 1]


@pytest.mark.gpu
def test_a_graph_on_a_gpu():
    launcher, recording = cuda.CudaLauncher(raw_kernels.stride()), CapturedGraph()
    x, y = (to_device(np.zeros(1000, np.float32)) for _ in range(2))
    s = Stream()
    for stream, out in ((None, x), (s, y), (s, y), (None, x)):
        record_launch(recording, stream, launcher, (out,), None)
    graph = graph_of(recording)
    assert not x.get().any()
    for _ in range(3):
        graph.launch()
    graph.launch(s)
    s.synchronize()
    assert (x.get() == 8).all()
    assert (y.get() == 8).all()


@pytest.mark.gpu
def test_parameters_of_another_capture_on_a_gpu():
    launcher = cuda.CudaLauncher(raw_kernels.stride())
    x, y = (to_device(np.zeros(1000, np.float32)) for _ in range(2))
    graphs: list[Any] = []
    for out in (x, y):
        recording = CapturedGraph()
        record_launch(recording, None, launcher, (out,), None)
        graphs.append(graph_of(recording))
    assert graphs[1].adopt(graphs[0])
    graphs[1].launch()
    cuda.synchronize()
    assert not x.get().any()
    assert (y.get() == 1).all()


@pytest.mark.gpu
def test_launches_go_on_beside_a_capture_on_a_gpu():
    """One thread makes graphs while another one launches on the default stream, and lets memory go."""
    stop = threading.Event()
    failures: list[CudaFailure] = []

    def launch() -> None:
        launcher = cuda.CudaLauncher(raw_kernels.null())
        while not stop.is_set():
            try:
                launcher(to_device(np.zeros(8, np.float32)))
            except CudaFailure as error:
                failures.append(error)

    thread = threading.Thread(target=launch)
    thread.start()
    x = to_device(np.zeros(8, np.float32))
    try:
        for _ in range(100):
            launcher = cuda.CudaLauncher(raw_kernels.null())
            for _ in range(5):
                launcher(x)
    finally:
        stop.set()
        thread.join()
    assert failures == []
