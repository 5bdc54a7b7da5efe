"""Pages of everything that people bring to the views: each mounts, without a word in the console."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Dialog, Page

import tessera
from support.lab import Watch
from support.operator_graphs import CASES as GRAPHS
from support.view_cases import CASES, Case
from tessera import viz
from tessera.viz.base.view import View

pytestmark = pytest.mark.browser

SHOWN = (
    "no element", "no rows", "no columns", "no stretch", "phases without rows", "total of nothing", "not a number",
    "infinite", "phases", "volume", "grid", "bool", "bf16", "i64", "hostile text", "long text", "wide softmax",
)  # fmt: skip
OF_GRAPHS = ("explore", "film", "dataflow", "fusion", "memory")
Make = Callable[[], View[Any]]


def pages(case: Case) -> Iterator[tuple[str, Make]]:
    """Yield every view of a case, by the name of its page."""
    kernel, values = case.kernel(), case.made()
    launch, compiled = case.launch(kernel), kernel.compile(*values)
    yield "bench", lambda: viz.workbench(launch, *values)
    yield "film", lambda: viz.film(compiled)
    yield "diff", lambda: viz.diff(compiled, compiled)
    profile = tessera.profile(kernel, case.grid)(*values)
    for name in ("heatmap", "roofline", "explain"):
        yield name, lambda name=name: getattr(viz, name)(profile)


@pytest.mark.parametrize("name", SHOWN)
def test_every_page_mounts(name: str, page: Page, tmp_path: Path, watch: Watch) -> None:
    def open_dialog(dialog: Dialog) -> None:
        watch.errors.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    page.on("dialog", open_dialog)
    mounted(page, tmp_path, watch, pages(CASES[name]))


@pytest.mark.parametrize("name", GRAPHS)
def test_every_page_of_a_graph_mounts(name: str, page: Page, tmp_path: Path, watch: Watch) -> None:
    function, arguments = GRAPHS[name]
    views = ((kind, partial(getattr(viz, kind), function, *arguments)) for kind in OF_GRAPHS)
    mounted(page, tmp_path, watch, views)


def mounted(page: Page, tmp_path: Path, watch: Watch, views: Iterable[tuple[str, Make]]) -> None:
    """Open each view, all of its tabs too; nothing is wrong, and nothing is said to be."""
    for kind, make in views:
        page.goto(make().save(tmp_path / f"{kind}.html").as_uri())
        page.wait_for_selector(".tsr-view[data-ready]")
        if kind == "bench":  # panels are mounted when they are opened
            for tab in page.get_by_role("tab").all():
                tab.click()
        words = page.inner_text("main")
        assert not [word for word in ("undefined", "[object Object]", "Infinity") if word in words], kind
        assert (kind, watch.errors, watch.requests) == (kind, [], [])
