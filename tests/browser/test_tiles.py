"""The tiles view in a browser: stepping by keyboard, elements and who wrote them, selections of other views."""

from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from support import stepped_kernels as kernels
from support.lab import Watch
from tessera.viz import tiles
from tessera.viz.base.selection import group_of

pytestmark = pytest.mark.browser


@pytest.fixture
def opened(page: Page, tmp_path: Path) -> Page:
    a, b, c = np.ones((20, 10), np.float32), np.ones((10, 12), np.float32), np.zeros((20, 12), np.float32)
    page.goto(tiles(kernels.matmul, a, b, c).save(tmp_path / "tiles.html").as_uri())
    page.wait_for_selector(".tsr-view[data-ready]")
    return page


def status(page: Page) -> str:
    return page.locator("[role=status]").inner_text()


def test_a_kernel_is_stepped_by_keyboard(opened: Page, watch: Watch) -> None:
    page = opened
    assert status(page) == "statement 1 of 36, line 13, tile m=0, n=0"
    c = page.locator("canvas").nth(2)
    c.focus()
    for _ in range(3):
        page.keyboard.press("PageDown")
    assert status(page) == "statement 4 of 36, line 16, tile m=0, n=0, k=0: reads A[0:16, 0:4]; reads B[0:4, 0:8]"
    page.keyboard.press("l")
    assert "line 15, tile m=0, n=0, k=4" in status(page)
    page.keyboard.press("PageUp")
    assert "line 16, tile m=0, n=0, k=0" in status(page)
    page.keyboard.press("t")
    assert "line 16, tile m=0, n=8, k=0" in status(page)
    assert "4 elements masked off" not in status(page)
    assert "16 elements masked off at the edge" in status(page)
    total = page.locator(".tsr-vars tr", has_text="total")
    expect(total).to_contain_text("f32[16, 8]", use_inner_text=True)
    assert watch.errors == []
    assert watch.requests == []


def test_an_element_tells_its_tiles_and_who_wrote_it(opened: Page) -> None:
    page = opened
    c = page.locator("canvas").nth(2)
    c.focus()
    page.keyboard.press("End")
    page.locator("input[type=range]").fill("35")
    c.focus()
    page.keyboard.press("Home")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowRight")
    told = status(page)
    assert told == "C[1, 1] = 10; written by m=0, n=0; last written by line 17 at m=0, n=0"
    page.keyboard.press("Enter")
    assert status(page) == "statement 9 of 36, line 17, tile m=0, n=0: writes C[0:16, 0:8]"


def test_run_to_a_line_and_what_other_views_select(opened: Page) -> None:
    page = opened
    page.get_by_role("button", name="C[m : m + 16, n : n + 8] = total").click()
    page.get_by_role("button", name="run to line").click()
    assert "line 17, tile m=0, n=0" in status(page)
    page.keyboard.press("r")
    assert "line 17, tile m=0, n=8" in status(page)
    group = group_of("matmul", kernels.matmul.source.source)
    page.evaluate("group => __tessera_v1.lib.busOf(group).select({ tiles: [3], lines: [16] }, {})", group)
    assert "line 16, tile m=16, n=8" in status(page)
    page.evaluate("group => __tessera_v1.lib.busOf(group).select({ tiles: [99] }, {})", group)
    assert status(page) == "no counterpart among the tiles recorded"


def test_lanes_that_an_edge_masks_off(page: Page, tmp_path: Path) -> None:
    x = np.ones(300, np.float32)
    page.goto(tiles(kernels.saxpy[3, 128], x, x.copy(), 2.0).save(tmp_path / "lanes.html").as_uri())
    page.wait_for_selector(".tsr-view[data-ready]")
    page.get_by_role("option", name="lanes 256 to 383").click()
    page.keyboard.press("ArrowRight")
    page.get_by_role("button", name="next statement (n, Page Down)").click()
    page.get_by_role("button", name="next statement (n, Page Down)").click()
    assert "44 of 128 lanes active: reads x[256:300]" in status(page)
    page.get_by_role("spinbutton", name="lane").fill("299")
    assert "lane 299, warp 9" in status(page)
    expect(page.locator(".tsr-vars")).to_contain_text("84 not active", use_inner_text=True)


def test_it_begins_at_the_first_wrong_element(page: Page, tmp_path: Path, watch: Watch) -> None:
    x = np.arange(300, dtype=np.float32)
    right = 2.0 * x + 1.0
    right[200] = 9.0
    view = tiles(kernels.saxpy[3, 128], x, np.ones(300, np.float32), alpha=2.0, expect=right)
    page.goto(view.save(tmp_path / "tiles.html").as_uri())
    page.wait_for_selector(".tsr-view[data-ready]")
    words = "y: 1 of 300 are not as expected, the first is y[200] = 401, expected 9; written at line"
    expect(page.locator("[role=alert]")).to_contain_text(words)
    assert "y[200] = 401" in status(page)
    assert watch.errors == []
