"""Chrome traces of profiles."""

import json
from pathlib import Path

import pytest

from support.profiles import profile_of
from tessera.profiling.trace import trace_events

FOUND = profile_of([0, 0, 1], [0, 100, 50], [200, 300, 400], {"load": [50, 20, 100], "store": [500, 0, 50]})


def test_every_tile_is_one_event_with_its_place():
    events = list(trace_events(FOUND))
    tiles = [event for event in events if event.get("cat") == "tile"]
    assert [(event["name"], event.get("ts"), event.get("dur")) for event in tiles] == [
        ("tile 0", 0.0, 0.2), ("tile 1", 0.1, 0.2), ("tile 2", 0.05, 0.35),
    ]  # fmt: skip
    assert tiles[2]["args"] == {"tile": 2, "place": [2], "unit": 1, "bytes read": 1000.0, "bytes written": 500.0}


def test_tiles_beside_each_other_have_tracks_of_their_own():
    events = list(trace_events(FOUND))
    names = [event["args"]["name"] for event in events if event["name"] == "thread_name"]
    assert set(names) == {"SM 0", "SM 0, slot 1", "SM 1"}
    assert len({event.get("tid") for event in events if event.get("cat") == "tile"}) == 3


def test_phases_lie_inside_their_tile():
    events = list(trace_events(FOUND))
    phases = [event for event in events if event.get("cat") == "phase" and event["args"] == {"tile": 0}]
    assert [(event["name"], event.get("ts"), event.get("dur")) for event in phases] == [
        ("load", 0.0, 0.05), ("store", 0.05, pytest.approx(0.15)),
    ]  # fmt: skip


def test_a_file_holds_all_launches(tmp_path: Path):
    path = FOUND.export_trace(tmp_path / "x.json")
    events = json.loads(path.read_text())["traceEvents"]
    assert {event["pid"] for event in events} == {0}
    assert sum(event["ph"] == "X" for event in events) == 3 + 6
