"""Timelines of devices as columns of numbers: what the devices view draws.

Devices that do the same share one track.  What is too short to be seen is drawn together, so that a page stays small.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tessera.core.base.plurals import counted
from tessera.core.planning.device_timeline import COMPUTE, DeviceRow, DeviceSpan, DeviceTimeline, covered
from tessera.core.planning.device_trace import lanes_of
from tessera.core.work import Numbers

MOST_SPANS: Final = 1500
"""Spans of one track in a page; of more, those that follow each other are drawn as one."""
MOST_ALL: Final = 3500
"""Spans of all tracks together."""
_FEWEST: Final = 60


@dataclass(frozen=True, slots=True, eq=False)
class Track:
    """Columns of what some devices do.

    start, end: seconds since the timeline's beginning; lane: 0 computes, others communicate
    name: number of each span's name; sent: bytes; busy: percent of the time in which what is drawn together is busy
    """

    start: Numbers
    end: Numbers
    lane: Numbers
    name: Numbers
    sent: Numbers
    busy: Numbers


@dataclass(frozen=True, slots=True)
class DrawnSpan:
    """Spans of one kind that are drawn as one.  busy: seconds that they take."""

    kind: str
    name: str
    start: float
    end: float
    sent: float
    busy: float


@dataclass(frozen=True, slots=True)
class DevicesRow:
    """One row: its track, and its figures in seconds and bytes."""

    name: str
    devices: int
    track: int
    compute: float
    communication: float
    exposed: float
    idle: float
    sent: float


@dataclass(frozen=True, slots=True)
class DevicesModel:
    """A timeline as it is drawn.  names: of spans; condensed: whether spans are drawn together."""

    title: str
    text: str
    clock: str
    seconds: float
    shares: tuple[tuple[str, float], ...]
    rows: tuple[DevicesRow, ...]
    tracks: tuple[Track, ...]
    names: tuple[str, ...]
    notes: tuple[str, ...]
    condensed: bool


def devices_model(timeline: DeviceTimeline) -> DevicesModel:
    """Return the model of a timeline."""
    tracks: dict[tuple[DeviceSpan, ...], int] = {}
    for row in timeline.rows:
        tracks.setdefault(row.spans, len(tracks))
    most = max(_FEWEST, min(MOST_SPANS, MOST_ALL // max(1, len(tracks))))
    names: dict[str, int] = {}
    condensed = [_condensed(spans, most, timeline.seconds) for spans in tracks]
    made = tuple(_track(spans, names) for spans in condensed)
    rows = tuple(
        DevicesRow(
            row.name, len(row.devices), tracks[row.spans], row.compute, row.communication, row.exposed,
            timeline.idle(row), row.sent,
        )
        for row in timeline.rows
    )  # fmt: skip
    fewer = any(len(a) < len(b) for a, b in zip(condensed, tracks, strict=True))
    notes = (*timeline.notes, *sorted({span.basis for spans in tracks for span in spans if span.basis}))
    return DevicesModel(
        timeline.title, str(timeline), timeline.clock, timeline.seconds, tuple(timeline.shares.items()), rows, made,
        tuple(names), notes, fewer,
    )  # fmt: skip


def _condensed(spans: Sequence[DeviceSpan], most: int, whole: float) -> Sequence[DeviceSpan | DrawnSpan]:
    """Return spans of which those that follow each other closely are one, where there are too many."""
    gap = whole / (4 * most)
    found: Sequence[DeviceSpan | DrawnSpan] = spans
    while len(found) > most:
        found = _joined(spans, gap)
        gap *= 2
    return found


def _joined(spans: Sequence[DeviceSpan], gap: float) -> list[DrawnSpan]:
    """Join spans of one kind that begin less than `gap` behind the end of the one before, up to 16 times as long."""
    open_: dict[str, list[DeviceSpan]] = {}
    found: list[DrawnSpan] = []
    for span in sorted(spans, key=lambda each: each.start):
        run = open_.setdefault(span.kind, [])
        if run and (span.start - run[-1].end > gap or span.end - run[0].start > 16 * gap):
            found.append(_as_one(run))
            run.clear()
        run.append(span)
    return [*found, *(_as_one(run) for run in open_.values() if run)]


def _as_one(run: Sequence[DeviceSpan]) -> DrawnSpan:
    first = run[0]
    name = first.name if len(run) == 1 else f"{first.name} and {counted(len(run) - 1, 'other')}"
    end, sent = max(span.end for span in run), sum(span.sent for span in run)
    return DrawnSpan(first.kind, name, first.start, end, sent, covered(run))


def _track(spans: Sequence[DeviceSpan | DrawnSpan], names: dict[str, int]) -> Track:
    order = sorted(spans, key=lambda span: span.start)
    lanes = lanes_of(DeviceRow("", (), tuple(DeviceSpan(each.kind, "", each.start, each.end) for each in order)))
    busy = [each.busy if isinstance(each, DrawnSpan) else each.seconds for each in order]
    length = [max(each.end - each.start, 1e-30) for each in order]
    return Track(
        np.array([each.start for each in order], np.float32),
        np.array([each.end for each in order], np.float32),
        np.array(
            [0 if each.kind == COMPUTE else min(255, lane) for each, lane in zip(order, lanes, strict=True)], np.uint8
        ),
        np.array([names.setdefault(each.name, len(names)) for each in order], np.uint32),
        np.array([each.sent for each in order], np.float32),
        np.array([round(100 * a / b) for a, b in zip(busy, length, strict=True)], np.uint8),
    )
