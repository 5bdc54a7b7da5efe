"""Views of a launch's time in a page: keyboard, selection over several views, dark, large launches; trials in JupyterLab."""

from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Page, expect

from support.lab import Lab, Watch
from support.profiles import MACHINE, profile_of, work
from tessera.performance.tile_timeline import predict_tiles
from tessera.profiling.results import Profile
from tessera.viz import explain, heatmap, roofline, timeline
from tessera.viz.base.page import document

pytestmark = pytest.mark.browser

LANES = "canvas.tsr-lanes"
TRY = """
import numpy as np, tessera
from tessera.profiling.advice.model import Advice, Evidence
from tessera.viz import explain
from tessera.viz.profile import advice_view
SOURCE = '''
STEP = 16

@kernel
def added(x: f32[n], y: mut f32[n]):
    for t in tile.range(n, step=STEP):
        y[t:t+STEP] = y[t:t+STEP] + x[t:t+STEP]
'''
x, y = np.ones(4096, np.float32), np.zeros(4096, np.float32)
p = tessera.profile(tessera.compile_source(SOURCE).added)(x, y)
advice = Advice("tiny groups", "larger", (Evidence("groups", 256, ""),), 0.5, (6,), ({"STEP": 64},), p.origin)
advice_view.explanation = lambda *_: advice_view.Explanation("verdict", (advice,), ())
"""


def launch(count: int) -> Profile:
    """A made-up launch: what is predicted, a little slower and uneven."""
    made = work(count)
    tiles = predict_tiles(made, MACHINE, per_unit=2)
    length = (tiles.end - tiles.start) * (1.0 + 0.2 * np.cos(np.arange(count)))
    start = tiles.start * 1.3
    return profile_of(tiles.unit.tolist(), start.tolist(), (start + length).tolist(), {"load": (length * 0.3).tolist()})


def span(page: Page) -> float:
    return page.evaluate(f"(() => {{ const d = document.querySelector('{LANES}').dataset; return d.to - d.from; }})()")


def settle(page: Page) -> None:
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


@pytest.fixture
def opened(page: Page, tmp_path: Path) -> Page:
    found = launch(120)
    path = tmp_path / "page.html"
    body = "".join(view.html() for view in (timeline(found), heatmap(found), roofline(found), explain(found)))
    path.write_text(document("views", body), encoding="utf-8")
    page.goto(path.as_uri())
    page.wait_for_function("document.querySelectorAll('.tsr-view[data-ready]').length === 4")
    page.wait_for_selector(f"{LANES}[data-drawn]")
    return page


def test_the_keyboard_zooms_moves_and_selects_in_all_views(opened: Page, watch: Watch) -> None:
    page = opened
    whole = span(page)
    expect(page.locator(LANES)).to_have_attribute("data-drawn", "120")
    page.locator(LANES).focus()
    page.keyboard.press("+")
    settle(page)
    assert span(page) == pytest.approx(whole / 2)
    page.keyboard.press("0")
    settle(page)
    assert span(page) == pytest.approx(whole)
    page.keyboard.press("n")
    settle(page)
    told = page.locator("[data-kind=timeline] [role=status]").inner_text()
    tile = told.partition(" on SM 0")[0]
    assert tile in ("tile 0 (group 0)", "tile 4 (group 4)")  # both begin at 0, beside each other
    assert page.locator("[data-kind=heatmap] [role=status]").inner_text().startswith(f"{tile}; ")
    page.keyboard.press("Escape")
    expect(page.locator("[data-kind=heatmap] [role=status]")).to_have_text(
        "heat map of k: 120 tiles, group 120", use_inner_text=True
    )
    page.keyboard.press("s")
    expect(page.locator("[data-kind=heatmap] [role=status]")).to_contain_text("120 tiles", use_inner_text=True)
    assert watch.errors == []
    assert watch.requests == []


def test_a_tile_of_the_heat_map_is_marked_on_the_timeline(opened: Page) -> None:
    opened.locator("canvas.tsr-heat").focus()
    for key in ("ArrowRight", "ArrowRight"):
        opened.keyboard.press(key)
    assert opened.locator("[data-kind=timeline] [role=status]").inner_text().startswith("tile 1 (group 1)")


def test_hovering_a_tile_tells_its_figures(opened: Page) -> None:
    box = opened.locator(LANES).bounding_box()
    assert box is not None
    opened.mouse.move(box["x"] + 100, box["y"] + 44)
    told = opened.locator(".tsr-tip:not([hidden])").inner_text()
    assert "tile " in told
    assert "load" in told
    opened.mouse.click(box["x"] + 100, box["y"] + 44)
    assert opened.locator("[data-kind=timeline] [role=status]").inner_text().startswith("tile ")


def test_what_is_told_stands_beside_the_pointer_in_a_contained_panel(opened: Page) -> None:
    """As JupyterLab's panels are, of which the corner is not that of the window."""
    opened.add_style_tag(content="body { margin: 60px 0 0 200px; contain: layout; }")
    lanes = opened.locator(LANES)
    box = lanes.bounding_box()
    assert box is not None
    x, y = box["x"] + 100, box["y"] + 44
    opened.mouse.move(x, y)
    tip = opened.locator(".tsr-tip:not([hidden])")
    told = tip.bounding_box()
    assert told is not None
    assert (told["x"] - x, told["y"] - y) == (pytest.approx(14, abs=1), pytest.approx(16, abs=1))
    lanes.focus()
    opened.keyboard.press("+")
    expect(tip).to_have_count(0)


def test_advice_is_numbered_once_in_a_notebook(opened: Page) -> None:
    opened.add_style_tag(
        content=".jp-RenderedHTMLCommon ol:not(.list-inline) { list-style: decimal; padding-left: 2em; }"
    )
    opened.evaluate("document.body.classList.add('jp-RenderedHTMLCommon')")
    advice = opened.locator("ol.tsr-advice")
    expect(advice).to_have_css("list-style-type", "none")
    expect(advice).to_have_css("padding-left", "10px")


def test_a_large_launch_is_drawn_whole(page: Page, tmp_path: Path, watch: Watch) -> None:
    page.goto(timeline(launch(100_000)).save(tmp_path / "page.html").as_uri())
    page.wait_for_selector(f"{LANES}[data-drawn]")
    expect(page.locator(LANES)).to_have_attribute("data-drawn", "100000")
    page.locator(LANES).focus()
    for _ in range(12):
        page.keyboard.press("+")
    settle(page)
    assert 0 < int(page.locator(LANES).get_attribute("data-drawn") or 0) < 1000
    assert watch.errors == []


def test_dark(browser: Browser, tmp_path: Path) -> None:
    path = heatmap(launch(120)).save(tmp_path / "page.html")
    context = browser.new_context(color_scheme="dark")
    page = context.new_page()
    page.goto(path.as_uri())
    page.wait_for_selector(".tsr-view.tsr-dark canvas")
    context.close()


def test_advice_is_tried_with_a_click(lab: Lab, page: Page, watch: Watch) -> None:
    lab.run_cells(page, "advice", TRY, "explain(p).widget()")
    button = page.locator("[data-kind=advice] button", has_text="try STEP=64").first
    button.click()
    page.wait_for_function(
        "document.querySelector('[data-tried]')?.textContent.includes('launches each')", timeout=60_000
    )
    expect(page.locator("[data-tried]").first).to_contain_text("same results", use_inner_text=True)
    assert watch.errors == []


def test_a_large_heat_map_has_every_tile_in_its_table(page: Page, tmp_path: Path, watch: Watch) -> None:
    page.goto(heatmap(launch(100_000)).save(tmp_path / "page.html").as_uri())
    page.wait_for_selector("canvas.tsr-heat")
    page.click("summary:has-text('as a table')")
    rows = page.locator(".tsr-tile-rows tr[data-tile]")
    expect(page.locator(".tsr-tile-rows table")).to_have_attribute("aria-rowcount", "100001")
    expect(rows.nth(20)).to_be_attached()
    expect(rows.nth(100)).not_to_be_attached()
    page.locator("canvas.tsr-heat").focus()
    page.keyboard.press("End")
    chosen = page.locator(".tsr-tile-rows tr[aria-selected=true]")
    expect(chosen).to_have_attribute("data-tile", "99999")
    expect(chosen).to_be_in_viewport()
    status = page.locator("[data-kind=heatmap] [role=status]")
    expect(status).to_contain_text("tile 99999", use_inner_text=True)
    above = page.locator(".tsr-tile-rows tr:has(+ tr[aria-selected=true])")
    tile = above.get_attribute("data-tile")
    above.locator("td").first.click()
    expect(status).to_contain_text(f"tile {tile} ", use_inner_text=True)
    assert watch.errors == []


def test_a_mark_moves_and_the_tiles_below_it_stay(page: Page, tmp_path: Path, watch: Watch) -> None:
    picture = "document.querySelector('canvas.tsr-heat').toDataURL()"
    page.goto(heatmap(launch(120)).save(tmp_path / "page.html").as_uri())
    page.wait_for_selector("canvas.tsr-heat")
    before = page.evaluate(picture)
    page.locator("canvas.tsr-heat").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert page.evaluate(picture) != before
    page.keyboard.press("Escape")
    assert page.evaluate(picture) == before
    page.get_by_label("what is shown").select_option("start")
    assert page.evaluate(picture) != before
    page.get_by_label("what is shown").select_option("duration")
    assert page.evaluate(picture) == before
    assert watch.errors == []
