"""The view of a search for a plan: ways to spread a model side by side, why others were rejected, a timeline."""

from dataclasses import dataclass
from html import escape
from typing import Final

from tessera.core.errors.catalog import NothingToShow
from tessera.core.placement.memory import amount
from tessera.core.planning.device_timeline import in_time
from tessera.core.planning.parallel_plan import ParallelPlan, PlanSearch
from tessera.viz.base.payload import Json, encode
from tessera.viz.base.view import View
from tessera.viz.mesh.devices_view import DevicesView

_MOST_REJECTED: Final = 40
_CELL: Final = "padding:1px 12px 1px 0;border:none;text-align:left;vertical-align:top"


@dataclass(frozen=True, slots=True)
class PlanModel:
    """One plan as it is shown.

    time, memory: seconds and bytes by what takes them; collectives, facts: in words
    """

    name: str
    pipeline: str
    seconds: float
    bubble: float
    rate: float
    bytes_per_device: int
    capacity: int
    time: tuple[tuple[str, float], ...]
    memory: tuple[tuple[str, float], ...]
    collectives: tuple[str, ...]
    facts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RejectedModel:
    """One way that was not taken."""

    name: str
    reason: str
    fits: bool


@dataclass(frozen=True, slots=True)
class PlansModel:
    """The plans of a search, the best one first, and what was rejected.  left: rejected ways that are not listed."""

    title: str
    text: str
    plans: tuple[PlanModel, ...]
    rejected: tuple[RejectedModel, ...]
    left: int
    notes: tuple[str, ...]


def parallel(x: PlanSearch | ParallelPlan) -> "PlansView":
    """Show the plans of a search side by side: time, memory, collectives, and why others were rejected.

    Raises NothingToShow for what is neither a search nor a plan.
    """
    if isinstance(x, ParallelPlan):
        x = PlanSearch(x.model, x.mesh.size(), (x,), (), 1)
    if not isinstance(x, PlanSearch):  # pyright: ignore[reportUnnecessaryIsInstance] - users give anything
        raise NothingToShow("parallel() shows plans, and this is none", hint="give what dist.plan.search returns")
    return PlansView(x)


class PlansView(View[PlansModel]):
    """A search; `search` is what it was made of."""

    kind = "parallel"
    parts = ("devices",)

    def __init__(self, search: PlanSearch) -> None:
        self.search = search
        super().__init__(plans_model(search))

    @property
    def title(self) -> str:
        """The model, and how many devices there are."""
        return self.data.title

    def text(self) -> str:
        """Return the search as text."""
        return self.data.text

    def plain_html(self) -> str:
        """Return tables of the plans, and of those that were rejected."""
        rows = [("plan", "a step", "bubble", "memory a device", "pipeline")]
        rows += [
            (
                plan.name, in_time(plan.seconds), f"{plan.bubble:.1%}",
                f"{amount(plan.bytes_per_device)} of {amount(plan.capacity)}", plan.pipeline,
            )
            for plan in self.data.plans
        ]  # fmt: skip
        rejected = [(each.name, each.reason) for each in self.data.rejected]
        return f"<div><b>{escape(self.title)}</b></div>{_table(rows)}<div>rejected</div>{_table(rejected)}"

    def payload(self) -> Json:
        """Return the model, and the best plan's timeline."""
        timeline = self.search.best.timeline
        found = encode(self.data)
        assert isinstance(found, dict)
        return {**found, "timeline": None if timeline is None else DevicesView(timeline).payload()}


def plans_model(search: PlanSearch) -> PlansModel:
    """Return the view model."""
    shown = search.rejected[:_MOST_REJECTED]
    return PlansModel(
        f"{search.model} over {search.devices:,} devices", str(search), tuple(map(_plan, search.ranked)),
        tuple(RejectedModel(each.name, each.reason, each.fits) for each in shown), len(search.rejected) - len(shown),
        search.notes,
    )  # fmt: skip


def _plan(plan: ParallelPlan) -> PlanModel:
    layouts = tuple(f"{name}: {layout}" for name, layout in plan.layouts.items())
    return PlanModel(
        plan.name, str(plan.pipeline), plan.seconds, plan.bubble, plan.rate, plan.bytes_per_device, plan.capacity,
        tuple(plan.parts.items()), tuple((name, float(size)) for name, size in plan.memory.items()),
        tuple(map(str, plan.collectives)), (*plan.choices, *layouts),
    )  # fmt: skip


def _table(rows: list[tuple[str, ...]]) -> str:
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return f'<table style="margin:4px 0;border-collapse:collapse">{body}</table>'


def _cell(text: str) -> str:
    return f'<td style="{_CELL}">{escape(text)}</td>'
