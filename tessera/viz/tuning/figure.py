"""A search as a plotly figure: parallel coordinates of its parameters and times."""

from typing import TYPE_CHECKING

import numpy as np

from tessera.viz.tuning.model import TuningModel, measured_rows

if TYPE_CHECKING:
    from plotly.graph_objects import Figure  # pyright: ignore[reportMissingTypeStubs]


def parallel_coordinates(model: TuningModel) -> "Figure":
    """Return the measured trials as parallel coordinates, coloured by time in microseconds.

    Raises ImportError without plotly.
    """
    try:
        from plotly.graph_objects import Figure, Parcoords  # noqa: PLC0415 - plotly is optional  # pyright: ignore[reportMissingTypeStubs]
    except ImportError as missing:
        raise ImportError('figures need plotly: pip install "tessera[notebook]"') from missing
    rows = measured_rows(model)
    dimensions = [
        {
            "label": each.name,
            "values": each.codes[rows].tolist(),
            "tickvals": list(range(len(each.values))),
            "ticktext": list(each.values),
            "range": [-0.5 if bool(np.any(each.codes[rows] < 0)) else 0, max(1, len(each.values) - 1)],
        }
        for each in model.parameters
    ]
    times = (model.seconds[rows] * 1e6).tolist()
    dimensions.append({"label": "time [µs]", "values": times})
    line = {"color": times, "colorscale": "Cividis", "reversescale": True, "showscale": True}
    figure = Figure(Parcoords(dimensions=dimensions, line=line))
    figure.update_layout(title=f"tuning of {model.kernel} on {model.device}")  # pyright: ignore[reportUnknownMemberType]
    return figure
