"""Timelines of devices: when each computes, communicates, and is idle, in virtual time or in the host's.

Devices that do the same are one row.  Communication that a device computes meanwhile costs no time: what is left of it
is exposed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

from tessera.core.base.plurals import counted
from tessera.core.placement.memory import amount
from tessera.core.planning.device_trace import write_device_trace

COMPUTE: Final = "compute"
COMMUNICATION: Final = "communication"
VIRTUAL: Final = "virtual"
"""Seconds that a cost model gives."""
HOST: Final = "host"
"""Seconds of the host, on which all devices are threads or turns of one process."""
_MOST_ROWS: Final = 12
"""Rows that a text holds."""


@dataclass(frozen=True, slots=True)
class DeviceSpan:
    """One thing that a device does, from `start` to `end`, in seconds.

    kind: COMPUTE or COMMUNICATION; name: of the kernel, the collective, the part of a pipeline
    sent: bytes that the device sends; basis: what a modelled time rests on; operator: its number in a plan, -1: none
    """

    kind: str
    name: str
    start: float
    end: float
    sent: float = 0.0
    basis: str = ""
    operator: int = -1

    @property
    def seconds(self) -> float:
        """How long it takes."""
        return self.end - self.start


@dataclass(frozen=True)
class DeviceRow:
    """Devices that do the same at the same time."""

    name: str
    devices: tuple[int, ...]
    spans: tuple[DeviceSpan, ...]

    @cached_property
    def compute(self) -> float:
        """Seconds in which they compute."""
        return covered(span for span in self.spans if span.kind == COMPUTE)

    @cached_property
    def communication(self) -> float:
        """Seconds in which they communicate, whatever else they do."""
        return covered(span for span in self.spans if span.kind == COMMUNICATION)

    @cached_property
    def exposed(self) -> float:
        """Seconds in which they communicate and compute nothing."""
        return covered(self.spans) - self.compute

    @property
    def sent(self) -> float:
        """Bytes that each of them sends."""
        return sum(span.sent for span in self.spans)


@dataclass(frozen=True)
class DeviceTimeline:
    """A list of what devices do over time, a row each.

    clock: VIRTUAL or HOST; notes: what is left out, and what times rest on
    """

    title: str
    clock: str
    rows: tuple[DeviceRow, ...]
    notes: tuple[str, ...] = field(default=())

    @cached_property
    def seconds(self) -> float:
        """When everything is done."""
        return max((span.end for row in self.rows for span in row.spans), default=0.0)

    def idle(self, row: DeviceRow) -> float:
        """Return the seconds in which devices neither compute nor communicate."""
        return self.seconds - row.compute - row.exposed

    @cached_property
    def shares(self) -> Mapping[str, float]:
        """Shares of all devices' time: compute, exposed communication, idle."""
        devices = sum(len(row.devices) for row in self.rows) * self.seconds
        if not devices:
            return {COMPUTE: 0.0, COMMUNICATION: 0.0, "idle": 0.0}
        parts = [
            sum(len(row.devices) * each for row, each in zip(self.rows, values, strict=True)) / devices
            for values in (
                [row.compute for row in self.rows], [row.exposed for row in self.rows],
                [self.idle(row) for row in self.rows],
            )
        ]  # fmt: skip
        return dict(zip((COMPUTE, COMMUNICATION, "idle"), parts, strict=True))

    @cached_property
    def alike(self) -> tuple[DeviceRow, ...]:
        """The rows, one for all devices that do the same."""
        found: dict[tuple[DeviceSpan, ...], list[DeviceRow]] = {}
        for row in self.rows:
            found.setdefault(row.spans, []).append(row)
        return tuple(rows[0] if len(rows) == 1 else _together(rows) for rows in found.values())

    def export_trace(self, path: str | Path) -> Path:
        """Write it as a Chrome trace, which Perfetto opens; return the path."""
        return write_device_trace(self, path)

    def __str__(self) -> str:
        shares = ", ".join(f"{name} {share:.1%}" for name, share in self.shares.items())
        lines = [f"{self.title}: {in_time(self.seconds)} of {self.clock} time; {shares}"]
        lines += [
            f"  {row.name}: compute {in_time(row.compute)}, communication {in_time(row.exposed)} exposed of "
            f"{in_time(row.communication)}, {amount(row.sent)} sent, idle {in_time(self.idle(row))}"
            for row in self.alike[:_MOST_ROWS]
        ]
        left = len(self.alike) - _MOST_ROWS
        return "\n".join((*lines, *([f"  and {counted(left, 'row')} more"] if left > 0 else [])))


def _together(rows: Sequence[DeviceRow]) -> DeviceRow:
    devices = tuple(device for row in rows for device in row.devices)
    return DeviceRow(named_devices(devices), devices, rows[0].spans)


def covered(spans: Iterable[DeviceSpan]) -> float:
    """Return the length of the union of spans."""
    total, until = 0.0, float("-inf")
    for start, end in sorted((span.start, span.end) for span in spans):
        if end > until:
            total += end - max(start, until)
            until = end
    return total


def named_devices(devices: Sequence[int]) -> str:
    """Return devices in words: `device 3`, `devices 0 to 7`, `4 devices from 0 on`."""
    if len(devices) == 1:
        return f"device {devices[0]}"
    if devices[-1] - devices[0] + 1 == len(devices):
        return f"devices {devices[0]} to {devices[-1]}"
    return f"{len(devices)} devices from {devices[0]} on"


def in_time(seconds: float) -> str:
    """Return a time in the unit that it is read best in."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:,.3g} {unit}" if seconds < 1000 * size else f"{seconds / size:,.0f} {unit}"
    return f"{seconds / 1e-9:,.3g} ns" if seconds else "0 us"
