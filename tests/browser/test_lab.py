"""The tour in a real JupyterLab: running it, clicking in it, and finding it again when it is reopened."""

from pathlib import Path

import nbformat
import pytest

pytestmark = pytest.mark.browser

TOUR = Path(__file__).resolve().parents[2] / "notebooks" / "00_tour.ipynb"
RUN_MS = 90_000
CURRENT = "window.jupyterapp.shell.currentWidget"  # the notebook on top, in the page's own words
ALL_RUN = f"""[...{CURRENT}.content.model.cells].every(cell => cell.type !== 'code' || cell.executionCount) &&
    {CURRENT}.sessionContext.session.kernel.status === 'idle'"""
SOURCE, LEVEL = ".tsr-src", ".tsr-text:not(.tsr-src)"


def viewer(page):
    """The first viewer of the notebook, scrolled to."""
    view = page.locator(".tsr-ir[data-ready]").first
    view.scroll_into_view_if_needed()
    return view


def without_outputs() -> nbformat.NotebookNode:
    notebook = nbformat.read(TOUR, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return notebook


def test_the_tour_runs_and_a_click_marks_all_levels(lab, page, watch) -> None:
    nbformat.write(without_outputs(), lab.root / "tour.ipynb")
    lab.open(page, "tour.ipynb", "run")
    page.wait_for_function(f"{CURRENT}?.sessionContext?.session?.kernel?.status === 'idle'", timeout=RUN_MS)
    page.evaluate("void window.jupyterapp.commands.execute('notebook:run-all-cells')")
    page.wait_for_function(ALL_RUN, timeout=RUN_MS)
    view = viewer(page)
    line = view.locator(f'{SOURCE} [role=option]:has-text("y[i] =")')
    line.click()
    assert line.get_attribute("aria-selected") == "true"
    tabs = view.locator("[role=tab]")
    names = [tab.get_attribute("data-level") for tab in tabs.all()]
    assert names == ["tile", "target", "llvm", "asm"]
    counts = [int(tab.locator(".tsr-count").inner_text()) for tab in tabs.all()]
    assert min(counts) > 0, counts
    for name in names:
        view.locator(f'[data-level="{name}"]').click()
        assert view.locator(f"{LEVEL} .tsr-on").count() > 0
    # Keys belong to the viewer while it has the focus: the notebook stays where it is.
    active = page.evaluate("document.querySelector('.jp-Notebook .jp-mod-active')?.innerText")
    line.focus()
    for key in ("k", "ArrowUp", "j", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    assert line.get_attribute("aria-selected") == "true"
    assert page.evaluate("document.querySelector('.jp-Notebook .jp-mod-active')?.innerText") == active
    assert watch.errors == []
    assert watch.requests == []

    # The dark theme reaches the viewer, without running anything again.
    light = view.evaluate("node => getComputedStyle(node).backgroundColor")
    page.evaluate("window.jupyterapp.commands.execute('apputils:change-theme', { theme: 'JupyterLab Dark' })")
    page.wait_for_function("document.querySelector('.tsr-ir[data-ready]').classList.contains('tsr-dark')")
    assert view.evaluate("node => getComputedStyle(node).backgroundColor") != light
    page.evaluate("window.jupyterapp.commands.execute('apputils:change-theme', { theme: 'JupyterLab Light' })")
    page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")


def test_a_trusted_notebook_shows_the_viewer_again(lab, page, watch) -> None:
    lab.open(page, lab.add(TOUR, "trusted.ipynb", trusted=True), "trusted")
    view = viewer(page)
    view.locator(f'{SOURCE} [role=option]:has-text("y[i] =")').click()
    assert view.locator(f"{LEVEL} .tsr-on").count() > 0
    assert not view.locator(".tsr-plain").is_visible()
    assert watch.errors == []
    assert watch.requests == []


def test_an_untrusted_notebook_shows_every_level_as_text(lab, page, watch) -> None:
    # A signature belongs to a notebook's content: this one is nobody's.
    notebook = nbformat.read(TOUR, as_version=4)
    notebook.cells[0].source += "\n\nCopied."
    path = lab.root / "untrusted.ipynb"
    nbformat.write(notebook, path)
    lab.open(page, path.name, "untrusted")
    details = page.locator(".jp-OutputArea details:has-text('machine code of the CPU')").first
    details.scroll_into_view_if_needed()
    assert page.locator(".tsr-ir[data-ready]").count() == 0
    # The level that was asked for is open, the others unfold.
    opened = page.locator(".jp-OutputArea details:has-text('Tile IR') pre").first
    assert opened.is_visible()
    assert "arith.mulf" in opened.inner_text()
    assert not details.locator("pre").is_visible()
    assert page.locator(".jp-OutputArea:has(details) b:has-text('saxpy')").first.is_visible()
    details.locator("summary").click()
    shown = details.locator("pre")
    assert shown.is_visible()
    assert "saxpy:" in shown.inner_text()
    assert watch.requests == []
