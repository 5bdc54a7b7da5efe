"""Edit and rerun in a real JupyterLab: change a kernel in the view, compile it there, take it back to the cell."""

import pytest
from playwright.sync_api import Page, expect

from support.lab import Lab, Watch

pytestmark = pytest.mark.browser

SETUP = "import numpy as np\n%load_ext tessera_magics"
CELL = """%%tessera
@kernel
def scaled(x: f32[n], y: mut f32[n], a: f32):
    for t in tile.range(n, step=64):
        y[t:t+64] = a * x[t:t+64]

x = np.arange(500, dtype=np.float32)
y = np.zeros_like(x)
scaled(x, y, 3.0)"""
VIEW = "from tessera.viz import edit\nedit(scaled).widget()"


def test_an_edit_goes_through_the_kernel_and_back_to_the_cell(lab: Lab, page: Page, watch: Watch) -> None:
    lab.run_cells(page, "editing", SETUP, CELL, VIEW)
    view = page.locator(".jp-OutputArea-output:not(.jp-RenderedHTMLCommon) .tsr-view[data-kind=edit]").first
    area = view.locator("textarea")
    area.fill(area.input_value().replace("a * x", "a * z"))
    area.press("Control+Enter")
    view.locator(".tsr-error:has-text('TSR-E')").wait_for()
    expect(view.locator(".tsr-bad")).to_have_text("✗ 5", use_inner_text=True)
    area.fill(area.input_value().replace("a * z", "x"))
    area.fill(area.input_value().replace("x[t:t+64][t:t+64]", "x[t:t+64]"))
    area.press("Control+Enter")
    view.locator("[role=status]:has-text('outputs differ')").wait_for()
    expect(view.locator(".tsr-outcome li")).to_contain_text("differ, by at most", use_inner_text=True)
    assert view.locator(".tsr-outcome table").inner_text().count(" us") == 2
    view.locator("button:has-text('take back to the cell')").click()
    view.locator("[role=status]:has-text('the cell holds the edit now')").wait_for()
    cell = page.locator(".jp-CodeCell .cm-content").nth(1).inner_text()
    assert "y[t:t+64] = x[t:t+64]" in cell
    assert "scaled(x, y, 3.0)" in cell
    # Options and Tile IR are edited in the same place.
    view.locator("[role=tab]:has-text('schedule options')").click()
    view.locator("select[aria-label=rows_per_group]").select_option("4")
    view.locator("button:has-text('compile and compare')").click()
    view.locator("[role=status]:has-text('the same to the bit')").wait_for()
    assert watch.errors == []
    assert watch.requests == []
