"""Turns by weight, order inside a stream, and what waits for what."""

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.interrupts import held, interrupted_everywhere
from tessera.runtime.streams.fair_scheduler import Dispatcher, FairQueueing, Operation, Queue, drain


def served(weights: list[float], turns: int) -> list[int]:
    order, queues = FairQueueing(), [Queue(weight, number) for number, weight in enumerate(weights)]
    for queue in queues:
        order.wake(queue)
    return [order.choose(queues).number for _ in range(turns)]


def test_turns_are_in_proportion_to_weights():
    assert served([3.0, 1.0], 8) == [0, 1, 0, 0, 0, 1, 0, 0]
    assert [served([1.0, 2.0, 5.0], 80).count(n) for n in range(3)] == [10, 20, 50]


@given(st.lists(st.integers(1, 8), min_size=2, max_size=5), st.integers(1, 120))
def test_no_stream_is_ever_more_than_a_turn_off_its_share(weights: list[int], turns: int):
    counts = served([float(weight) for weight in weights], turns)
    for number, weight in enumerate(weights):
        share = turns * weight / sum(weights)
        # Start-time fair queueing: at most one turn of its own and one of each other's from its share.
        assert abs(counts.count(number) - share) <= 1 + len(weights) * max(1.0, weight / min(weights))


def test_a_stream_that_was_idle_has_saved_up_nothing():
    order, first, second = FairQueueing(), Queue(1.0, 0), Queue(1.0, 1)
    order.wake(first)
    for _ in range(10):
        order.choose([first])
    order.wake(second)
    assert [order.choose([first, second]).number for _ in range(4)] == [1, 0, 1, 0]


def test_nobody_has_work():
    assert FairQueueing().choose([]) is None


def test_operations_of_a_stream_run_in_order():
    dispatcher, queue = Dispatcher(), Queue(1.0, 0)
    seen: list[int] = []
    for number in range(50):
        engine = ("compute", "copy", "gpu", "")[number % 4]
        dispatcher.submit(queue, Operation(lambda n=number: seen.append(n), engine))
    dispatcher.wait([queue])
    assert seen == list(range(50))
    assert dispatcher.busy == 0


def hold(dispatcher: Dispatcher, queue: Queue) -> threading.Event:
    """Keep the engine busy until the event is set, so that queues fill."""
    held, gate = threading.Event(), threading.Event()

    def wait() -> None:
        held.set()
        gate.wait()

    dispatcher.submit(queue, Operation(wait, "compute"))
    assert held.wait(60)
    return gate


def test_two_streams_with_work_share_the_engine_by_weight():
    dispatcher, heavy, light = Dispatcher(), Queue(3.0, 0), Queue(1.0, 1)
    seen: list[str] = []
    gate = hold(dispatcher, Queue(1.0, 2))
    for _ in range(60):
        dispatcher.submit(heavy, Operation(lambda: seen.append("heavy"), "compute"))
        dispatcher.submit(light, Operation(lambda: seen.append("light"), "compute"))
    gate.set()
    dispatcher.wait()
    assert [seen[:n].count("heavy") for n in (8, 40, 80)] == [6, 30, 60]
    assert len(seen) == 120


def test_copies_go_on_beside_kernels():
    dispatcher, computing, copying = Dispatcher(), Queue(1.0, 0), Queue(1.0, 1)
    gate = hold(dispatcher, computing)
    done = threading.Event()
    dispatcher.submit(copying, Operation(done.set, "copy"))
    assert done.wait(10)
    gate.set()
    dispatcher.wait()


def test_a_failure_stays_with_its_stream_and_what_follows_runs():
    dispatcher, queue = Dispatcher(), Queue(1.0, 0)
    seen: list[int] = []
    dispatcher.submit(queue, Operation(lambda: 1 // 0, "compute"))
    dispatcher.submit(queue, Operation(lambda: seen.append(1), "compute"))
    dispatcher.wait([queue])
    assert isinstance(queue.failure, ZeroDivisionError)
    assert seen == [1]


def test_an_operation_that_is_not_ready_holds_its_stream_alone():
    dispatcher, waiting, other = Dispatcher(), Queue(1.0, 0), Queue(1.0, 1)
    seen: list[str] = []
    ready: list[Any] = []
    dispatcher.submit(waiting, Operation(lambda: None, ready=lambda: bool(ready)))
    dispatcher.submit(waiting, Operation(lambda: seen.append("after"), "compute"))
    dispatcher.submit(other, Operation(lambda: seen.append("other"), "compute"))
    dispatcher.wait([other])
    assert seen == ["other"]
    dispatcher.submit(other, Operation(lambda: ready.append(1), "compute"))
    dispatcher.wait()
    assert seen == ["other", "after"]


def test_an_interrupted_wait_drops_what_has_not_begun_and_stops_what_runs(monkeypatch: pytest.MonkeyPatch):
    dispatcher, queue = Dispatcher(), Queue(1.0, 0)
    seen: list[int] = []
    gate, started = threading.Event(), threading.Event()

    def work() -> None:
        started.set()
        gate.wait()

    dispatcher.submit(queue, Operation(work, "compute", cancel=gate.set))
    dispatcher.submit(queue, Operation(lambda: seen.append(1), "compute"))
    assert started.wait(10)
    waits = dispatcher._changed.wait

    def interrupted(timeout: float | None = None) -> bool:
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        return waits(timeout)

    monkeypatch.setattr(dispatcher._changed, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        dispatcher.wait([queue])
    monkeypatch.undo()
    dispatcher.wait()
    assert seen == []
    assert dispatcher.busy == 0


def test_ctrl_c_between_any_two_lines_leaves_no_operation_half_submitted_and_no_lock_held():
    dispatcher, queue = Dispatcher(), Queue(1.0, 0)
    seen: list[int] = []

    def use() -> None:
        dispatcher.submit(queue, Operation(lambda: seen.append(1), "compute"))
        dispatcher.submit(queue, Operation(lambda: seen.append(2)))
        dispatcher.wait([queue])
        dispatcher.submit(queue, Operation(lambda: {}[0], "compute"))
        dispatcher.until(lambda: queue.idle)
        assert isinstance(dispatcher.take_failure(), KeyError)

    def check(line: int) -> None:
        assert not held(dispatcher._changed), line
        dispatcher.wait()
        assert (dispatcher.busy, queue.idle, queue.submitted) == (0, True, queue.done), line
        assert dispatcher._queues == {}, line
        while dispatcher.take_failure() is not None:
            pass
        seen.clear()
        for engine in ("compute", "copy"):
            dispatcher.submit(queue, Operation(lambda: seen.append(3), engine))
        dispatcher.wait()
        assert seen == [3, 3], line

    assert interrupted_everywhere(use, check, "runtime/streams/fair_scheduler.py") > 80


def test_an_interrupt_leaves_the_marks_that_others_wait_for(monkeypatch: pytest.MonkeyPatch):
    dispatcher, queue = Dispatcher(), Queue(1.0, 0)
    seen: list[str] = []
    gate = hold(dispatcher, queue)
    for engine in ("", "gpu"):
        dispatcher.submit(queue, Operation(lambda: seen.append("work"), "compute"))
        dispatcher.submit(queue, Operation(lambda e=engine: seen.append(f"mark {e}"), engine, awaited=True))

    waits = dispatcher._changed.wait

    def interrupted(timeout: float | None = None) -> bool:
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        return waits(timeout)

    with monkeypatch.context() as patch:
        patch.setattr(dispatcher._changed, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            dispatcher.wait([queue])
    assert seen == []  # they come after what runs
    gate.set()
    dispatcher.wait()
    assert seen == ["mark ", "mark gpu"]
    assert dispatcher.busy == 0


def test_a_wait_is_for_what_was_there_when_it_began():
    """Other threads may go on and on."""
    dispatcher, queue, stop = Dispatcher(), Queue(1.0, 0), threading.Event()

    def again() -> None:
        if not stop.is_set():
            dispatcher.submit(queue, Operation(again, "compute"))

    again()
    waiting = threading.Thread(target=dispatcher.wait, daemon=True)
    waiting.start()
    waiting.join(20)
    ended = not waiting.is_alive()
    stop.set()
    dispatcher.wait()
    assert ended


def test_a_failure_is_told_once_even_where_its_stream_is_gone():
    dispatcher = Dispatcher()
    for number, mistake in ((1, KeyError("second")), (0, KeyError("first"))):

        def fail(mistake: KeyError = mistake) -> None:
            raise mistake

        dispatcher.submit(Queue(1.0, number), Operation(fail, "compute"))
        dispatcher.wait()
    assert [str(dispatcher.take_failure()) for _ in range(3)] == ["'first'", "'second'", "None"]


def test_an_engine_that_cannot_begin_leaves_nothing_queued(monkeypatch: pytest.MonkeyPatch):
    dispatcher, queue = Dispatcher(), Queue(1.0, 0)
    seen: list[int] = []

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            dispatcher.submit(queue, Operation(lambda: seen.append(1), "compute"))
    assert queue.idle
    assert dispatcher.busy == 0
    dispatcher.submit(queue, Operation(lambda: seen.append(2), "compute"))
    dispatcher.wait()
    assert seen == [2]


def test_nothing_is_waited_for_where_nothing_is_queued():
    drain()
