"""The roofline view (Williams, Waterman, Patterson): operations a second over operations a byte, and the roofs."""

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from tessera.core.base.durations import duration_text
from tessera.profiling.results import Profile
from tessera.viz.base.payload import Json, encode
from tessera.viz.base.subjects import profiled
from tessera.viz.base.view import View
from tessera.viz.profile.timeline import selection_group

if TYPE_CHECKING:
    from tessera.viz.profile.figures import PlotlyFigure


@dataclass(frozen=True, slots=True)
class ComputeRoof:
    """The operations a second that some kinds of arithmetic reach at best."""

    kind: str
    rate: float


@dataclass(frozen=True, slots=True)
class RooflinePoint:
    """One launch.

    intensity: operations for each byte that memory must move; rate: operations a second, bandwidth: bytes a second
    attained: the share of what the roofline allows; roof: operations a second of its mix of arithmetic at best
    bound: "memory" or "compute"; seconds, told: measured, as a number and in words that say how; floor: at best
    """

    name: str
    intensity: float
    rate: float
    bandwidth: float
    attained: float
    roof: float
    bound: str
    seconds: float
    told: str
    floor: float
    kinds: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class RooflineModel:
    """The roofs of a machine and the launches of a call: bytes a second, and where these numbers come from."""

    title: str
    group: str
    machine: str
    bandwidth: float
    source: str
    roofs: tuple[ComputeRoof, ...]
    points: tuple[RooflinePoint, ...]


def roofline(profile: Profile) -> "RooflineView":
    """Show how near a launch comes to what memory and arithmetic of the machine allow.

    Raises NothingToShow for what is no profile.
    """
    profiled(profile, "roofline")
    return RooflineView(roofline_model(profile))


def roofline_model(profile: Profile) -> RooflineModel:
    """Return the roofs that a profile's launches can meet, and the launches as points."""
    launches = (profile, *profile.next_phases)
    machine = profile.machine
    by_rate: dict[float, list[str]] = {}
    for kind in dict.fromkeys(["f32", *(kind for each in launches for kind in each.work.by_kind)]):
        by_rate.setdefault(machine.rate(kind), []).append(kind)
    names = [f"phase {number} of {len(launches)}" for number in range(1, len(launches) + 1)]
    points = tuple(
        _point(each, name if len(launches) > 1 else each.kernel) for each, name in zip(launches, names, strict=True)
    )
    return RooflineModel(
        f"roofline of {profile.kernel} on {machine.name}", selection_group(profile), machine.name, machine.bandwidth,
        machine.source, tuple(ComputeRoof(", ".join(kinds), rate) for rate, kinds in by_rate.items()), points,
    )  # fmt: skip


def _point(profile: Profile, name: str) -> RooflinePoint:
    line, work = profile.roofline, profile.work
    roof = work.total_flops / line.compute if line.compute else 0.0
    return RooflinePoint(
        name, line.intensity, profile.flops, profile.bandwidth, profile.attained, roof, line.bound, profile.wall,
        profile.wall_text, line.floor, dict(work.by_kind),
    )  # fmt: skip


class RooflineView(View[RooflineModel]):
    """A roofline plot; `figure()` gives it for plotly."""

    kind = "roofline"

    @property
    def title(self) -> str:
        """The kernel and the machine."""
        return self.data.title

    def text(self) -> str:
        """Return a line a launch: what was counted, which is the same in every run."""
        return "\n".join(f"roofline of {point.name}: {point.intensity:.3g} FLOP per byte" for point in self.data.points)

    def plain_html(self) -> str:
        """Return the roofs and the points as a table."""
        model = self.data
        rows = [("memory", f"{model.bandwidth / 1e9:,.3g} GB/s")]
        rows += [(roof.kind, f"{roof.rate / 1e9:,.3g} GFLOP/s") for roof in model.roofs]
        rows += [(point.name, point_text(point)) for point in model.points]
        body = "".join(
            f'<tr><td style="padding:1px 12px 1px 0;border:none">{escape(name)}</td>'
            f'<td style="border:none;text-align:left">{escape(value)}</td></tr>'
            for name, value in rows
        )
        return f"<div><b>{escape(self.title)}</b></div><table>{body}</table><div>{escape(model.source)}</div>"

    def payload(self) -> Json:
        """Return the model, with each point in words."""
        return {
            **{name: encode(getattr(self.data, name)) for name in ("group", "machine", "bandwidth", "source", "roofs")},
            "title": self.title,
            "text": self.text(),
            "points": encode(self.data.points),
            "told": [point_text(point) for point in self.data.points],
        }

    def figure(self) -> "PlotlyFigure":
        """Return the plot as a plotly figure.

        Raises ImportError without plotly.
        """
        from tessera.viz.profile.figures import roofline_figure  # noqa: PLC0415 - plotly is optional

        return roofline_figure(self.data)


def point_text(point: RooflinePoint) -> str:
    """Return what a point says, in words."""
    if not point.intensity:
        return f"no arithmetic; {point.bandwidth / 1e9:,.3g} GB/s, {point.attained:.0%} of what memory allows"
    limit = "memory" if point.bound == "memory" else "arithmetic"
    return (
        f"{point.rate / 1e9:,.3g} GFLOP/s at {point.intensity:.3g} FLOP per byte: {point.attained:.0%} of what {limit} "
        f"allows ({point.told}; at best {duration_text(point.floor)})"
    )
