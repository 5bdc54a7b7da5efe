"""Launches that had their turn: a few of them are on the GPU at a time."""

from support.fake_cuda import FakeDriver
from tessera.runtime.streams.in_flight_limit import InFlightLimit


def test_the_oldest_is_waited_for_when_there_are_four():
    fake, outstanding = FakeDriver(), InFlightLimit()
    for stream in range(6):
        outstanding.add(fake, stream)
    marks = [entry[1] for entry in fake.log if entry[0] == "wait event"]
    assert len(marks) == 3
    assert marks == sorted(marks)
    assert len(fake.events) == 3  # those that were waited for are closed
    assert fake.log[:5] == [("record", 0), ("record", 1), ("record", 2), ("record", 3), ("wait event", marks[0])]
