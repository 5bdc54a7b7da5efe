"""The tour in a real JupyterLab: running it, clicking in it, and finding it again when it is reopened."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from support import notebook_files
from support.lab import CURRENT, Lab, Watch
from support.notebook_files import Notebook

pytestmark = pytest.mark.browser

TOUR = Path(__file__).resolve().parents[2] / "notebooks" / "00_tour.ipynb"
SOURCE, LEVEL = ".tsr-src", ".tsr-text:not(.tsr-src)"


def viewer(page: Page) -> Locator:
    """The first explorer of the notebook, scrolled to."""
    view = page.locator(".tsr-view[data-kind=explorer][data-ready]").first
    view.scroll_into_view_if_needed()
    return view


def without_outputs() -> Notebook:
    notebook = notebook_files.read(TOUR)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return notebook


def test_the_tour_runs_and_a_click_marks_all_levels(lab: Lab, page: Page, watch: Watch) -> None:
    notebook_files.write(without_outputs(), lab.root / "tour.ipynb")
    lab.open(page, "tour.ipynb", "run")
    lab.choose_theme(page, "Light")
    lab.run_all(page)
    view = viewer(page)
    line = view.locator(f'{SOURCE} [role=option]:has-text("y[i] =")')
    line.click()
    expect(line).to_have_attribute("aria-selected", "true")
    tabs = view.locator("[role=tab]")
    names = [tab.get_attribute("data-level") for tab in tabs.all()]
    assert names == ["tile", "target", "llvm", "asm"]
    for tab in tabs.all():
        expect(tab.locator(".tsr-count")).to_have_text(re.compile("[1-9]"))
    for name in names:
        view.locator(f'[data-level="{name}"]').click()
        expect(view.locator(f"{LEVEL} .tsr-on").first).to_be_attached()
    # Keys belong to the viewer while it has the focus: the notebook stays where it is.
    active = page.evaluate(f"{CURRENT}.content.activeCellIndex")
    line.focus()
    for key in ("k", "ArrowUp", "j", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    expect(line).to_have_attribute("aria-selected", "true")
    assert page.evaluate(f"{CURRENT}.content.activeCellIndex") == active
    assert watch.errors == []
    assert watch.requests == []

    # The dark theme reaches the viewer, without running anything again.
    light = view.evaluate("node => getComputedStyle(node).backgroundColor")
    lab.choose_theme(page, "Dark")
    expect(view).to_contain_class("tsr-dark")
    expect(view).not_to_have_css("background-color", light)
    lab.choose_theme(page, "Light")
    expect(view).to_have_css("background-color", light)
    page.evaluate("window.jupyterapp.commands.execute('docmanager:save')")


def test_a_trusted_notebook_shows_the_viewer_again(lab: Lab, page: Page, watch: Watch) -> None:
    lab.open(page, lab.add(TOUR, "trusted.ipynb", trusted=True), "trusted")
    view = viewer(page)
    view.locator(f'{SOURCE} [role=option]:has-text("y[i] =")').click()
    expect(view.locator(f"{LEVEL} .tsr-on").first).to_be_attached()
    expect(view.locator(".tsr-plain")).to_be_hidden()
    assert watch.errors == []
    assert watch.requests == []


def test_an_untrusted_notebook_shows_every_level_as_text(lab: Lab, page: Page, watch: Watch) -> None:
    # A signature belongs to a notebook's content: this one is nobody's.
    notebook = notebook_files.read(TOUR)
    notebook.cells[0].source += "\n\nCopied."
    path = lab.root / "untrusted.ipynb"
    notebook_files.write(notebook, path)
    lab.open(page, path.name, "untrusted")
    details = page.locator(".jp-OutputArea details:has-text('machine code of the CPU')").first
    details.scroll_into_view_if_needed()
    expect(page.locator(".tsr-view[data-kind=explorer][data-ready]")).to_have_count(0)
    # The level that was asked for is open, the others unfold.
    opened = page.locator(".jp-OutputArea details:has-text('Tile IR') pre").first
    expect(opened).to_be_visible()
    expect(opened).to_contain_text("arith.mulf", use_inner_text=True)
    expect(details.locator("pre")).to_be_hidden()
    expect(page.locator(".jp-OutputArea:has(details) b:has-text('saxpy')").first).to_be_visible()
    details.locator("summary").click()
    shown = details.locator("pre")
    expect(shown).to_be_visible()
    expect(shown).to_contain_text("saxpy:", use_inner_text=True)
    assert watch.requests == []
