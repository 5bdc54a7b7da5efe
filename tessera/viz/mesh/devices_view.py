"""The devices view: when each device of a mesh computes, communicates and is idle, planned or as it ran."""

from html import escape
from pathlib import Path
from typing import Final

from tessera.core.errors.catalog import NothingToShow
from tessera.core.placement.memory import amount
from tessera.core.planning.device_timeline import DeviceTimeline, in_time
from tessera.core.planning.parallel_plan import ParallelPlan, PlanSearch
from tessera.graphs.mesh_executable import MeshExecutable
from tessera.profiling.mesh_profile import MeshProfile
from tessera.viz.base.payload import Json, encode
from tessera.viz.base.view import View
from tessera.viz.mesh.devices_model import DevicesModel, devices_model
from tessera.viz.mesh.on_mesh import on_mesh

_PLAIN_ROWS: Final = 24
_BARS: Final = (("compute", "#0072b2"), ("exposed", "#d55e00"), ("idle", "#bbbbbb"))
_CELL: Final = "padding:1px 12px 1px 0;border:none;text-align:left"


def devices(x: object, *arguments: object) -> "DevicesView":
    """Show a timeline: each device's kernels, collectives and idle time.

    x: a timeline, a profile of a function on a mesh, a plan or a search for one, or a function of operators with
        arrays on a mesh, stored or not, which is then planned on the virtual clock
    arguments: of a function; none: those of its last call

    Raises NothingToShow for anything else, and for a plan that was not simulated.
    """
    return DevicesView(_timeline(x, arguments))


def _timeline(x: object, arguments: tuple[object, ...]) -> DeviceTimeline:
    if isinstance(x, PlanSearch):
        x = x.best
    if isinstance(x, ParallelPlan):
        if x.timeline is None:
            raise NothingToShow(f"{x.name} was not simulated", hint="the plans in search.ranked are, best first")
        return x.timeline
    if isinstance(x, MeshProfile):
        return x.timeline
    if isinstance(x, MeshExecutable):
        return x.timeline()
    return x if isinstance(x, DeviceTimeline) else on_mesh(x, arguments, "devices").timeline()


class DevicesView(View[DevicesModel]):
    """A timeline; `timeline` is what it was made of."""

    kind = "devices"

    def __init__(self, timeline: DeviceTimeline) -> None:
        self.timeline = timeline
        super().__init__(devices_model(timeline))

    @property
    def title(self) -> str:
        """Name the function or plan, and its mesh."""
        return self.data.title

    def text(self) -> str:
        """Return the figures of each row; of the host's clock, which differ in every run, only what ran."""
        if self.data.clock == "virtual":
            return self.data.text
        rows = [f"  {row.name}: {amount(row.sent)} sent" for row in self.data.rows[:_PLAIN_ROWS]]
        return "\n".join((f"{self.title}: {self.data.clock} time", *rows))

    def export_trace(self, path: str | Path) -> Path:
        """Write the timeline as a Chrome trace, which Perfetto opens; return the path."""
        return self.timeline.export_trace(path)

    def plain_html(self) -> str:
        """Return figures and a bar for each row: shares of compute, exposed communication and idle time."""
        shown = self.data.rows[:_PLAIN_ROWS]
        body = "".join(
            self._plain_row(*_figures(row.name, row.compute, row.exposed, row.idle, row.sent)) for row in shown
        )
        left = len(self.data.rows) - len(shown)
        more = f"<div>and {left} more</div>" if left else ""
        head = "".join(f'<td style="{_CELL}">{name}</td>' for name in ("", "compute", "exposed", "idle", "sent", ""))
        whole = f"{in_time(self.data.seconds)} of {self.data.clock} time"
        return (
            f"<div><b>{escape(self.title)}</b>: {whole}</div>"
            f'<table style="margin:4px 0;border-collapse:collapse"><tr>{head}</tr>{body}</table>{more}'
        )

    def _plain_row(self, name: str, figures: tuple[float, ...], sent: float) -> str:
        cells = "".join(
            f'<td style="{_CELL}">{escape(text)}</td>' for text in (name, *map(in_time, figures), amount(sent))
        )
        bars = "".join(
            f'<span style="display:inline-block;height:10px;width:{180 * each / max(self.data.seconds, 1e-30):.0f}px;'
            f'background-color:{colour}"></span>'
            for each, (_, colour) in zip(figures, _BARS, strict=True)
        )
        return f'<tr>{cells}<td style="{_CELL};white-space:nowrap">{bars}</td></tr>'

    def payload(self) -> Json:
        """Return the model."""
        return encode(self.data)


def _figures(
    name: str, compute: float, exposed: float, idle: float, sent: float
) -> tuple[str, tuple[float, ...], float]:
    return name, (compute, exposed, idle), sent
