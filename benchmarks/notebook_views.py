"""Large views in JupyterLab: from a message to the paint, and from a key or a click to the paint."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Final

from playwright.sync_api import Page

import notebook_models as models
from notebook_figures import Figure, elapsed_ms
from notebook_page import LIVE, Cells, Shown, answer_ms
from support.lab import Lab, Watch
from tessera.viz import diff
from tessera.viz.graph.layout import lay_out

ROOT: Final = Path(__file__).resolve().parent.parent
IMPORTS: Final = f"""
import sys
sys.path += {[str(ROOT), str(ROOT / "tests"), str(ROOT / "benchmarks")]!r}
import notebook_models as models
from tessera.viz import diff, heatmap, timeline
"""
STATIC: Final = "data-kind=.{0,3}%s"
LIVE_MESSAGE: Final = '"type":\\s*"data"'
PAINT_MS: Final = 500.0
DIFF_MS: Final = 300.0
ANSWER_MS: Final = 100.0
REDRAW_MS: Final = 50.0
LAYOUT_MS: Final = 300.0
USABLE_MS: Final = 1000.0


_CHOOSE: Final = """async ([selector, value]) => {
  await probe.afterPaint();
  const began = performance.now();
  const list = document.querySelector(selector);
  list.value = value;
  list.dispatchEvent(new Event("change"));
  if (list.value !== value) throw new Error(`there is no ${value}`);
  return (await probe.afterPaint()) - began;
}"""
"""Chooses a value of a list, and waits for the paint."""


@dataclass
class Bench:
    """What the measurements share.

    new_page: opens an empty page that has the clock and is watched; repetitions: of each figure
    """

    lab: Lab
    watch: Watch
    new_page: Callable[[], Page]
    repetitions: int


@dataclass(frozen=True)
class Case:
    """A view: its renderer, the code that makes it, and what is there once it is drawn, inside of the view."""

    kind: str
    code: str
    drawn: str = ""

    def selector(self, where: str = "") -> str:
        """Return where the drawn view stands."""
        return f"{where} .tsr-view[data-kind={self.kind}][data-ready] {self.drawn}".strip()


EXPLORER: Final = Case("explorer", "view", "[role=option]")
DIFFS: Final = {
    "LLVM IR, 1 % of the lines changed": "diff(*models.text_stages(0.01))",
    "LLVM IR, 20 % changed": "diff(*models.text_stages(models.CHANGED))",
    "LLVM IR, every value renumbered": "diff(*models.text_stages(renumbered=True))",
    "Tile IR, 20 % of the operations changed": "diff(*models.tile_stages(models.CHANGED))",
    "Tile IR, every operation and value renumbered": "diff(*models.tile_stages(renumbered=True))",
}


def large_views(bench: Bench) -> Iterator[Figure]:
    """Yield the figures of every large view."""
    yield from explorer(bench)
    yield from cross_highlight(bench)
    yield from diffs(bench)
    yield from graphs(bench)
    yield from redraws(bench)
    yield from trials(bench)


def samples(bench: Bench, measure: Callable[[], float]) -> tuple[float, ...]:
    """Take the repetitions of a figure, behind one that does not count."""
    measure()
    return tuple(measure() for _ in range(bench.repetitions))


def shown(bench: Bench, cells: Cells, cell: int, selector: str, message: str) -> list[Shown]:
    """Show a view again and again, the first time not counted: it brings the scripts."""
    return [cells.show(cell, selector, message) for _ in range(bench.repetitions + 1)][1:]


def explorer(bench: Bench) -> Iterator[Figure]:
    """Yield the times of 10,000 lines: in a cell's output, and live."""
    page = bench.new_page()
    cells = Cells(bench.lab, page, "explorer", f"{IMPORTS}view = models.large_explorer()", "view", "view.widget()")
    size = f"explorer, {models.IR_LINES:,} lines"
    static = shown(bench, cells, 1, EXPLORER.selector(), STATIC % "explorer")
    yield Figure(f"{size}: the output's message to paint", "ms", tuple(one.page for one in static), PAINT_MS)
    yield Figure(f"{size}: the cell's start to paint", "ms", tuple(one.whole for one in static))
    yield Figure(f"{size}: the output's message", "kB", (median(one.length for one in static) / 1e3,))
    cells.run(1)  # what a live view shows is beside the static one
    live = shown(bench, cells, 2, EXPLORER.selector(LIVE), LIVE_MESSAGE)
    yield Figure(f"{size}, live: the comm message to paint", "ms", tuple(one.page for one in live), PAINT_MS)
    yield Figure(f"{size}, live: the cell's start to paint", "ms", tuple(one.whole for one in live))
    page.context.close()


def cross_highlight(bench: Bench) -> Iterator[Figure]:
    """Yield how long a click takes to mark its counterparts in every level."""
    page = bench.new_page()
    setup = f"{IMPORTS}view = models.large_explorer(levels=models.LEVELS)"
    cells = Cells(bench.lab, page, "highlight", setup, "view")
    cells.show(1, EXPLORER.selector(), STATIC % "explorer")
    lines = page.locator(".tsr-src [role=option]:has-text('* x[i]')")
    number = 0

    def click() -> float:
        nonlocal number
        number += 1
        lines.nth(number % 6).click()
        taken = answer_ms(page)
        marked = page.locator(".tsr-count:not(.tsr-none)").count()
        if marked != len(models.LEVELS):
            raise RuntimeError(f"the click marked {marked} of {len(models.LEVELS)} levels")
        return taken

    name = f"cross-highlight, the cell and {len(models.LEVELS)} levels of {models.IR_LINES:,} lines: click to paint"
    yield Figure(name, "ms", samples(bench, click), ANSWER_MS)
    page.context.close()


def diffs(bench: Bench) -> Iterator[Figure]:
    """Yield the times of diffs: the comparison and the cell's start to paint, in which it is."""
    page = bench.new_page()
    setup = f"{IMPORTS}sides = [{', '.join(code.removeprefix('diff(*').removesuffix(')') for code in DIFFS.values())}]"
    texts = [f"diff(*sides[{number}])" for number in range(len(DIFFS))]
    cells = Cells(bench.lab, page, "diff", setup, *texts)
    case = Case("diff", "", "[role=option]")
    for number, name in enumerate(DIFFS):
        found = shown(bench, cells, number + 1, case.selector(), STATIC % "diff")
        size = f"diff, {models.DIFF_LINES:,} lines, {name}"
        yield Figure(f"{size}: the cell's start to paint", "ms", tuple(one.whole for one in found), DIFF_MS)
        yield Figure(f"{size}: the output's message to paint", "ms", tuple(one.page for one in found))
        page.evaluate("window.jupyterapp.commands.execute('notebook:clear-cell-output')")
    page.context.close()
    for name, sides in (
        ("LLVM IR", models.text_stages(models.CHANGED)),
        ("Tile IR", models.tile_stages(models.CHANGED)),
    ):
        taken = samples(bench, lambda sides=sides: elapsed_ms(lambda: diff(*sides)))
        yield Figure(f"diff, {models.DIFF_LINES:,} lines, {name}, 20 % changed: comparing alone", "ms", taken)


def graphs(bench: Bench) -> Iterator[Figure]:
    """Yield the times of layouts, and of graphs on their way into the page."""
    page = bench.new_page()
    cells = Cells(
        bench.lab, page, "graph", f"{IMPORTS}views = [models.large_graph(1000), models.large_graph(2000)]",
        "views[0]", "views[1]",
    )  # fmt: skip
    case = Case("graph", "", ".tsr-g-node")
    for cell, (nodes, limit) in enumerate(((1000, LAYOUT_MS), (2000, USABLE_MS)), 1):
        model = models.large_graph(nodes).data
        taken = samples(bench, lambda model=model: elapsed_ms(lambda: lay_out(model.steps)))
        yield Figure(f"graph, {nodes:,} nodes: layout", "ms", taken, limit)
        found = shown(bench, cells, cell, case.selector(), STATIC % "graph")
        yield Figure(f"graph, {nodes:,} nodes: the output's message to paint", "ms", tuple(one.page for one in found))
        yield Figure(f"graph, {nodes:,} nodes: the cell's start to paint", "ms", tuple(one.whole for one in found))
        page.locator(".tsr-g-stage").last.focus()
        page.keyboard.press("Home")
        answers = samples(bench, lambda: pressed(page, "ArrowDown"))
        yield Figure(f"graph, {nodes:,} nodes: key to paint, to the next node", "ms", answers, ANSWER_MS)
        page.evaluate("window.jupyterapp.commands.execute('notebook:clear-cell-output')")
    page.context.close()


def redraws(bench: Bench) -> Iterator[Figure]:
    """Yield what it takes to draw 100,000 tiles: on the timeline, and as a heat map."""
    page = bench.new_page()
    setup = f"{IMPORTS}profile = models.large_profile()\nviews = [timeline(profile), heatmap(profile)]"
    cells = Cells(bench.lab, page, "profile", setup, "views[0]", "views[1]")
    size = f"timeline, {models.TILES:,} tiles"
    found = shown(bench, cells, 1, Case("timeline", "", "canvas.tsr-lanes[data-drawn]").selector(), STATIC % "timeline")
    yield Figure(f"{size}: the output's message to paint", "ms", tuple(one.page for one in found))
    canvas = page.locator("canvas.tsr-lanes")
    canvas.focus()
    script: list[float] = []

    def redraw() -> float:
        taken = pressed(page, "0")
        script.append(float(canvas.get_attribute("data-redraw") or "nan"))
        return taken

    answers = samples(bench, redraw)
    yield Figure(f"{size}: the script's part of a redraw", "ms", tuple(script[1:]), REDRAW_MS)
    yield Figure(f"{size}: key to paint of a redraw", "ms", answers, REDRAW_MS)
    page.evaluate("window.jupyterapp.commands.execute('notebook:clear-cell-output')")
    size = f"heat map, {models.TILES:,} tiles"
    found = shown(bench, cells, 2, Case("heatmap", "", "canvas.tsr-heat").selector(), STATIC % "heatmap")
    yield Figure(f"{size}: the output's message to paint", "ms", tuple(one.page for one in found))
    page.locator("canvas.tsr-heat").first.focus()
    yield Figure(
        f"{size}: key to paint of another tile", "ms", samples(bench, lambda: pressed(page, "ArrowRight")), REDRAW_MS
    )
    chosen = itertools.cycle(("start", "duration"))
    taken = samples(bench, lambda: float(page.evaluate(_CHOOSE, ["select[aria-label='what is shown']", next(chosen)])))
    yield Figure(f"{size}: choice to paint of another measure, a redraw", "ms", taken, REDRAW_MS)
    page.context.close()


def trials(bench: Bench) -> Iterator[Figure]:
    """Yield the times of a dashboard of 10,000 trials: to paint, and from one trial to another."""
    page = bench.new_page()
    cells = Cells(bench.lab, page, "dashboard", f"{IMPORTS}view = models.large_dashboard()", "view")
    case = Case("dashboard", "", "[data-row]")
    found = shown(bench, cells, 1, case.selector(), STATIC % "dashboard")
    size = f"dashboard, {models.TRIALS:,} trials"
    yield Figure(f"{size}: the output's message to paint", "ms", tuple(one.page for one in found))
    page.get_by_role("region", name="all trials").focus()
    page.keyboard.press("Home")
    answers = samples(bench, lambda: pressed(page, "ArrowDown"))
    yield Figure(f"{size}: key to paint of another selection", "ms", answers, REDRAW_MS)
    page.context.close()


def pressed(page: Page, key: str) -> float:
    """Press a key and return how long the page took, in ms."""
    page.evaluate("probe.inputs.length = 0")
    page.keyboard.press(key)
    return answer_ms(page)
