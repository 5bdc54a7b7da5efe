"""Events reach those that subscribed to their kind, and nothing else."""

import logging
import pickle
import threading

import pytest

from tessera.core.events import (
    KINDS,
    Attempted,
    BytesMoved,
    Compiled,
    Event,
    Launched,
    PassRan,
    TileRan,
    TrialMeasured,
    publish,
    subscribe,
    wanted,
    wanted_kinds,
    when_wanted,
)

MOVED = BytesMoved(64, "host", "cuda:0")
LAUNCHED = Launched("scale", "cpu", "0" * 40, 8, seconds=1e-6)
ALL: tuple[Event, ...] = (
    PassRan("scale", "cpu", "tile", "tile-simplify", 0.001, True, {"products": True}),
    Attempted("scale", "cuda:sm_90a", 0, {"stages": 7}, "needs more shared memory"),
    Compiled("scale", "cpu", "0" * 40, "disk", 0.002),
    LAUNCHED,
    TrialMeasured("scale", 1, "a CPU", "comparing the best 2", {"BM": 64}, "measured", 1e-6, None, "", 1, 4),
    TileRan("scale", 3, 0, 10.0, 20.0, {"load": 4.0}),
    MOVED,
)


def test_there_is_an_example_of_every_kind():
    assert tuple(type(event) for event in ALL) == KINDS


def test_events_are_plain_data():
    """They cross from the worker process to the notebook."""
    assert pickle.loads(pickle.dumps(ALL)) == ALL


def test_a_subscriber_gets_the_kinds_it_asked_for_until_it_leaves():
    got: list[Event] = []
    with subscribe(got.append, BytesMoved, Launched):
        for event in ALL:
            publish(event)
    publish(MOVED)
    assert got == [LAUNCHED, MOVED]


def test_without_kinds_a_subscriber_gets_all():
    got: list[Event] = []
    with subscribe(got.append):
        for event in ALL:
            publish(event)
    assert got == list(ALL)


def test_several_subscribers_are_called_in_the_order_they_came():
    calls: list[str] = []
    with subscribe(lambda event: calls.append("first")), subscribe(lambda event: calls.append("second"), BytesMoved):
        publish(MOVED)
        publish(LAUNCHED)
    assert calls == ["first", "second", "first"]


def test_one_callable_may_subscribe_twice_and_leave_once():
    got: list[Event] = []
    with subscribe(got.append), subscribe(got.append):
        publish(MOVED)
    assert got == [MOVED, MOVED]
    with subscribe(got.append):
        subscribe(got.append).close()
        publish(LAUNCHED)
    assert got == [MOVED, MOVED, LAUNCHED]


def test_closing_twice_does_nothing():
    subscription = subscribe(lambda event: None)
    subscription.close()
    subscription.close()
    assert wanted_kinds() == ()


def test_what_is_wanted():
    assert not wanted(BytesMoved)
    with subscribe(lambda event: None, BytesMoved):
        assert wanted(BytesMoved)
        assert not wanted(Launched)
        assert wanted_kinds() == (BytesMoved,)
    assert not wanted(BytesMoved)


def test_what_is_no_event_cannot_be_subscribed_to():
    with pytest.raises(TypeError, match=r"'int'.* is no kind of event: choose of PassRan, Attempted, Compiled"):
        subscribe(lambda event: None, int)  # pyright: ignore[reportArgumentType] - the mistake
    assert wanted_kinds() == ()


def test_a_subscriber_that_fails_is_reported_once_and_harms_no_other(caplog: pytest.LogCaptureFixture):
    got: list[Event] = []

    def failing(event: Event) -> None:
        raise ValueError("out of paint")

    with caplog.at_level(logging.ERROR, "tessera.events"), subscribe(failing), subscribe(got.append):
        publish(MOVED)
        publish(LAUNCHED)
    assert got == [MOVED, LAUNCHED]
    assert [record.getMessage() for record in caplog.records] == [
        "a subscriber to events failed on BytesMoved, and is not called again"
    ]
    assert "ValueError: out of paint" in caplog.text


def test_ctrl_c_in_a_subscriber_is_no_failure_of_it():
    def interrupted(event: Event) -> None:
        raise KeyboardInterrupt

    with subscribe(interrupted):
        with pytest.raises(KeyboardInterrupt):
            publish(MOVED)
        assert wanted(BytesMoved)


def test_a_subscriber_may_leave_while_it_is_called():
    got: list[Event] = []

    def once(event: Event) -> None:
        got.append(event)
        subscription.close()

    subscription = subscribe(once)
    publish(MOVED)
    publish(LAUNCHED)
    assert got == [MOVED]


def test_a_publisher_is_told_when_to_begin_and_when_to_stop():
    told: list[bool] = []
    when_wanted(TileRan, told.append)
    with subscribe(lambda event: None, TileRan):
        with subscribe(lambda event: None):
            assert told == [True]
        assert told == [True]
    assert told == [True, False]
    with subscribe(lambda event: None, BytesMoved):
        assert told == [True, False]


def test_a_publisher_that_comes_late_is_told_at_once():
    told: list[bool] = []
    with subscribe(lambda event: None, BytesMoved):
        when_wanted(BytesMoved, told.append)
        assert told == [True]
    assert told == [True, False]


def test_events_of_many_threads_all_arrive():
    got: list[Event] = []

    def work() -> None:
        for _ in range(500):
            with subscribe(lambda event: None, Launched):
                publish(MOVED)

    with subscribe(got.append, BytesMoved):
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(got) == 2000
    assert wanted_kinds() == ()
