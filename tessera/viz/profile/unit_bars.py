"""A profile where scripts are removed: the figures first, then what every multiprocessor or core did when.

Tables and inline styles only: they survive in notebooks that are not trusted.  A bar is a row of coloured segments.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Final

import numpy as np

from tessera.core.base.plurals import counted
from tessera.core.work import Numbers
from tessera.profiling.records import Tiles
from tessera.profiling.results import Profile

UNITS: Final = 40
"""Rows of the timeline; of more units, evenly chosen ones are drawn."""
BINS: Final = 120
"""Stretches of time that a row is cut into where tiles run beside each other on one unit, or are many."""
_FEW: Final = 48
"""Tiles of a unit up to which each is drawn for itself, where no unit runs several at once."""
_PIXELS: Final = 600
_SHADES: Final = ("#eeeeee", "#cfe8f7", "#9bd0ef", "#56b4e9", "#0072b2")
_TILES: Final = ("#56b4e9", "#9bd0ef")
_PHASES: Final[Mapping[str, str]] = {"load": "#e69f00", "compute": "#009e73", "store": "#cc79a7"}
_CELL: Final = "padding:1px 10px 1px 0;border:none;text-align:left;vertical-align:middle"
_BAR: Final = "display:inline-block;height:9px"


@dataclass(frozen=True, slots=True)
class BarSegment:
    """Part of a bar: `width` in pixels, its colour, and what it says when pointed at."""

    width: int
    colour: str
    title: str = ""


@dataclass(frozen=True, slots=True)
class UnitRow:
    """One multiprocessor or core: its segments from left to right, and its figures."""

    label: str
    segments: tuple[BarSegment, ...]
    remark: str


@dataclass(frozen=True, slots=True)
class UnitBars:
    """A profile as it is drawn."""

    title: str
    figures: tuple[tuple[str, str], ...]
    phases: tuple[tuple[str, float, str], ...]
    units: tuple[UnitRow, ...]
    left: str


def unit_bars(profile: Profile) -> UnitBars:
    """Return what to draw of `profile`."""
    tiles = profile.tiles
    units = sorted(profile.busy)
    count = min(len(units), UNITS)
    shown = [units[number * len(units) // count] for number in range(count)]
    most = _most_at_once(tiles)
    rows = tuple(_unit_row(profile, unit, most) for unit in shown)
    remarks = [f"{len(shown)} of {len(units)} {profile.machine.unit}s are drawn"] if len(shown) < len(units) else []
    if profile.every > 1:
        remarks.append(f"one tile in {profile.every} is drawn")
    phases = tuple((name, share, _PHASES[name]) for name, share in profile.phase_share.items())
    return UnitBars(
        f"profile of {profile.kernel} on {profile.machine.name}",
        tuple(profile.rows()[1:]),
        phases,
        rows,
        "; ".join(remarks),
    )


def bars_html(profile: Profile) -> str:
    """Return the page as HTML with inline styles; phases one after the other."""
    return "".join(_one_html(one) for one in (profile, *profile.next_phases))


def _one_html(profile: Profile) -> str:
    view = unit_bars(profile)
    figures = "".join(_row(escape(name), escape(value)) for name, value in view.figures)
    phases = "".join(
        _row(
            escape(name),
            _bar((BarSegment(round(_PIXELS * min(1.0, share)), colour),)),
            f"{share:.0%} of the tiles' time",
        )
        for name, share, colour in view.phases
    )
    units = "".join(_row(escape(row.label), _bar(row.segments), escape(row.remark)) for row in view.units)
    parts = [f"<div><b>{escape(view.title)}</b></div>", _table(figures)]
    if phases:
        parts += ["<div>phases, summed over all tiles</div>", _table(phases)]
    span = f"{profile.span / 1e3:,.1f} µs from the start of the first tile to the end of the last"
    parts += [
        f"<div>{escape(span)}; a darker stretch: busy for more of the time, or with more tiles at once</div>",
        _table(units),
    ]
    if view.left:
        parts.append(f"<div>{escape(view.left)}</div>")
    return "".join(parts)


def _unit_row(profile: Profile, unit: int, most: int) -> UnitRow:
    tiles = profile.tiles
    mine = np.flatnonzero(tiles.unit == unit)
    mine = mine[np.argsort(tiles.start[mine], kind="stable")]
    start, end = tiles.start[mine], tiles.end[mine]
    segments = (
        _one_by_one(start, end, tiles.group[mine], profile.span)
        if most == 1 and len(mine) <= _FEW
        else _by_time(start, end, profile.span, most)
    )
    share = profile.busy[unit] / profile.span if profile.span else 0.0
    remark = f"{counted(len(mine), 'tile')}, busy {share:.0%}"
    return UnitRow(f"{profile.machine.unit} {unit}", segments, remark)


def _one_by_one(start: Numbers, end: Numbers, index: Numbers, span: float) -> tuple[BarSegment, ...]:
    """Return every tile of its own, with the gaps between them."""
    segments: list[BarSegment] = []
    reached = 0
    for number, (first, last, tile) in enumerate(zip(start, end, index, strict=True)):
        left, right = round(_PIXELS * first / span), round(_PIXELS * last / span)
        if left > reached:
            segments.append(BarSegment(left - reached, _SHADES[0]))
        width = max(1, right - max(left, reached))
        title = f"tile {tile}: {(last - first) / 1e3:,.2f} µs from {first / 1e3:,.2f} µs"
        segments.append(BarSegment(width, _TILES[number % len(_TILES)], title))
        reached = max(left, reached) + width
    if reached < _PIXELS:
        segments.append(BarSegment(_PIXELS - reached, _SHADES[0]))
    return tuple(segments)


def _by_time(start: Numbers, end: Numbers, span: float, most: int) -> tuple[BarSegment, ...]:
    """How much of each stretch of time was taken, as a share of the most tiles that any unit had at once."""
    edges = np.linspace(0.0, span, BINS + 1)
    covered = (_covered_before(start, edges) - _covered_before(end, edges)) / (span / BINS)
    share = np.diff(covered) / most
    shades = np.ceil(np.clip(share, 0.0, 1.0) * (len(_SHADES) - 1) - 1e-9).astype(int)
    segments: list[BarSegment] = []
    width = _PIXELS // BINS
    for colour in (_SHADES[int(shade)] for shade in shades):
        if segments and segments[-1].colour == colour:
            segments[-1] = BarSegment(segments[-1].width + width, colour)
        else:
            segments.append(BarSegment(width, colour))
    return tuple(segments)


def _covered_before(times: Numbers, edges: Numbers) -> Numbers:
    """Return, for each edge, the sum of the times that have passed since each of `times` before it."""
    ordered = np.sort(times)
    cumulative = np.concatenate([[0.0], np.cumsum(ordered)])
    count = np.searchsorted(ordered, edges)
    return count * edges - cumulative[count]


def _most_at_once(tiles: Tiles) -> int:
    """Return the most tiles that one unit ran at a time."""
    most = 1
    for unit in np.unique(tiles.unit):
        mine = tiles.unit == unit
        times = np.concatenate([tiles.start[mine], tiles.end[mine]])
        steps = np.concatenate([np.ones(mine.sum(), int), -np.ones(mine.sum(), int)])
        # At one instant, ends come before beginnings.
        most = max(most, int(np.cumsum(steps[np.lexsort((steps, times))]).max(initial=0)))
    return most


def _table(rows: str) -> str:
    return f'<table style="margin:4px 0;border-collapse:collapse">{rows}</table>'


def _row(*cells: str) -> str:
    inside = "".join(f'<td style="{_CELL}">{cell}</td>' for cell in cells)
    return f'<tr style="background-color:transparent">{inside}</tr>'


def _bar(segments: tuple[BarSegment, ...]) -> str:
    parts: list[str] = []
    for segment in segments:
        title = f' title="{escape(segment.title)}"' if segment.title else ""
        parts.append(f'<span{title} style="{_BAR};width:{segment.width}px;background-color:{segment.colour}"></span>')
    return f'<div style="white-space:nowrap;font-size:0;line-height:0">{"".join(parts)}</div>'
