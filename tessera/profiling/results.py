"""The results of a profile: figures derived from the records of its tiles."""

import json
import statistics
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np

from tessera.core.base.durations import duration_text
from tessera.core.base.plurals import counted
from tessera.core.work import Numbers, Work
from tessera.performance.device_model import Machine
from tessera.performance.launch_geometry import GridAxis, grid_axes
from tessera.profiling.documents import ProfileDocument
from tessera.profiling.origin import Origin
from tessera.profiling.plan import LaunchPlan, launch_plan
from tessera.profiling.records import Tiles
from tessera.profiling.trace import write_trace
from tessera.profiling.wrong_elements import WrongElements

_FORMAT: Final = 1
_LIMITS: Final = {"memory": "memory", "compute": "arithmetic"}
"""What sets a limit, in words."""


@dataclass(frozen=True, slots=True)
class Roofline:
    """The limits that memory and arithmetic set to a launch, and how near it comes.

    memory, compute: seconds that the least bytes, and the operations, take at the machine's rates
    intensity: operations a byte; ridge: the intensity at which both take the same time
    """

    memory: float
    compute: float
    intensity: float
    ridge: float

    @property
    def bound(self) -> str:
        """The lower bound of the launch's time: "memory" or "compute"."""
        return "memory" if self.memory >= self.compute else "compute"

    @property
    def floor(self) -> float:
        """Seconds that no version of the kernel beats at these rates."""
        return max(self.memory, self.compute)


def roofline(work: Work, machine: Machine) -> Roofline:
    """Return the position of `work` on `machine`."""
    compute = sum(amount / machine.rate(kind) for kind, amount in work.by_kind.items())
    bytes_, flops = work.least_bytes, work.total_flops
    mixed = flops / compute if compute else machine.rate("f32")
    return Roofline(bytes_ / machine.bandwidth, compute, flops / bytes_ if bytes_ else 0.0, mixed / machine.bandwidth)


@dataclass(frozen=True, eq=False)
class Profile:
    """The profile of one launch.

    kernel, target: what ran; work: what was counted
    tiles: one record a group; or, where groups are too short for that, of every `every`-th group
    plain: seconds of launches of the ordinary kernel; instrumented: of the one that writes records, in turns with them
    registers, shared_bytes, spill_bytes: of the ordinary kernel, None where the target has none
    next_phases: of the phases that are launched after this one, where one call is several launches
    origin: what was launched, for predictions and trials; None for a profile that was made of records alone
    wrong: the outputs that are not as expected; None where nothing was expected
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
    next_phases: "tuple[Profile, ...]" = ()
    origin: Origin | None = None
    wrong: tuple[WrongElements, ...] | None = None

    @cached_property
    def axes(self) -> tuple[GridAxis, ...]:
        """The axes of the launch's grid, the last one fastest; one where it is not known what was launched."""
        origin = self.origin
        if origin is None:
            return (GridAxis("group", self.work.groups, 1),)
        return grid_axes(origin.compiled.artifact, origin.shape)

    @cached_property
    def plan(self) -> LaunchPlan | None:
        """How the launch was planned, and when its tiles should have run; None without an origin."""
        origin = self.origin
        return launch_plan(origin.compiled, origin.shape, self.work, self.machine) if origin is not None else None

    @property
    def grid_sizes(self) -> tuple[int, ...]:
        """Groups along each axis of the grid."""
        return tuple(axis.size for axis in self.axes)

    @property
    def wall(self) -> float:
        """Seconds of the ordinary kernel's launch (median)."""
        return statistics.median(self.plain)

    @property
    def wall_text(self) -> str:
        """`wall` in words, which say what it is."""
        count = len(self.plain)
        return f"median of {count} {'launch' if count == 1 else 'launches'} {duration_text(self.wall)}"

    @property
    def span_text(self) -> str:
        """`span` in words, which say what it is: of the one launch whose tiles were recorded."""
        return f"recorded launch {duration_text(self.span / 1e9)}"

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

    def to_dict(self, *, tiles: bool = True) -> ProfileDocument:
        """Return everything as plain data: seconds, bytes, and, with `tiles`, the records as columns (ns)."""
        found: ProfileDocument = {
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
        """Return `to_dict` as JSON."""
        return json.dumps(self.to_dict(tiles=tiles))

    def export_trace(self, path: str | Path) -> Path:
        """Write the tiles of all phases as a Chrome trace, which Perfetto opens; return the path."""
        return write_trace((self, *self.next_phases), path)

    def summary(self) -> str:
        """Return the figures as lines of text."""
        return "\n".join(f"{name:<12} {value}" for name, value in self.rows())

    def rows(self) -> list[tuple[str, str]]:
        """Return the figures, each with its name, in words."""
        line = self.roofline
        rows = [
            ("kernel", f"{self.kernel} for {self.target} on {self.machine.name}"),
            ("time", (f"{duration_text(self.wall)} (median of {len(self.plain)} launches, fastest "
                      f"{duration_text(min(self.plain))})")),
            ("memory", (f"{_count(self.bandwidth)}B/s: {_count(self.work.least_bytes)}B that have to be moved "
                       f"(the tiles ask for {_count(self.work.requested_bytes)}B)")),
            ("arithmetic", f"{_count(self.flops)}FLOP/s: {_count(self.work.total_flops)}FLOP ({self._kinds()})"),
            ("roofline", (f"{self.attained:.1%} of the speed that {_LIMITS[line.bound]} allows (at best "
                         f"{duration_text(line.floor)}); {line.intensity:.3g} FLOP per byte, where memory is the limit "
                         f"below {line.ridge:.3g}")),
            ("peaks", f"{_count(self.machine.bandwidth)}B/s; {self.machine.source}"),
            ("tiles", (f"{self._tile_count()} on {len(self.busy)} of {counted(self.machine.units, self.machine.unit)}; "
                      f"{self._durations()}")),
            *([("balance", self._balance())] if self.every == 1 else []),
            ("overhead", self._overhead()),
        ]  # fmt: skip
        if self.wrong is not None:
            rows.insert(1, ("results", "; ".join(map(str, self.wrong)) or "as expected"))
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
        """Return how long the tiles took."""
        fastest, median, slowest = (duration_text(_at(self.tiles.duration, place) / 1e9) for place in (0.0, 0.5, 1.0))
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
        return f"{who} busy for {share} of the {duration_text(self.span / 1e9)}"

    def _overhead(self) -> str:
        """Return the cost of writing the records, where launches vary by less than that."""
        if self.overhead <= self.noise:
            return f"not measurable: launches vary by {self.noise:.1%}, more than writing the records takes"
        return f"writing the records takes {self.overhead:.1%} of a launch (launches vary by {self.noise:.1%})"

    def __repr__(self) -> str:
        tiles = counted(self.work.groups, "tile")
        mine = (
            f"<profile of {self.kernel} on {self.machine.label}: {duration_text(self.wall)}, {tiles}, "
            f"{self.attained:.0%} of the speed that {_LIMITS[self.roofline.bound]} allows"
            f"{'; RESULTS ARE WRONG' if self.wrong else ''}>"
        )
        return "\n".join((mine, *map(repr, self.next_phases)))


def _at(values: Numbers, place: float) -> float:
    return float(np.quantile(values, place)) if len(values) else 0.0


def _count(value: float) -> str:
    for size, unit in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.3g} "
