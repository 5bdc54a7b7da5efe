"""What a profile found: one record a tile, and what they say together."""

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, overload

import numpy as np

from tessera.core.base.plurals import counted
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
from tessera.performance.device_model import Machine

# Nanoseconds a cycle of a multiprocessor's clock can take: outside, the counter is not what it should be.
_CYCLE_RANGE: Final = (0.2, 5.0)
_FORMAT: Final = 1
_LIMITS: Final = {"memory": "memory", "compute": "arithmetic"}
"""What sets a limit, in words."""


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
    """Tiles from the words of a launch's records (groups x WORDS); groups that wrote none are left out."""
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
    """ns of a cycle: how far apart times on one multiprocessor are, over how far apart its counter is."""
    times, cycles = np.concatenate([start, end]), np.concatenate([first, first + spent])
    units, members = np.unique(np.concatenate([unit, unit]), return_inverse=True)
    count = np.bincount(members, minlength=len(units))
    times = times - (np.bincount(members, times, len(units)) / count)[members]
    cycles = cycles - (np.bincount(members, cycles, len(units)) / count)[members]
    spread = float(cycles @ cycles)
    found = float(times @ cycles) / spread if spread else 0.0
    return found if _CYCLE_RANGE[0] <= found <= _CYCLE_RANGE[1] else None


@dataclass(frozen=True, slots=True)
class Roofline:
    """Where a launch stands between what memory and what arithmetic allow.

    memory, compute: seconds that the least bytes, and the operations, take at the machine's rates
    intensity: operations a byte; ridge: the intensity at which both take the same time
    """

    memory: float
    compute: float
    intensity: float
    ridge: float

    @property
    def bound(self) -> str:
        """What the launch cannot be faster than: "memory" or "compute"."""
        return "memory" if self.memory >= self.compute else "compute"

    @property
    def floor(self) -> float:
        """Seconds that no version of the kernel beats at these rates."""
        return max(self.memory, self.compute)


def roofline(work: Work, machine: Machine) -> Roofline:
    """The position of `work` on `machine`."""
    compute = sum(amount / machine.rate(kind) for kind, amount in work.by_kind.items())
    bytes_, flops = work.least_bytes, work.total_flops
    mixed = flops / compute if compute else machine.rate("f32")
    return Roofline(bytes_ / machine.bandwidth, compute, flops / bytes_ if bytes_ else 0.0, mixed / machine.bandwidth)


@dataclass(frozen=True, eq=False)
class Profile:
    """What one launch did.

    kernel, target: what ran; work: what was counted
    tiles: one record a group; or, where groups are too short for that, of every `every`-th group
    plain: seconds of launches of the ordinary kernel; instrumented: of the one that writes records, in turns with them
    registers, shared_bytes, spill_bytes: of the ordinary kernel, None where the target has none
    later: of the phases that are launched after this one, where one call is several launches
    """

    kernel: str
    target: str
    machine: Machine
    tiles: Tiles
    work: Work
    plain: tuple[float, ...]
    instrumented: tuple[float, ...]
    registers: int | None = None
    shared_bytes: int = 0
    spill_bytes: int | None = None
    every: int = 1
    later: "tuple[Profile, ...]" = ()

    @property
    def wall(self) -> float:
        """Seconds of the ordinary kernel's launch (median)."""
        return statistics.median(self.plain)

    @property
    def overhead(self) -> float:
        """How much longer a launch took that wrote the records: 0.03 is 3 %.  Less than `noise` it means little.

        The fastest launches of each kind are compared: what else the machine does only ever adds.  Where those that
        wrote records happened to be faster, it is 0.
        """
        return max(0.0, min(self.instrumented) / min(self.plain) - 1.0)

    @property
    def noise(self) -> float:
        """How far the median of the launches is above the fastest, of the kind where it is farther."""
        return max(statistics.median(seconds) / min(seconds) - 1.0 for seconds in (self.plain, self.instrumented))

    @property
    def bandwidth(self) -> float:
        """Bytes a second that memory moved at least."""
        return self.work.least_bytes / self.wall

    @property
    def flops(self) -> float:
        """Floating-point operations a second."""
        return self.work.total_flops / self.wall

    @cached_property
    def roofline(self) -> Roofline:
        """The position between memory and arithmetic."""
        return roofline(self.work, self.machine)

    @property
    def attained(self) -> float:
        """The share of what the roofline allows."""
        return self.roofline.floor / self.wall

    @property
    def span(self) -> float:
        """ns from the start of the first tile to the end of the last one."""
        return float(self.tiles.end.max(initial=0.0))

    @cached_property
    def busy(self) -> Mapping[int, float]:
        """For each unit that ran tiles, the ns in which at least one was running."""
        found: dict[int, float] = {}
        for unit in np.unique(self.tiles.unit):
            mine = self.tiles.unit == unit
            order = np.argsort(self.tiles.start[mine])
            start, end = self.tiles.start[mine][order], self.tiles.end[mine][order]
            reached = np.maximum.accumulate(end)
            before = np.concatenate([[start[0]], reached[:-1]])
            found[int(unit)] = float(np.maximum(0.0, end - np.maximum(start, before)).sum())
        return found

    @property
    def phase_share(self) -> Mapping[str, float]:
        """Of the tiles' time, the share spent in each phase; empty where the kernel is not pipelined."""
        total = float(self.tiles.duration.sum())
        return {name: float(values.sum()) / total for name, values in self.tiles.phases.items()} if total else {}

    def to_dict(self, *, tiles: bool = True) -> dict[str, Any]:
        """Everything as plain data: seconds, bytes, and, with `tiles`, the records as columns (ns)."""
        found: dict[str, Any] = {
            "format": _FORMAT,
            "kernel": self.kernel,
            "target": self.target,
            "device": self.machine.label,
            "unit": self.machine.unit,
            "units": self.machine.units,
            "groups": self.work.groups,
            "every": self.every,
            "wall_seconds": self.wall,
            "plain_seconds": list(self.plain),
            "instrumented_seconds": list(self.instrumented),
            "overhead": self.overhead,
            "noise": self.noise,
            "least_bytes": self.work.least_bytes,
            "requested_bytes": self.work.requested_bytes,
            "operations": dict(self.work.by_kind),
            "bytes_per_second": self.bandwidth,
            "operations_per_second": self.flops,
            "roofline": {
                "bound": self.roofline.bound,
                "floor_seconds": self.roofline.floor,
                "attained": self.attained,
                "intensity": self.roofline.intensity,
                "ridge": self.roofline.ridge,
                "memory_bytes_per_second": self.machine.bandwidth,
                "source": self.machine.source,
            },
            "registers": self.registers,
            "shared_bytes": self.shared_bytes,
            "spill_bytes": self.spill_bytes,
            "notes": list(self.work.notes),
            "phases": dict(self.phase_share),
        }
        if tiles:
            columns = {
                "index": self.tiles.group, "unit": self.tiles.unit, "start": self.tiles.start, "end": self.tiles.end,
                "read": self.tiles.read, "written": self.tiles.written, **self.tiles.phases,
            }  # fmt: skip
            found["tiles"] = {name: values.tolist() for name, values in columns.items()}
        return found

    def to_json(self, *, tiles: bool = True) -> str:
        """`to_dict` as JSON."""
        return json.dumps(self.to_dict(tiles=tiles))

    def summary(self) -> str:
        """The figures as lines of text."""
        return "\n".join(f"{name:<12} {value}" for name, value in self.rows())

    def rows(self) -> list[tuple[str, str]]:
        """The figures, each with its name, in words."""
        line = self.roofline
        rows = [
            ("kernel", f"{self.kernel} for {self.target} on {self.machine.name}"),
            ("time", f"{_time(self.wall)} (median of {len(self.plain)} launches, fastest {_time(min(self.plain))})"),
            ("memory", (f"{_count(self.bandwidth)}B/s: {_count(self.work.least_bytes)}B that have to be moved "
                       f"(the tiles ask for {_count(self.work.requested_bytes)}B)")),
            ("arithmetic", f"{_count(self.flops)}FLOP/s: {_count(self.work.total_flops)}FLOP ({self._kinds()})"),
            ("roofline", (f"{self.attained:.1%} of the speed that {_LIMITS[line.bound]} allows (at best "
                         f"{_time(line.floor)}); {line.intensity:.3g} FLOP per byte, where memory is the limit "
                         f"below {line.ridge:.3g}")),
            ("peaks", f"{_count(self.machine.bandwidth)}B/s; {self.machine.source}"),
            ("tiles", (f"{self._tile_count()} on {len(self.busy)} of {counted(self.machine.units, self.machine.unit)}; "
                      f"{self._durations()}")),
            *([("balance", self._balance())] if self.every == 1 else []),
            ("overhead", self._overhead()),
        ]  # fmt: skip
        if self.phase_share:
            rows.insert(-1, ("phases", ", ".join(f"{name} {share:.0%}" for name, share in self.phase_share.items())))
        if self.registers is not None:
            rows.append(("resources", (f"{self.registers} registers, {self.shared_bytes} B shared, "
                                      f"{self.spill_bytes or 0} B spilled")))  # fmt: skip
        return rows + [("note", note) for note in self.work.notes]

    def _kinds(self) -> str:
        total = self.work.total_flops or 1.0
        ordered = sorted(self.work.by_kind.items(), key=lambda item: -item[1])
        return ", ".join(f"{amount / total:.0%} {kind}" for kind, amount in ordered) or "none"

    def _tile_count(self) -> str:
        if self.every == 1:
            return str(len(self.tiles))
        return f"{self.work.groups}, too short to record each: one in {self.every} is recorded,"

    def _durations(self) -> str:
        """How long the tiles took."""
        fastest, median, slowest = (_time(_at(self.tiles.duration, place) / 1e9) for place in (0.0, 0.5, 1.0))
        if fastest == slowest:
            return f"{median} each"
        return f"{median} for the median one (fastest {fastest}, slowest {slowest})"

    def _balance(self) -> str:
        busy = list(self.busy.values())
        if not busy or not self.span:
            return "nothing ran"
        shares = sorted(value / self.span for value in busy)
        least, most, unit = f"{shares[0]:.0%}", f"{shares[-1]:.0%}", self.machine.unit
        who = f"the one {unit} that ran tiles was" if len(busy) == 1 else f"the {unit}s that ran tiles were"
        share = least if least == most else f"{least} to {most}"
        return f"{who} busy for {share} of the {_time(self.span / 1e9)}"

    def _overhead(self) -> str:
        """What writing the records cost, where launches vary by less than that."""
        if self.overhead <= self.noise:
            return f"not measurable: launches vary by {self.noise:.1%}, more than writing the records takes"
        return f"writing the records takes {self.overhead:.1%} of a launch (launches vary by {self.noise:.1%})"

    def __repr__(self) -> str:
        tiles = counted(self.work.groups, "tile")
        mine = (
            f"<profile of {self.kernel} on {self.machine.label}: {_time(self.wall)}, {tiles}, "
            f"{self.attained:.0%} of the speed that {_LIMITS[self.roofline.bound]} allows>"
        )
        return "\n".join((mine, *map(repr, self.later)))


def _at(values: Numbers, place: float) -> float:
    return float(np.quantile(values, place)) if len(values) else 0.0


def _time(seconds: float) -> str:
    for factor, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= factor:
            return f"{seconds / factor:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def _count(value: float) -> str:
    for factor, unit in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:.3g} {unit}"
    return f"{value:.3g} "
