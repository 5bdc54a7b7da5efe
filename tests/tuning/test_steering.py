"""Turns of searches: one has it at a time, those of cells go before those in the background."""

import threading

import pytest

from support.interrupts import ctrl_c_inside
from tessera.core.base.interrupts import stoppable
from tessera.tuning.steering import UNSTEERED, MeasuringTurn


def in_thread(work: "object") -> threading.Thread:
    thread = threading.Thread(target=work)  # pyright: ignore[reportArgumentType]
    thread.start()
    return thread


def test_a_search_in_a_cell_is_not_steered():
    assert UNSTEERED.checkpoint() == 0.0
    assert UNSTEERED.by_hand() == ()
    assert not UNSTEERED.pinned({"BM": 64})


def test_a_turn_is_shared_inside_of_itself():
    turn, inside = MeasuringTurn(), threading.Event()

    def other() -> None:
        with turn.held(background=True):
            inside.set()

    with turn.held(background=False):
        with turn.held(background=False):
            thread = in_thread(other)
        assert not inside.is_set()
    thread.join(60)
    assert inside.is_set()


def test_a_cell_goes_before_the_background():
    turn, order = MeasuringTurn(), list[str]()
    waiting = threading.Semaphore(0)

    def background() -> None:
        turn.take(background=True, each_look=waiting.release)
        order.append("background")
        turn.give()

    def cell() -> None:
        turn.take(background=False, each_look=waiting.release)
        order.append("cell")
        turn.give()

    turn.take(background=True)
    assert not turn.wanted
    first = in_thread(background)
    assert waiting.acquire(timeout=60)
    second = in_thread(cell)
    while not turn.wanted:
        assert waiting.acquire(timeout=60)
    turn.give()
    first.join(60)
    second.join(60)
    assert order == ["cell", "background"]
    assert not turn.wanted


def test_giving_what_one_has_not_does_nothing():
    turn = MeasuringTurn()
    with turn.held(background=False):
        in_thread(turn.give).join(60)
        thread = in_thread(lambda: turn.take(background=True))
        assert thread.is_alive()
    thread.join(60)
    assert not thread.is_alive()


def test_a_stop_and_ctrl_c_end_the_wait():
    turn, stop, ended = MeasuringTurn(), threading.Event(), threading.Event()
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with turn.held(background=True):
            held.set()
            done.wait(60)

    def wait() -> None:
        with stoppable(stop), pytest.raises(KeyboardInterrupt):
            turn.take(background=True)
        ended.set()

    holder = in_thread(hold)
    assert held.wait(60)
    waiter = in_thread(wait)
    stop.set()
    assert ended.wait(60)
    with ctrl_c_inside(MeasuringTurn.take):
        turn.take(background=False)
    assert not turn.wanted
    done.set()
    holder.join(60)
    waiter.join(60)
