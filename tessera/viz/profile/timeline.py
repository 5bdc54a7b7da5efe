"""The timeline view: tiles over units and time, measured and predicted on one axis."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from tessera.profiling.results import Profile
from tessera.viz.base.payload import Json, encode
from tessera.viz.base.selection import group_of
from tessera.viz.base.subjects import profiled
from tessera.viz.base.view import View
from tessera.viz.profile.model import LaunchModel, launch_text, measured_launch
from tessera.viz.profile.unit_bars import bars_html

if TYPE_CHECKING:
    from tessera.viz.profile.figures import PlotlyFigure


@dataclass(frozen=True, slots=True)
class TimelineModel:
    """The launches of one call, one after the other, and the selection that they share with other views."""

    title: str
    description: str
    group: str
    launches: tuple[LaunchModel, ...]


def timeline(profile: Profile) -> "TimelineView":
    """Show what every multiprocessor or core did when, beside what the cost model predicts.

    Raises NothingToShow for what is no profile.
    """
    profiled(profile, "timeline")
    return TimelineView(profile)


class TimelineView(View[TimelineModel]):
    """A profile over time; `profile` is what it was made of."""

    kind = "timeline"

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        super().__init__(timeline_model(profile))

    @property
    def title(self) -> str:
        """The kernel and the device."""
        return self.data.title

    def text(self) -> str:
        """Return a line a launch: what was counted, which is the same in every run."""
        return self.data.description

    def plain_html(self) -> str:
        """Return the figures and a bar for each unit, drawn with inline styles."""
        return bars_html(self.profile)

    def figure(self, launch: int = 0) -> "PlotlyFigure":
        """Return how many tiles run over time as a plotly figure.  Raises ImportError without plotly."""
        from tessera.viz.profile.figures import timeline_figure  # noqa: PLC0415 - plotly is optional

        return timeline_figure(self.data.launches[launch])

    def payload(self) -> Json:
        """Return the launches."""
        return {
            "title": self.title,
            "text": self.text(),
            "group": self.data.group,
            "launches": encode(self.data.launches),
        }


def timeline_model(profile: Profile) -> TimelineModel:
    """Return the view model of a profile."""
    launches = (profile, *profile.next_phases)
    return TimelineModel(
        f"profile of {profile.kernel} on {profile.machine.name}",
        "\n".join(map(launch_text, launches)),
        selection_group(profile),
        tuple(map(measured_launch, launches)),
    )


def selection_group(profile: Profile) -> str:
    """Return the selection that all views of a profiled kernel share; of bare records, one of the kernel's name."""
    origin = profile.origin
    return group_of(profile.kernel, origin.compiled.artifact.source) if origin is not None else profile.kernel
