"""Rules on how a launch's tiles fill its units: units without tiles, slow edges, slow tiles, the tail of waves."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tessera.profiling.advice.model import Advice, Evidence
from tessera.profiling.advice.option_values import first_line, tile_options
from tessera.profiling.results import Profile

_WORTH: Final = 0.05
"""Gains below this are not spoken of."""
_SLOW_TILE: Final = 1.5
_INNER: Final = 2
"""Steps along an axis, beside the first and the last, from which on its ends can be told from the others."""
_FEWEST: Final = 3
"""Tiles of an edge from which on it is an edge that is slow, and not a tile."""
_NEARLY_ALL: Final = 0.1
"""The quantile of the tiles at an edge that is slow: chance slows some tiles, not nine in ten of one edge."""
_MANY_WAVES: Final = 20
"""Full waves from which on a part of one more costs less than is spoken of."""


def idle_units(profile: Profile) -> Iterator[Advice]:
    """Report units that ran no tile of a launch that has groups for all of them."""
    units, used = profile.machine.units, len(profile.busy)
    if profile.every > 1 or not 0 < used < units or profile.work.groups < units:
        return
    text = (
        f"{used} of {units} {profile.machine.unit}s ran all tiles, though there are groups for each: other programs "
        "had the others, or the launch ended before they began. No tile is to blame: measure again on an idle machine."
    )
    evidence = (
        Evidence(f"{profile.machine.unit}s that ran tiles", used, ""),
        Evidence("groups", profile.work.groups, ""),
    )
    yield Advice("idle units", text, evidence, 1.0 - used / units)


def imbalance_or_tail(profile: Profile) -> Iterator[Advice]:
    """Report units that wait at the end: for a slow tile, or because the last wave does not fill them.

    Units that ran no tile at all wait for none; see `idle_units`.
    """
    tiles, span = profile.tiles, profile.span
    if profile.every > 1 or not span or profile.work.groups < profile.machine.units:
        return
    ends = [float(tiles.end[tiles.unit == unit].max()) for unit in profile.busy]
    idle = sum(span - end for end in ends) / (span * len(ends))
    if idle < _WORTH:
        return
    edge = slow_edge(profile)
    duration = tiles.duration
    last, median = int(np.argmax(tiles.end)), float(np.median(duration))
    slowest, ratio = int(np.argmax(duration)), float(duration.max()) / max(median, 1e-9)
    if edge is not None and edge.tiles[last]:
        return  # `edge_tiles` says why
    if float(duration[last]) <= _SLOW_TILE * median:
        yield _waiting_for_each_other(profile, idle, ends)
        return
    waited = Evidence("idle at the end", idle, "%")
    counted = (profile.work.flops, profile.work.read + profile.work.written)
    spread = max(float(part.max()) / max(float(np.median(part)), 1e-9) for part in counted)
    why = (
        f"it has {spread:.1f} times the median's work: begin the large ones first, or divide them"
        if spread > _SLOW_TILE
        else "its counted work is that of the others: look at what its elements make it do, or what else ran there"
    )
    text = (
        f"Tile {int(tiles.group[slowest])} takes {ratio:.1f} times the median tile, and {idle:.0%} of the units' "
        f"time passes in waiting for the last ones; {why}. Smaller tiles even it out."
    )
    evidence = (waited, Evidence("slowest tile", float(duration.max()) / 1e3, "µs"),
                Evidence("median tile", median / 1e3, "µs"))  # fmt: skip
    yield Advice("imbalance", text, evidence, idle, first_line(profile), tile_options(profile, 0.5))


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowEdge:
    """Tiles at one end of an axis of the grid that take longer than all others.

    tiles: which of the recorded ones; ratio: their median duration by the others'; excess: the share of all tiles' time
    that they take beyond the others' median
    """

    axis: str
    end: str
    tiles: NDArray[np.bool_]
    ratio: float
    excess: float


def slow_edge(profile: Profile) -> SlowEdge | None:
    """Return the end of an axis whose tiles cost most beyond the others' median, where nearly all of them are slow."""
    sizes, duration = profile.grid_sizes, profile.tiles.duration
    if not len(duration) or prod(sizes) != profile.work.groups:
        return None
    coordinates = np.unravel_index(profile.tiles.group, sizes)
    edges: list[SlowEdge] = []
    for axis, position in zip(profile.axes, coordinates, strict=True):
        for end, number in (("first", 0), ("last", axis.size - 1)):
            tiles = position == number
            if axis.size < _INNER + 2 or tiles.sum() < _FEWEST:
                continue
            inner = float(np.median(duration[~tiles]))
            if float(np.quantile(duration[tiles], _NEARLY_ALL)) <= _SLOW_TILE * inner:
                continue
            excess = float((duration[tiles] - inner).sum() / duration.sum())
            ratio = float(np.median(duration[tiles])) / max(inner, 1e-9)
            edges.append(SlowEdge(axis=axis.name, end=end, tiles=tiles, ratio=ratio, excess=excess))
    return max(edges, key=lambda edge: edge.excess, default=None)


def edge_tiles(profile: Profile) -> Iterator[Advice]:
    """Report tiles at an end of an axis that are slow: what may lie outside of an array is checked there."""
    edge = slow_edge(profile)
    if edge is None or edge.excess < _WORTH:
        return
    count = int(edge.tiles.sum())
    text = (
        f"The {count:,} tiles at the {edge.end} step along {edge.axis} take {edge.ratio:.1f} times the others, "
        f"{edge.excess:.0%} of all tiles' time beyond theirs. Where a tile may reach outside of an array each element "
        "is checked: pad the array, or compute that edge in another launch."
    )
    evidence = (Evidence("tiles at the edge", count, ""), Evidence("times the others", edge.ratio, ""))
    yield Advice("slow edge", text, evidence, edge.excess, first_line(profile))


def _waiting_for_each_other(profile: Profile, idle: float, ends: list[float]) -> Advice:
    """Return the advice on units that end apart although no tile is slow: a tail of waves, or uneven shares."""
    waited, plan = Evidence("idle at the end", idle, "%"), profile.plan
    slots = plan.tiles.slots if plan is not None else profile.machine.units
    groups, unit = profile.work.groups, profile.machine.unit
    full, remainder = divmod(groups, slots)
    # What a last wave that is not full leaves idle; units that wait for longer wait for something else.
    tail = (slots - remainder) / (slots * (full + 1))
    if remainder and full < _MANY_WAVES and idle <= tail + _WORTH:
        text = (
            f"{groups:,} groups on {slots} slots are {full} full wave{'' if full == 1 else 's'} and "
            f"one of {remainder}: {idle:.0%} of the units' time passes in waiting for that tail. "
            "Tiles of half the size make the last wave shorter."
        )
        evidence = (waited, Evidence("groups", groups, ""), Evidence("slots", slots, ""))
        return Advice("tail effect", text, evidence, idle, first_line(profile), tile_options(profile, 0.5))
    used, spread = len(profile.busy), (max(ends) - min(ends)) / 1e3
    text = (
        f"{used} of {profile.machine.units} {unit}s ran tiles, and they ended {spread:,.1f} µs apart, though tiles are "
        f"alike: {idle:.0%} of the units' time passed in waiting. Other work on the machine does that; measure again."
    )
    return Advice("uneven units", text, (waited, Evidence("apart", spread, "µs")), idle)
