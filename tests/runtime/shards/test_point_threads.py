"""Points in threads: all at once, the first mistake, and stops: by an event, by an exception, by Ctrl-C."""

import threading

import pytest

from support.interrupts import ctrl_c_reaches
from tessera.core.base.interrupts import raise_if_stopped
from tessera.runtime.shards.point_threads import run_points


def test_all_points_run_at_once():
    meeting = threading.Barrier(72, timeout=30)
    run_points([meeting.wait] * 72)
    assert meeting.n_waiting == 0


def test_threads_are_used_again():
    def threads() -> set[int | None]:
        return {thread.ident for thread in threading.enumerate() if thread.name == "tessera-point"}

    run_points([lambda: None] * 8)
    before = threads()
    for _ in range(20):
        run_points([lambda: None] * 8)
    assert threads() <= before


def test_the_first_mistake_is_raised_and_stops_the_others():
    ended: list[str] = []
    begun = threading.Barrier(3, timeout=60)

    def fails() -> None:
        begun.wait()
        raise ValueError("point 1")

    def waits() -> None:
        begun.wait()
        try:
            while True:
                raise_if_stopped()
        except KeyboardInterrupt:
            ended.append("stopped")
            raise

    with pytest.raises(ValueError, match="point 1"):
        run_points([waits, fails, waits])
    assert ended == ["stopped", "stopped"]


def test_ctrl_c_stops_python_code_that_looks_at_nothing():
    ended: list[str] = []
    with ctrl_c_reaches() as send:
        begun = threading.Barrier(3, action=send, timeout=60)

        def spins() -> None:
            try:
                begun.wait()
                while True:
                    pass
            except KeyboardInterrupt:
                ended.append("stopped")
                raise

        with pytest.raises(KeyboardInterrupt):
            run_points([spins, spins, spins])
    assert ended == ["stopped"] * 3
    found: list[int] = []
    run_points([lambda: found.append(1)] * 3)  # other threads
    assert found == [1, 1, 1]


def test_a_launch_inside_of_a_point_stops_with_it():
    ended: list[str] = []

    begun = threading.Barrier(3, timeout=60)

    def waits() -> None:
        begun.wait()
        try:
            while True:
                raise_if_stopped()
        except KeyboardInterrupt:
            ended.append("stopped")
            raise

    def fails() -> None:
        begun.wait()
        raise ValueError("point 1")

    with pytest.raises(ValueError, match="point 1"):
        run_points([lambda: run_points([waits, waits]), fails])
    assert ended == ["stopped", "stopped"]


def test_one_point_runs_in_the_callers_thread():
    found: list[int] = []
    run_points([lambda: found.append(threading.get_ident())])
    assert found == [threading.get_ident()]
