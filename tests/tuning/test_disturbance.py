"""What counts as a disturbance of a measurement."""

import threading
import time

import pytest

from tessera.tuning.disturbance import Activity, nothing, rest_of_process


@pytest.mark.parametrize(
    ("busy", "overlaps", "seconds", "disturbs"),
    [
        (1.0, 5, 1e-3, False),
        (1.0, 6, 10.0, True),  # another launch shared the cores
        (1.00004, 5, 0.0, False),  # the notebook's own messages
        (1.0002, 5, 1e-3, True),
        (1.01, 5, 1.0, False),  # little beside a long launch
        (1.2, 5, 1.0, True),
    ],
)
def test_cells_and_other_launches_disturb(busy: float, overlaps: int, seconds: float, disturbs: bool):
    assert Activity(busy, overlaps).disturbs(Activity(1.0, 5), seconds) is disturbs


def test_a_search_in_a_cell_is_not_disturbed_by_itself():
    assert not nothing().disturbs(nothing(), 0.0)


def test_the_main_thread_is_seen_from_another_one():
    found: list[bool] = []

    def watch() -> None:
        before = rest_of_process()
        ready.set()
        assert worked.wait(60)
        found.append(rest_of_process().disturbs(before, 0.0))

    ready, worked = threading.Event(), threading.Event()
    thread = threading.Thread(target=watch)
    thread.start()
    assert ready.wait(60)
    begun = time.thread_time()
    while time.thread_time() - begun < 0.01:
        pass
    worked.set()
    thread.join()
    assert found == [True]
