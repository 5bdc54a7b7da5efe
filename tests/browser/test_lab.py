"""The tour in a real JupyterLab: running it, clicking in it, and finding it again when it is reopened."""

from pathlib import Path

import nbformat
import pytest

pytestmark = pytest.mark.browser

TOUR = Path(__file__).resolve().parents[2] / "notebooks" / "00_tour.ipynb"
RUN_MS = 90_000
SOURCE, LEVEL = ".tsr-src", ".tsr-text:not(.tsr-src)"


def viewer(page):
    """The first viewer of the notebook, scrolled to."""
    view = page.locator(".tsr-ir[data-ready]").first
    view.scroll_into_view_if_needed()
    return view


def test_the_tour_runs_and_a_click_marks_all_levels(lab, page, watch) -> None:
    lab.open(page, lab.add(TOUR, "tour.ipynb"), "run")
    page.evaluate("window.jupyterapp.commands.execute('notebook:run-all-cells')")
    cells = nbformat.read(TOUR, as_version=4).cells
    last = sum(cell.cell_type == "code" for cell in cells)
    page.wait_for_function(
        "last => [...document.querySelectorAll('.jp-Notebook .jp-InputPrompt')].some(e => e.innerText.includes(`[${last}]`))",
        arg=last,
        timeout=RUN_MS,
    )
    view = viewer(page)
    line = view.locator(f'{SOURCE} [role=option]:has-text("y[i] =")')
    line.click()
    assert line.get_attribute("aria-selected") == "true"
    tabs = view.locator("[role=tab]")
    names = [tab.get_attribute("data-level") for tab in tabs.all()]
    assert names == ["tile", "target", "llvm", "asm"]
    assert all(int(tab.locator(".tsr-count").inner_text()) > 0 for tab in tabs.all())
    for name in names:
        view.locator(f'[data-level="{name}"]').click()
        assert view.locator(f"{LEVEL} .tsr-on").count() > 0
    # Keys belong to the viewer while it has the focus: the notebook stays where it is.
    active = page.evaluate("document.querySelector('.jp-Notebook .jp-mod-active')?.innerText")
    line.focus()
    page.keyboard.press("j")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
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
    details = page.locator(".jp-OutputArea details:has-text('Tile IR')").first
    details.scroll_into_view_if_needed()
    assert page.locator(".tsr-ir[data-ready]").count() == 0
    assert "saxpy for cpu" in page.locator(".jp-OutputArea").filter(has=details).first.inner_text()
    details.locator("summary").click()
    shown = details.locator("pre")
    assert shown.is_visible()
    assert "arith.mulf" in shown.inner_text()
    assert watch.requests == []
