"""A launch as columns of tiles, measured and predicted: what the timeline and the schedule view draw."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tessera.core.base.plurals import counted
from tessera.core.work import Numbers
from tessera.performance.launch_geometry import GridAxis, TiledArray
from tessera.performance.slot_packing import packed_lanes
from tessera.performance.tile_timeline import PredictedTiles, Wave
from tessera.profiling.plan import LaunchPlan
from tessera.profiling.records import Tiles
from tessera.profiling.results import Profile

MOST_TILES: Final = 400_000
"""Tiles in a page; of more, every second, fourth, ... one is there."""
_WAVES: Final = 512
_SLOWEST: Final = 20


@dataclass(frozen=True, slots=True, eq=False)
class TileColumns:
    """Tiles sorted by row, lane and start; times in ns.

    row: number of the unit's row; lane: inside it, where a unit runs several at once
    """

    group: Numbers
    row: Numbers
    lane: Numbers
    start: Numbers
    end: Numbers
    phases: Mapping[str, Numbers]


@dataclass(frozen=True, slots=True)
class SlowTile:
    """One of the slowest tiles: its group, the row it is on, when it began and how long it took in ns."""

    tile: int
    row: str
    start: float
    duration: float


@dataclass(frozen=True, slots=True)
class LaunchModel:
    """One launch.

    rows: what the units are called; lanes: the most tiles that one of them runs at a time
    span, predicted_span: ns from the first tile's start to the last one's end; told: the measured times, in words
    waves: as predicted; chunked: slots take several groups at once, so that waves say little
    idle: the share of the predicted slots' time without work; lines: of the user's file that every tile runs
    figures, remarks: in words; table: one row a unit, as text
    """

    title: str
    unit: str
    rows: tuple[str, ...]
    lanes: int
    axes: tuple[GridAxis, ...]
    array: TiledArray | None
    every: int
    span: float
    predicted_span: float
    told: str
    measured: TileColumns | None
    predicted: TileColumns | None
    waves: tuple[Wave, ...]
    chunked: bool
    idle: float
    lines: tuple[int, ...]
    figures: tuple[tuple[str, str], ...]
    remarks: tuple[str, ...]
    table: tuple[tuple[str, ...], ...]
    slowest: tuple[SlowTile, ...]


def measured_launch(profile: Profile) -> LaunchModel:
    """Return the model of a profiled launch, with its prediction where it is known what was launched."""
    tiles, plan, unit = profile.tiles, profile.plan, profile.machine.unit
    names, numbers = _rows(profile, plan)
    row_of = np.searchsorted(numbers, tiles.unit)
    lanes = packed_lanes(tiles.unit, tiles.start, tiles.end)
    measured = _columns(tiles.group, row_of, lanes, tiles.start, tiles.end, tiles.phases)
    predicted = predicted_columns(plan.tiles) if plan is not None else None
    most = [int(column.lane.max(initial=0)) + 1 for column in (measured, predicted) if column is not None]
    kept = len(measured.group)
    remarks: list[str] = []
    if profile.every > 1:
        remarks.append(f"one tile in {profile.every} is recorded and drawn")
    if kept < len(tiles):
        remarks.append(f"{kept:,} of {len(tiles):,} recorded tiles are in this page")
    return LaunchModel(
        title=f"{profile.kernel} on {profile.machine.name}",
        unit=unit,
        rows=names,
        lanes=max(most),
        axes=profile.axes,
        array=plan.array if plan is not None else None,
        every=profile.every,
        span=profile.span,
        predicted_span=plan.tiles.span if plan is not None else 0.0,
        told=f"{profile.span_text} · {profile.wall_text}",
        measured=measured,
        predicted=predicted,
        waves=shown_waves(plan.tiles) if plan is not None else (),
        chunked=plan is not None and plan.chunk > 1,
        idle=plan.tiles.idle if plan is not None else 0.0,
        lines=plan.lines if plan is not None else (),
        figures=tuple(profile.rows()[1:]),
        remarks=tuple(remarks),
        table=_table(profile, names, numbers, plan),
        slowest=_slowest(tiles, names, row_of),
    )


def predicted_columns(tiles: PredictedTiles) -> TileColumns:
    """Return predicted tiles as columns: units are rows in their order."""
    return _columns(tiles.group, tiles.unit, tiles.lane, tiles.start, tiles.end, {})


def shown_waves(tiles: PredictedTiles) -> tuple[Wave, ...]:
    """Return the waves, where they are few enough to be told apart."""
    waves = tiles.waves
    return waves if len(waves) <= _WAVES else (waves[-1],)


def _columns(
    group: Numbers, row: Numbers, lane: Numbers, start: Numbers, end: Numbers, phases: Mapping[str, Numbers]
) -> TileColumns:
    order = np.lexsort((start, lane, row))
    every = -(-len(order) // MOST_TILES) if len(order) else 1
    order = order[::every]

    def times(values: Numbers) -> Numbers:
        return np.asarray(values[order], np.float32)

    def numbers(values: Numbers) -> Numbers:
        return np.asarray(values[order], np.int32)

    return TileColumns(
        numbers(group), numbers(row), numbers(lane), times(start), times(end),
        {name: times(values) for name, values in phases.items()},
    )  # fmt: skip


def _rows(profile: Profile, plan: LaunchPlan | None) -> tuple[tuple[str, ...], Numbers]:
    """Return the names of all rows, and the numbers of the units that ran tiles or should have, in order."""
    unit = profile.machine.unit
    used = np.unique(profile.tiles.unit)
    wanted = profile.machine.units if plan is not None else 0
    if wanted and (profile.machine.on_gpu or not len(used) or used.max(initial=0) < wanted):
        used = np.union1d(used, np.arange(wanted))
    names = [f"{unit} {number}" if number >= 0 else f"{unit} ?" for number in used.tolist()]
    names += [f"{unit} (idle)"] * (wanted - len(names))
    return tuple(names), used


def _table(
    profile: Profile, names: Sequence[str], numbers: Numbers, plan: LaunchPlan | None
) -> tuple[tuple[str, ...], ...]:
    predicted = np.bincount(plan.tiles.unit, minlength=len(names)) if plan is not None else None
    rows: list[tuple[str, ...]] = []
    for row, name in enumerate(names):
        unit = int(numbers[row]) if row < len(numbers) else None
        count = int((profile.tiles.unit == unit).sum()) if unit is not None else 0
        share = profile.busy.get(unit, 0.0) / profile.span if unit is not None and profile.span else 0.0
        rows.append((name, f"{count:,}", f"{share:.0%}", "" if predicted is None else f"{int(predicted[row]):,}"))
    return tuple(rows)


def _slowest(tiles: Tiles, names: Sequence[str], rows: Numbers) -> tuple[SlowTile, ...]:
    order = np.argsort(-tiles.duration, kind="stable")[:_SLOWEST]
    return tuple(
        SlowTile(int(tiles.group[n]), names[int(rows[n])], float(tiles.start[n]), float(tiles.duration[n]))
        for n in order.tolist()
    )


def launch_text(profile: Profile) -> str:
    """Return one line that is the same in every run: what was counted, not what was measured."""
    work = profile.work
    return (
        f"profile of {profile.kernel} for {profile.target.partition(':')[0]}: {counted(work.groups, 'tile')}, "
        f"{work.least_bytes:,.0f} bytes of memory, {work.total_flops:,.0f} operations"
    )
