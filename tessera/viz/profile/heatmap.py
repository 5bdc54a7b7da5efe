"""The heat map: what each tile took, over the grid of the launch, which is that of the array it writes."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from tessera.core.base.plurals import counted
from tessera.core.work import Numbers
from tessera.performance.launch_geometry import GridAxis, TiledArray, coordinates
from tessera.profiling.results import Profile
from tessera.viz.base.payload import Json, encode
from tessera.viz.base.subjects import profiled
from tessera.viz.base.view import View
from tessera.viz.profile.timeline import selection_group

_MOST_OUTLIERS: Final = 20
_SPREADS: Final = 6.0
"""Median absolute deviations from the median beyond which a tile is an outlier."""
_LEAST: Final = 1.5
"""Times the median that an outlier takes at least: what varies little has none."""
_PLAIN: Final = 32
"""Cells of the plain form along each axis."""
_SHADES: Final = ("#fdf3d8", "#f7d48a", "#ee9f4a", "#d55e00", "#8a2c00")


@dataclass(frozen=True, slots=True)
class Outlier:
    """A tile that took much longer than the median one: ns, and how many times the median."""

    tile: int
    place: tuple[int, ...]
    duration: float
    ratio: float


@dataclass(frozen=True, slots=True, eq=False)
class TileHeat:
    """One launch, one number a group in the order of the groups; not-a-number where there is no record.

    duration, start: ns; order: which tile began as the how manieth; unit: where it ran; predicted: ns
    """

    title: str
    axes: tuple[GridAxis, ...]
    array: TiledArray | None
    unit_name: str
    duration: Numbers
    start: Numbers
    order: Numbers
    unit: Numbers
    predicted: Numbers | None
    least: float
    median: float
    most: float
    outliers: tuple[Outlier, ...]
    lines: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class HeatmapModel:
    """The launches of one call."""

    title: str
    group: str
    launches: tuple[TileHeat, ...]


def heatmap(profile: Profile) -> "HeatmapView":
    """Show what each tile took over the grid of the launch, with the outliers listed.

    Raises NothingToShow for what is no profile.
    """
    profiled(profile, "heatmap")
    launches = tuple(map(tile_heat, (profile, *profile.next_phases)))
    return HeatmapView(HeatmapModel(f"tiles of {profile.kernel}", selection_group(profile), launches))


def tile_heat(profile: Profile) -> TileHeat:
    """Return the numbers of each group of one launch."""
    tiles, groups, plan = profile.tiles, profile.work.groups, profile.plan

    def spread(values: Numbers) -> Numbers:
        found = np.full(groups, np.nan, np.float32)
        found[tiles.group] = values
        return found

    begun = np.empty(len(tiles))
    begun[np.argsort(tiles.start, kind="stable")] = np.arange(len(tiles))
    predicted = None
    if plan is not None:
        predicted = np.full(groups, np.nan, np.float32)
        predicted[plan.tiles.group] = plan.tiles.end - plan.tiles.start
    duration = tiles.duration
    least, median, most = (float(np.quantile(duration, at)) if len(tiles) else 0.0 for at in (0.0, 0.5, 1.0))
    return TileHeat(
        profile.kernel, profile.axes, plan.array if plan is not None else None, profile.machine.unit,
        spread(duration), spread(tiles.start), spread(begun), spread(tiles.unit), predicted, least, median, most,
        outliers(profile), plan.lines if plan is not None else (),
    )  # fmt: skip


def outliers(profile: Profile) -> tuple[Outlier, ...]:
    """Return the tiles far above the median, the slowest first: by median absolute deviation, which few bend."""
    duration = profile.tiles.duration
    if not len(duration):
        return ()
    median = float(np.median(duration))
    spread = float(np.median(np.abs(duration - median)))
    limit = max(median + _SPREADS * spread, _LEAST * median)
    order = np.argsort(-duration, kind="stable")
    found = [n for n in order[:_MOST_OUTLIERS].tolist() if duration[n] > limit]
    return tuple(
        Outlier(
            group, coordinates(group, profile.grid_sizes), float(duration[n]),
            float(duration[n]) / median if median else 0.0,
        )
        for n, group in ((n, int(profile.tiles.group[n])) for n in found)
    )  # fmt: skip


class HeatmapView(View[HeatmapModel]):
    """Tiles by colour."""

    kind = "heatmap"

    @property
    def title(self) -> str:
        """The kernel."""
        return self.data.title

    def text(self) -> str:
        """Return a line a launch: the grid, which is the same in every run."""
        return "\n".join(map(_text, self.data.launches))

    def plain_html(self) -> str:
        """Return a table of colours, one cell a tile (or block of tiles), and the outliers."""
        return "".join(map(_plain, self.data.launches))

    def payload(self) -> Json:
        """Return the launches."""
        return {
            "title": self.title,
            "text": self.text(),
            "group": self.data.group,
            "launches": encode(self.data.launches),
        }


def _text(heat: TileHeat) -> str:
    sizes = " x ".join(f"{axis.name} {axis.size}" for axis in heat.axes)
    over = f" over {heat.array.name}" if heat.array is not None else ""
    return f"heat map of {heat.title}: {counted(len(heat.duration), 'tile')}{over}, {sizes}"


def _plain(heat: TileHeat) -> str:
    sizes = [axis.size for axis in heat.axes]
    if not len(heat.duration):
        return f"<div>{_text(heat)}</div>"
    cells = heat.duration.reshape(sizes[0] if len(sizes) > 1 else 1, -1)
    rows = "".join(f"<tr>{''.join(map(_cell, part))}</tr>" for part in _blocks(cells, heat))
    scale = (
        f"{heat.least / 1e3:,.3g} µs (light) to {heat.most / 1e3:,.3g} µs (dark), median {heat.median / 1e3:,.3g} µs"
    )
    listed = "".join(
        f"<div>tile {each.tile} at {list(each.place)}: {each.duration / 1e3:,.3g} µs, {each.ratio:.1f} times the median"
        "</div>"
        for each in heat.outliers
    )
    return (
        f"<div><b>{_text(heat)}</b></div><div>{scale}</div>"
        f'<table style="border-collapse:collapse;margin:4px 0">{rows}</table>{listed or "<div>no outliers</div>"}'
    )


def _blocks(cells: Numbers, heat: TileHeat) -> list[list[int]]:
    """Return the shades of at most `_PLAIN` x `_PLAIN` blocks: of each, that of its slowest tile."""
    rows, columns = (
        [size * n // min(size, _PLAIN) for n in range(min(size, _PLAIN))] for size in (len(cells), cells.shape[1])
    )
    filled = np.where(np.isnan(cells), -1.0, cells)
    largest = np.maximum.reduceat(np.maximum.reduceat(filled, rows, axis=0), columns, axis=1)
    span = max(heat.most - heat.least, 1e-9)
    shades = np.clip((largest - heat.least) / span * (len(_SHADES) - 1), 0, len(_SHADES) - 1).round().astype(int)
    return np.where(largest < 0, -1, shades).tolist()


def _cell(shade: int) -> str:
    colour = _SHADES[shade] if shade >= 0 else "transparent"
    return f'<td style="padding:0;border:none;width:10px;height:10px;background-color:{colour}"></td>'
