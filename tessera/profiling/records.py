"""The records of a profiled launch as tiles: times since the first of them began, units, phases."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, overload

import numpy as np

from tessera.core.profile import (
    CYCLES,
    END,
    FIRST_PHASE,
    NO_PLACE,
    PHASES,
    PLACE,
    RAN,
    START,
    WORKER,
)
from tessera.core.work import Numbers, Work

# Nanoseconds a cycle of a multiprocessor's clock can take: outside, the counter is not what it should be.
_CYCLE_RANGE: Final = (0.2, 5.0)


@dataclass(frozen=True, slots=True)
class TileRecord:
    """One tile (group) of a profiled launch.

    unit: the multiprocessor (GPU) or core it ran on, -1 where that is not known
    start, end: ns since the first tile of the launch began
    read, written: bytes asked of memory, counted on the kernel's text
    phases: ns in "load" (waiting for it), "compute" and "store", where the kernel is pipelined
    """

    index: int
    unit: int
    start: float
    end: float
    read: float
    written: float
    phases: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class Tiles(Sequence[TileRecord]):
    """The records of a launch as columns, one entry a group that has one; as a sequence, `TileRecord`s."""

    group: Numbers
    unit: Numbers
    start: Numbers
    end: Numbers
    read: Numbers
    written: Numbers
    phases: Mapping[str, Numbers]

    def __len__(self) -> int:
        return len(self.start)

    @overload
    def __getitem__(self, index: int) -> TileRecord: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[TileRecord]: ...
    def __getitem__(self, index: int | slice) -> TileRecord | Sequence[TileRecord]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        number = range(len(self))[index]
        return TileRecord(
            int(self.group[number]), int(self.unit[number]), float(self.start[number]), float(self.end[number]),
            float(self.read[number]), float(self.written[number]),
            {name: float(values[number]) for name, values in self.phases.items()},
        )  # fmt: skip

    def __iter__(self) -> Iterator[TileRecord]:
        return (self[index] for index in range(len(self)))

    @property
    def duration(self) -> Numbers:
        """ns each tile took."""
        return self.end - self.start


def read_records(records: Numbers, work: Work, *, on_gpu: bool) -> Tiles:
    """Make tiles from the words of a launch's records (groups x WORDS); groups that wrote none are left out."""
    ran = records[:, PLACE] >= RAN
    kept = records[ran]
    place = (kept[:, PLACE] & np.uint64(NO_PLACE)).astype(np.int64)
    unit = np.where(place == NO_PLACE, -1, place)
    phases: dict[str, Numbers] = {}
    if on_gpu:
        start, end, cycle = _fine_times(kept, unit)
        for number, name in enumerate(PHASES):
            cycles = kept[:, FIRST_PHASE + number].astype(np.int64)
            if cycles.any():
                phases[name] = cycles * cycle
        if phases and "compute" not in phases:
            # What a tile did while it neither waited for loads nor stored.
            rest = np.maximum(0.0, end - start - sum(phases.values(), np.zeros(len(kept))))
            phases = {
                name: rest if name == "compute" else phases[name] for name in PHASES if name in {*phases, "compute"}
            }
    else:
        unit = np.where(unit < 0, np.unique(kept[:, WORKER], return_inverse=True)[1], unit)
        start, end = _since_first(kept[:, START], kept), _since_first(kept[:, END], kept)
    return Tiles(np.flatnonzero(ran), unit, start, end, work.read[ran], work.written[ran], phases)


def _since_first(times: Numbers, records: Numbers) -> Numbers:
    first = records[:, START].min() if len(records) else np.uint64(0)
    return (times - first).astype(np.float64)


def _fine_times(records: Numbers, unit: Numbers) -> tuple[Numbers, Numbers, float]:
    """Start and end in ns, and the ns of a cycle: the global clock, which ticks coarsely, refined by cycle counters.

    On each multiprocessor time is the cycle counter times one factor plus that multiprocessor's own offset.
    """
    start, end = _since_first(records[:, START], records), _since_first(records[:, END], records)
    if not len(records):
        return start, end, 1.0
    first_cycle = (records[:, WORKER] - records[:, WORKER].min()).astype(np.float64)
    spent = (records[:, CYCLES] - records[:, WORKER]).astype(np.float64)
    cycle = _cycle(start, end, first_cycle, spent, unit)
    if cycle is None:
        return start, end, 1.0
    refined = first_cycle * cycle
    units, members = np.unique(unit, return_inverse=True)
    offset = np.bincount(members, start - refined, len(units)) / np.bincount(members, minlength=len(units))
    refined += offset[members]
    refined -= refined.min()
    return refined, refined + spent * cycle, cycle


def _cycle(start: Numbers, end: Numbers, first: Numbers, spent: Numbers, unit: Numbers) -> float | None:
    """Return the nanoseconds of a cycle: the distance of times on a multiprocessor over that of its counter."""
    times, cycles = np.concatenate([start, end]), np.concatenate([first, first + spent])
    units, members = np.unique(np.concatenate([unit, unit]), return_inverse=True)
    count = np.bincount(members, minlength=len(units))
    times = times - (np.bincount(members, times, len(units)) / count)[members]
    cycles = cycles - (np.bincount(members, cycles, len(units)) / count)[members]
    spread = float(cycles @ cycles)
    found = float(times @ cycles) / spread if spread else 0.0
    return found if _CYCLE_RANGE[0] <= found <= _CYCLE_RANGE[1] else None
