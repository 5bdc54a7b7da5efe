"""The workbench in a page: panels, keys, and one selection for all of them."""

from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

import tessera
from support.lab import Watch
from tessera.viz import workbench

pytestmark = pytest.mark.browser

SOURCE = """
@kernel
def scaled(x: f32[n], y: mut f32[n], a: f32):
    for t in tile.range(n, step=64):
        y[t:t+64] = a * x[t:t+64]
"""


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    x = np.arange(500, dtype=np.float32)
    view = workbench(tessera.compile_source(SOURCE).scaled, x, np.zeros_like(x), 3.0)
    return view.save(tmp_path_factory.mktemp("workbench") / "page.html")


def test_a_selection_is_marked_in_both_panels(page: Page, saved: Path, watch: Watch) -> None:
    page.goto(saved.as_uri())
    left = page.locator(".tsr-bench-column").first.locator(".tsr-bench-view[data-ready]")
    right = page.locator(".tsr-bench-column").last.locator(".tsr-bench-view[data-ready]")
    left.locator(".tsr-src [role=option]:has-text('y[t:t+64]')").click()
    page.wait_for_function("document.querySelectorAll('.tsr-bench-column:last-child .tsr-on').length > 0")
    marked = right.locator(".tsr-on").all_inner_texts()
    assert any("arith.mulf" in text for text in marked)
    assert not any("tessera.dim" in text for text in marked)
    expect(page.locator(".tsr-view > .tsr-foot").last).to_contain_text("selected", use_inner_text=True)
    assert watch.errors == []
    assert watch.requests == []


def test_panels_are_chosen_and_sized_by_keyboard(page: Page, saved: Path, watch: Watch) -> None:
    page.goto(saved.as_uri())
    tab = page.locator("[role=tablist][aria-label='right panel'] [aria-selected=true]")
    tab.focus()
    expect(tab).to_have_attribute("data-panel", "passes")
    for name in ("dataflow", "schedule", "profile"):
        page.keyboard.press("ArrowRight")
        expect(tab).to_have_attribute("data-panel", name)
    page.wait_for_selector(".tsr-bench-view[data-kind=timeline][data-ready] canvas")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator(".tsr-remark")).to_contain_text("no search of scaled", use_inner_text=True)
    bar = page.locator(".tsr-bench-split")
    bar.focus()
    page.keyboard.press("ArrowLeft")
    expect(bar).to_have_attribute("aria-valuenow", "47")
    # A view stands in one panel at a time: choosing the other's swaps the two.
    page.click("[aria-label='left panel'] [data-panel=tuning]")
    expect(tab).to_have_attribute("data-panel", "levels")
    assert watch.errors == []
