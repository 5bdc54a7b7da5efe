"""Timelines: what is covered, exposed and idle, rows that are alike, and texts."""

import pytest

from tessera.core.planning.device_timeline import (
    COMMUNICATION,
    COMPUTE,
    VIRTUAL,
    DeviceRow,
    DeviceSpan,
    DeviceTimeline,
    covered,
    in_time,
    named_devices,
)

SPANS = (
    DeviceSpan(COMPUTE, "matmul", 0.0, 2.0),
    DeviceSpan(COMMUNICATION, "all_reduce over tp of y", 1.0, 4.0, 1024.0, "unmeasured"),
    DeviceSpan(COMMUNICATION, "send", 3.5, 4.5, 1024.0),
    DeviceSpan(COMPUTE, "relu", 6.0, 7.0),
)


def timeline() -> DeviceTimeline:
    rows = (
        DeviceRow("device 0", (0,), SPANS),
        DeviceRow("device 1", (1,), SPANS),
        DeviceRow("device 2", (2,), SPANS[:1]),
    )
    return DeviceTimeline("f on a mesh", VIRTUAL, rows)


def test_what_overlaps_is_counted_once():
    assert covered(SPANS) == 5.5
    assert covered([]) == 0
    assert covered([DeviceSpan(COMPUTE, "a", 0, 4), DeviceSpan(COMPUTE, "b", 1, 2)]) == 4


def test_shares_of_a_row_and_of_all():
    found = timeline()
    first, _, last = found.rows
    assert (first.compute, first.communication, first.exposed, found.idle(first)) == (3.0, 3.5, 2.5, 1.5)
    assert (last.compute, last.exposed, found.idle(last)) == (2.0, 0.0, 5.0)
    assert first.sent == 2048
    assert found.seconds == 7.0
    assert found.shares == pytest.approx({"compute": 8 / 21, "communication": 5 / 21, "idle": 8 / 21})
    assert sum(DeviceTimeline("nothing", VIRTUAL, ()).shares.values()) == 0


def test_devices_that_do_the_same_are_one_row_of_the_text():
    found = timeline()
    assert [row.name for row in found.alike] == ["devices 0 to 1", "device 2"]
    assert str(found).splitlines() == [
        "f on a mesh: 7 s of virtual time; compute 38.1%, communication 23.8%, idle 38.1%",
        "  devices 0 to 1: compute 3 s, communication 2.5 s exposed of 3.5 s, 2.0 KiB sent, idle 1.5 s",
        "  device 2: compute 2 s, communication 0 us exposed of 0 us, 0 bytes sent, idle 5 s",
    ]


def test_a_text_holds_twelve_rows():
    rows = tuple(DeviceRow(f"device {n}", (n,), (DeviceSpan(COMPUTE, "k", 0, n + 1),)) for n in range(20))
    assert str(DeviceTimeline("f", VIRTUAL, rows)).splitlines()[-1] == "  and 8 rows more"


def test_names_and_times():
    assert [named_devices(each) for each in ((3,), (0, 1, 2), (0, 4))] == [
        "device 3", "devices 0 to 2", "2 devices from 0 on",
    ]  # fmt: skip
    assert [in_time(each) for each in (0, 2.5e-9, 3.21e-6, 0.0156, 35.6, 4000)] == [
        "0 us", "2.5 ns", "3.21 us", "15.6 ms", "35.6 s", "4,000 s",
    ]  # fmt: skip
