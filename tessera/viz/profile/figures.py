"""Profiles as plotly figures, for reports; the notebook's own views need no plotly."""

from importlib import import_module
from typing import TYPE_CHECKING, Protocol, cast

import numpy as np

if TYPE_CHECKING:
    from tessera.viz.profile.model import LaunchModel, TileColumns
    from tessera.viz.profile.roofline import RooflineModel


class PlotlyFigure(Protocol):
    """The part of `plotly.graph_objects.Figure` that is used here."""

    def add_scatter(self, **options: object) -> object:
        """Add a line or points."""
        ...

    def update_layout(self, **options: object) -> object:
        """Set titles and axes."""
        ...

    def to_json(self) -> str:
        """Return it as JSON."""
        ...


def _figure() -> PlotlyFigure:
    """Return an empty figure.  Raises ImportError where plotly is not installed."""
    try:
        plotly = import_module("plotly.graph_objects")
    except ImportError as missing:
        raise ImportError('figures need plotly: pip install "tessera[notebook]"') from missing
    return cast("PlotlyFigure", plotly.Figure())


def roofline_figure(model: "RooflineModel") -> PlotlyFigure:
    """Return a roofline plot: a line a roof, a marker a launch."""
    made = _figure()
    known = [point.intensity for point in model.points if point.intensity]
    ridges = [roof.rate / model.bandwidth for roof in model.roofs]
    low, high = min([*known, *ridges]) / 10, max([*known, *ridges]) * 10
    places = np.geomspace(low, high, 60)
    for roof in model.roofs:
        rates = np.minimum(places * model.bandwidth, roof.rate)
        made.add_scatter(
            x=places.tolist(), y=rates.tolist(), mode="lines", name=f"{roof.kind}, {roof.rate / 1e9:,.3g} GFLOP/s"
        )
    for point in model.points:
        if point.intensity:
            name = f"{point.name}: {point.attained:.0%}"
            made.add_scatter(x=[point.intensity], y=[point.rate], mode="markers", marker={"size": 11}, name=name)
    made.update_layout(
        title=model.title, xaxis={"type": "log", "title": "operations a byte"},
        yaxis={"type": "log", "title": "operations a second"},
    )  # fmt: skip
    return made


def timeline_figure(model: "LaunchModel") -> PlotlyFigure:
    """Return how busy the units are over time, measured and predicted: a summary of any number of tiles."""
    made = _figure()
    for name, columns in (("measured", model.measured), ("predicted", model.predicted)):
        if columns is not None and len(columns.start):
            times, running = tiles_over_time(columns)
            made.add_scatter(x=times, y=running, mode="lines", line={"shape": "hv"}, name=name)
    made.update_layout(
        title=model.title,
        xaxis={"title": "µs"},
        yaxis={"title": f"tiles at a time, {len(model.rows)} {model.unit}s"},
    )
    return made


def tiles_over_time(columns: "TileColumns", most: int = 2000) -> tuple[list[float], list[int]]:
    """Return times in µs, and how many tiles run from each of them on; at most `most` times, evenly chosen."""
    start, end = np.sort(columns.start), np.sort(columns.end)
    times = np.unique(np.concatenate([start, end]))
    times = times[:: -(-len(times) // most)]
    running = np.searchsorted(start, times, "right") - np.searchsorted(end, times, "right")
    return (times / 1e3).tolist(), running.tolist()
