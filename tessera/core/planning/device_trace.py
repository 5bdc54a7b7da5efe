"""Export timelines of devices as Chrome traces, which Perfetto opens: a process a device, a track a kind of work.

Events of one track of the format must nest or be apart, so transfers that overlap have tracks of their own.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NotRequired, TypedDict

if TYPE_CHECKING:
    from tessera.core.planning.device_timeline import DeviceRow, DeviceSpan, DeviceTimeline

_MICROSECONDS: Final = 1e6
_COMPUTE_TRACK: Final = 1


class TraceEvent(TypedDict):
    """One event of the Trace Event Format; `ts` and `dur` in microseconds."""

    ph: str
    name: str
    pid: int
    tid: NotRequired[int]
    cat: NotRequired[str]
    ts: NotRequired[float]
    dur: NotRequired[float]
    args: dict[str, str | int | float | list[int]]


def write_device_trace(timeline: "DeviceTimeline", path: str | Path) -> Path:
    """Write a timeline as trace events; return the path."""
    target = Path(path)
    document = {
        "traceEvents": list(device_events(timeline)),
        "displayTimeUnit": "ns",
        "otherData": {"title": timeline.title, "clock": timeline.clock, "notes": "; ".join(timeline.notes)},
    }
    target.write_text(json.dumps(document, separators=(",", ":")), encoding="utf-8")
    return target


def device_events(timeline: "DeviceTimeline") -> Iterator[TraceEvent]:
    """Yield the events: names of processes and tracks, and each span as a complete event."""
    for process, row in enumerate(timeline.rows):
        yield {"ph": "M", "name": "process_name", "pid": process, "args": {"name": row.name}}
        yield {"ph": "M", "name": "process_sort_index", "pid": process, "args": {"sort_index": process}}
        lanes = lanes_of(row)
        for track in sorted({_COMPUTE_TRACK + lane for lane in lanes}):
            name = "compute" if track == _COMPUTE_TRACK else "communication"
            more = f" {track - _COMPUTE_TRACK}" if track > _COMPUTE_TRACK + 1 else ""
            yield {"ph": "M", "name": "thread_name", "pid": process, "tid": track, "args": {"name": name + more}}
            yield {"ph": "M", "name": "thread_sort_index", "pid": process, "tid": track, "args": {"sort_index": track}}
        for span, lane in zip(row.spans, lanes, strict=True):
            yield _event(span, process, _COMPUTE_TRACK + lane, timeline.clock)


def _event(span: "DeviceSpan", process: int, track: int, clock: str) -> TraceEvent:
    arguments: dict[str, str | int | float | list[int]] = {"clock": clock}
    if span.sent:
        arguments["bytes sent"] = span.sent
    if span.basis:
        arguments["basis"] = span.basis
    return {
        "ph": "X", "name": span.name, "cat": span.kind, "pid": process, "tid": track,
        "ts": span.start * _MICROSECONDS, "dur": span.seconds * _MICROSECONDS, "args": arguments,
    }  # fmt: skip


def lanes_of(row: "DeviceRow") -> Sequence[int]:
    """Return the track of each span: 0 computes; communication has the first one from 1 on that is free."""
    free: list[float] = []
    found = [0] * len(row.spans)
    for place in sorted(range(len(row.spans)), key=lambda place: row.spans[place].start):
        span = row.spans[place]
        if span.kind == "compute":
            continue
        lane = next((number for number, end in enumerate(free) if end <= span.start), len(free))
        free[lane:] = [span.end, *free[lane + 1 :]]
        found[place] = lane + 1
    return found
