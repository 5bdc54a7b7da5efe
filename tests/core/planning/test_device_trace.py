"""Chrome traces of timelines against the published format: what ui.perfetto.dev reads."""

import json
from itertools import pairwise
from pathlib import Path

from tessera.core.planning.device_timeline import COMMUNICATION, COMPUTE, VIRTUAL, DeviceRow, DeviceSpan, DeviceTimeline
from tessera.core.planning.device_trace import device_events, lanes_of

ROW = DeviceRow(
    "device 0",
    (0,),
    (
        DeviceSpan(COMPUTE, "matmul", 0.0, 2e-6),
        DeviceSpan(COMMUNICATION, "send 0", 1e-6, 4e-6, 1024.0, "unmeasured"),
        DeviceSpan(COMMUNICATION, "send 1", 2e-6, 5e-6),
        DeviceSpan(COMMUNICATION, "send 2", 4e-6, 6e-6),
        DeviceSpan(COMPUTE, "matmul", 2e-6, 3e-6),
    ),
)
TIMELINE = DeviceTimeline("f", VIRTUAL, (ROW, DeviceRow("device 1", (1,), ROW.spans[:1])), ("a note",))


def test_transfers_that_overlap_have_tracks_of_their_own():
    assert list(lanes_of(ROW)) == [0, 1, 2, 1, 0]


def test_the_document_is_a_trace_of_the_format(tmp_path: Path):
    """JSON Object Format: traceEvents, each with a phase; complete events have ts and dur in microseconds."""
    document = json.loads(TIMELINE.export_trace(tmp_path / "trace.json").read_text(encoding="utf-8"))
    assert document["displayTimeUnit"] in ("ms", "ns")
    assert document["otherData"] == {"title": "f", "clock": "virtual", "notes": "a note"}
    events = document["traceEvents"]
    for event in events:
        assert event["ph"] in ("X", "M")
        assert isinstance(event["name"], str)
        assert isinstance(event["pid"], int)
        assert isinstance(event["args"], dict)
        if event["ph"] == "X":
            assert isinstance(event["tid"], int)
            assert event["ts"] >= 0
            assert event["dur"] >= 0
            assert event["cat"] in ("compute", "communication")
    assert sum(event["ph"] == "X" for event in events) == 6
    send = next(event for event in events if event["name"] == "send 0")
    assert (send["ts"], send["dur"]) == (1.0, 3.0)
    assert send["args"] == {"clock": "virtual", "bytes sent": 1024.0, "basis": "unmeasured"}


def test_events_of_a_track_do_not_overlap_and_every_track_has_a_name():
    events = list(device_events(TIMELINE))
    names = {
        (event["pid"], event.get("tid")): event["args"]["name"] for event in events if event["name"] == "thread_name"
    }
    tracks: dict[tuple[int, int | None], list[tuple[float, float]]] = {}
    for event in events:
        if event["ph"] == "X":
            begin, length = event.get("ts", 0.0), event.get("dur", 0.0)
            tracks.setdefault((event["pid"], event.get("tid")), []).append((begin, begin + length))
    assert set(tracks) == set(names)
    assert [names[0, track] for track in (1, 2, 3)] == ["compute", "communication", "communication 2"]
    for spans in tracks.values():
        spans.sort()
        assert all(before[1] <= after[0] for before, after in pairwise(spans))
    assert [event["args"]["name"] for event in events if event["name"] == "process_name"] == ["device 0", "device 1"]
