"""The workbench: source and levels, diff, editor, tiles, profile and tuning of one kernel, side by side and linked.

Each panel is a view of its own; all of them share one selection.  What cannot be made for a kernel (a profile of one
that no target runs, a search that there never was) is a panel that says why.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final, cast

from tessera.core.errors.base import TesseraError
from tessera.core.progress import working
from tessera.kernels.kernel import Configured, Kernel
from tessera.kernels.like_last_call import arguments_like_last_call
from tessera.profiling.argument_clones import ClonedArguments
from tessera.profiling.profile import profile
from tessera.session.compiled import Compiled
from tessera.viz.base.page import fragment
from tessera.viz.base.payload import Json
from tessera.viz.base.selection import group_of
from tessera.viz.base.subjects import launched
from tessera.viz.base.view import Send, View
from tessera.viz.diffs.view import diff
from tessera.viz.editing.view import edit
from tessera.viz.graph.view import dataflow
from tessera.viz.ir.explorer_view import explore
from tessera.viz.profile.schedule import schedule
from tessera.viz.profile.timeline import timeline
from tessera.viz.tile_debugger.view import tiles
from tessera.viz.tuning.view import dashboard

AnyView = View[object]
Values = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel: its name, the kind and the model of the view in it; without one, `remark` says why."""

    name: str
    kind: str = ""
    data: object = None
    remark: str = ""


@dataclass(frozen=True, slots=True)
class WorkbenchModel:
    """A kernel's name, its target, and the panels in order; group: the selection that they share."""

    kernel: str
    target: str
    panels: tuple[Panel, ...]
    group: str


def workbench(kernel: Kernel | Configured, *args: object) -> "WorkbenchView":
    """Show everything about a kernel side by side: a selection in one panel is marked in all.

    args: what it is run and profiled on, copies of them; left out, arguments like those of the last call
    kernel: a kernel, or `kernel[grid, block]`
    Raises NothingToShow for what is no kernel, NotCalledYet without arguments for one that was not called, and what
    compiling it raises.
    """
    kernel, grid = launched(kernel, "workbench")
    values = args or arguments_like_last_call(kernel)
    compiled = kernel.compile_quietly(*values)
    target = kernel.target_for(values)
    bench = Bench(kernel, Configured(kernel, grid), values, compiled)
    made: list[AnyView | str] = []
    with working(f"workbench of {kernel.source.name}", len(_PANELS)) as task:
        for name, make in _PANELS.items():
            task.step(len(made), name)
            made.append(_made(make, bench))
    views = {name: view for name, view in zip(_PANELS, made, strict=True) if not isinstance(view, str)}
    panels = tuple(
        Panel(name, remark=view) if isinstance(view, str) else Panel(name, view.kind, view.data)
        for name, view in zip(_PANELS, made, strict=True)
    )
    group = group_of(kernel.source.name, kernel.source.source)
    return WorkbenchView(WorkbenchModel(kernel.source.name, target.name, panels, group), views)


@dataclass(frozen=True, slots=True)
class Bench:
    """Subject of the panels; launch: the kernel with the grid that was given, if any."""

    kernel: Kernel
    launch: Configured
    values: Values
    compiled: Compiled


Make = Callable[[Bench], object]


def _explorer(bench: Bench) -> object:
    return explore(bench.compiled)


def _passes(bench: Bench) -> object:
    compiled = bench.compiled
    passes = [stage.name for stage in compiled.stages if stage.level == "tile" and stage.name]
    return diff((compiled, "tile", passes[0]), (compiled, "tile", passes[-1]))


def _tiles(bench: Bench) -> object:
    return tiles(bench.launch, *bench.values)


def _dataflow(bench: Bench) -> object:
    return dataflow(bench.compiled)


def _schedule(bench: Bench) -> object:
    return schedule(bench.launch, *bench.values)


def _profile(bench: Bench) -> object:
    values = bench.values
    copies = ClonedArguments(values, [True] * len(values), on_device=False)
    try:
        return timeline(profile(bench.kernel, bench.launch.grid)(*copies.values))
    finally:
        copies.close()


def _tuning(bench: Bench) -> object:
    return dashboard(bench.kernel)


def _editor(bench: Bench) -> object:
    return edit(bench.launch, *bench.values)


_PANELS: Final[Mapping[str, Make]] = {
    "levels": _explorer,
    "passes": _passes,
    "dataflow": _dataflow,
    "schedule": _schedule,
    "profile": _profile,
    "tiles": _tiles,
    "tuning": _tuning,
    "edit": _editor,
}
"""Panels, by name."""


def _made(make: Make, bench: Bench) -> AnyView | str:
    """Return a view, or why there is none."""
    try:
        return cast("AnyView", make(bench))
    except TesseraError as missing:
        return f"{missing.message} ({missing.hint})" if missing.hint else missing.message


class WorkbenchView(View[WorkbenchModel]):
    """Panels of one kernel.

    views: the views, by the name of their panel
    """

    kind = "workbench"

    def __init__(self, data: WorkbenchModel, views: Mapping[str, AnyView]) -> None:
        super().__init__(data)
        self.views: Final = dict(views)

    @property
    def title(self) -> str:
        """Say which kernel is on the bench."""
        return f"workbench of {self.data.kernel}"

    def text(self) -> str:
        """Return one line a panel."""
        head = f"workbench of {self.data.kernel} for {self.data.target}"
        rows = [f"  {p.name}: {self.views[p.name].text() if p.kind else p.remark}" for p in self.data.panels]
        return "\n".join([head, *(row.split("\n")[0] for row in rows)])

    def plain_html(self) -> str:
        """Return the plain forms of all panels, one below the other, folded but for the first."""
        parts = [f"<div><b>{escape(self.title)}</b></div>"]
        for number, panel in enumerate(self.data.panels):
            inside = self.views[panel.name].plain_html() if panel.kind else f"<div>{escape(panel.remark)}</div>"
            parts.append(f"<details{'' if number else ' open'}><summary>{panel.name}</summary>{inside}</details>")
        return "".join(parts)

    def html(self) -> str:
        """Return the panels with the scripts of all of them."""
        kinds = [view.kind for view in self.views.values()]
        return fragment(self.kind, self.payload(), self.plain_html(), kinds)

    def payload(self) -> Json:
        """Return the payloads of the panels' views."""
        panels: Sequence[Json] = [
            {
                "name": p.name,
                "kind": p.kind,
                "data": self.views[p.name].payload() if p.kind else None,
                "remark": p.remark,
            }
            for p in self.data.panels
        ]
        data = self.data
        return {"title": self.title, "target": data.target, "group": data.group, "panels": panels}

    def answer(self, message: Mapping[str, object], send: Send) -> None:
        """Pass a panel's question on to its view: `{"type": "panel", "panel": name, "message": {...}}`."""
        view = self.views.get(str(message.get("panel")))
        if message.get("type") != "panel" or view is None:
            super().answer(message, send)
            return
        inner = cast("Mapping[str, object]", message.get("message") or {})
        name = message.get("panel")
        view.answer(inner, lambda reply: send({"panel": name, "value": reply}))
