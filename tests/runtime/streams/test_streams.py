"""Streams and events on the CPU: order, failures, interrupts, threads and forks."""

import gc
import os
import signal
import sys
import threading
from types import SimpleNamespace

import pytest

from support.interrupts import ctrl_c_inside
from tessera.core.errors.catalog import BadCapture, BadStream
from tessera.runtime.streams import streams
from tessera.runtime.streams.fair_scheduler import dispatcher
from tessera.runtime.streams.graph_capture import close_recording, open_recording
from tessera.runtime.streams.streams import ExternalStream, Stream, as_stream, synchronize


def test_work_of_a_stream_runs_in_order_and_is_waited_for():
    s = Stream()
    seen: list[int] = []
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
    first, second = Stream(), Stream()
    seen: list[int] = []
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
    first, second, gate = Stream(), Stream(), threading.Event()
    seen: list[str] = []
    first.submit(gate.wait, "compute")
    first.submit(lambda: seen.append("first"), "compute")
    second.wait(first.record())
    second.submit(lambda: seen.append("second"), "copy")
    gate.set()
    second.synchronize()
    assert seen == ["first", "second"]


def test_time_between_events(monkeypatch: pytest.MonkeyPatch):
    now = [1.0]
    monkeypatch.setattr(streams.time, "perf_counter", lambda: now[0])

    def work() -> None:
        now[0] += 0.25

    s = Stream()
    begin = s.record()
    s.submit(work, "compute")
    end = s.record()
    assert begin.elapsed(end) == 0.25


@pytest.mark.parametrize("weight", [0, -1.0, float("inf"), float("nan"), True, "2"])
def test_a_weight_is_a_positive_number(weight: float | bool | str):
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
def test_what_is_no_stream(value: str | bool | float | SimpleNamespace | None):
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
    first, second, started, gate = Stream(), Stream(), threading.Event(), threading.Event()
    seen: list[str] = []

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
    keep = [Stream() for _ in range(200)]
    failures: list[RuntimeError] = []

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
