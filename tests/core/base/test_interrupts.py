"""Ctrl-C held back, and when it comes after all; what waits in steps is tested where it waits."""

import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

import pytest

from support.interrupts import held, interrupted_everywhere
from tessera.core.base.interrupts import LOOK, deferred_interrupts


@pytest.fixture(autouse=True)
def _the_handler_is_put_back() -> Iterator[None]:
    before = signal.getsignal(signal.SIGINT)
    yield
    found = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, before)
    assert found is before


def ctrl_c() -> None:
    signal.raise_signal(signal.SIGINT)


def ended_by_ctrl_c(function: Callable[[], None]) -> KeyboardInterrupt:
    """Run a function that Ctrl-C ends."""
    with pytest.raises(KeyboardInterrupt) as caught:
        function()
    return caught.value


def test_two_steps_are_within_a_fifth_of_a_second():
    assert 0 < 2 * LOOK < 0.2


def test_it_comes_at_the_end():
    done: list[int] = []

    @ended_by_ctrl_c
    def _() -> None:
        with deferred_interrupts():
            ctrl_c()
            done.append(1)
            ctrl_c()
            done.append(2)

    assert done == [1, 2]


def test_nothing_comes_where_nothing_came():
    with deferred_interrupts() as deferral:
        deferral.deliver()


def test_what_waits_delivers_it_earlier_and_once():
    done: list[int] = []
    with deferred_interrupts() as deferral:
        ctrl_c()
        with pytest.raises(KeyboardInterrupt):
            deferral.deliver()
        deferral.deliver()
        done.append(1)
    assert done == [1]


def test_it_is_raised_instead_of_a_failure_and_names_it():
    @ended_by_ctrl_c
    def error() -> None:
        with deferred_interrupts():
            ctrl_c()
            raise ValueError("the failure")

    assert isinstance(error.__context__, ValueError)


def test_only_the_outermost_delivers():
    done: list[int] = []

    @ended_by_ctrl_c
    def _() -> None:
        with deferred_interrupts():
            with deferred_interrupts() as inner:
                ctrl_c()
                inner.deliver()
                with inner.lifted():
                    done.append(1)
            done.append(2)

    assert done == [1, 2]


def test_where_it_is_lifted_it_comes_at_once_and_what_follows_is_deferred_again():
    done: list[int] = []

    @ended_by_ctrl_c
    def _() -> None:
        with deferred_interrupts() as deferral:
            try:
                with deferral.lifted():
                    ctrl_c()
                    done.append(1)
            finally:
                ctrl_c()
                done.append(2)

    assert done == [2]


def test_what_came_before_it_is_lifted_comes_there():
    done: list[int] = []
    with deferred_interrupts() as deferral:
        ctrl_c()
        with pytest.raises(KeyboardInterrupt), deferral.lifted():
            done.append(1)
    assert done == []


def test_a_handler_that_raises_nothing_is_called_once():
    called: list[bool] = []

    def handle(number: int, frame: FrameType | None) -> None:
        called.append(number == signal.SIGINT and frame is not None)

    before = signal.signal(signal.SIGINT, handle)
    try:
        with deferred_interrupts() as deferral:
            ctrl_c()
            assert called == []
            deferral.deliver()
            assert called == [True]
            ctrl_c()
            with deferral.lifted():
                assert called == [True, True]
            ctrl_c()
        assert called == [True] * 3
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_handler_set_meanwhile_stays():
    before = signal.getsignal(signal.SIGINT)
    try:
        with deferred_interrupts():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            ctrl_c()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with deferred_interrupts() as deferral, deferral.lifted():
            ctrl_c()
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_leave_the_handler_alone():
    before, seen = signal.getsignal(signal.SIGINT), list[object]()

    def work() -> None:
        with deferred_interrupts() as deferral:
            deferral.deliver()
            with deferral.lifted():
                seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


def test_a_condition_is_free_whenever_ctrl_c_comes():
    condition, before = threading.Condition(), signal.getsignal(signal.SIGINT)
    halves: list[int] = []

    def change() -> None:
        with deferred_interrupts() as deferral, condition:
            halves.append(0)
            condition.wait(0.0)
            condition.notify_all()
            halves.append(1)
            deferral.deliver()

    def check(line: int) -> None:
        assert not held(condition), line
        assert signal.getsignal(signal.SIGINT) is before, line
        assert halves in ([], [0, 1]), line
        halves.clear()

    assert interrupted_everywhere(change, check, __file__) > 30
