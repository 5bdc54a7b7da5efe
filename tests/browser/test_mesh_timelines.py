"""Views of what devices do, in a page: keys, figures, and pictures of what is before and after."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from support.lab import Watch
from support.mesh_mlp import arrays, line, mlp
from tessera import dist, viz

pytestmark = pytest.mark.browser

MODEL = dist.Transformer(layers=8, width=1024, heads=16, sequence=512, batch=64, vocabulary=8192)


def test_a_timeline_of_72_devices_is_walked_by_keys(page: Page, tmp_path: Path, watch: Watch) -> None:
    view = viz.devices(mlp, *arrays(line(72, 8), stored=False, rows=72))
    page.goto(view.save(tmp_path / "devices.html").as_uri())
    canvas, foot = page.locator(".tsr-view[data-ready] canvas"), page.locator(".tsr-foot")
    canvas.focus()
    page.keyboard.press("End")
    expect(foot).to_contain_text("device 71: compute")
    page.keyboard.press("ArrowRight")
    expect(foot).to_contain_text("device 71: matmul_gelu: 0")
    page.keyboard.press("ArrowRight")
    expect(foot).to_contain_text("device 71: matmul: ")
    page.keyboard.press("ArrowRight")
    expect(foot).to_contain_text("all_reduce over tp of")
    expect(foot).to_contain_text("sent")
    # The first row computes at its beginning and communicates later: the pixels say so, in both halves of the row.
    page.keyboard.press("Home")
    pixels = page.evaluate(
        """() => { const c = document.querySelector('canvas'), p = c.getContext('2d'), r = devicePixelRatio;
        const at = (x, y) => [...p.getImageData(x * r, y * r, 1, 1).data].slice(0, 3).join();
        return [at(203, 20 + 5), at(203, 20 + 20)]; }"""
    )
    assert pixels[0] == "0,114,178"
    assert pixels[0] != pixels[1]
    before = page.evaluate("document.querySelector('canvas').toDataURL()")
    page.keyboard.press("+")
    assert page.evaluate("document.querySelector('canvas').toDataURL()") != before
    page.keyboard.press("0")
    page.locator("summary").first.click()
    expect(page.locator(".tsr-table tbody tr")).to_have_count(72)
    assert watch.errors == []


def test_collectives_before_and_after(page: Page, tmp_path: Path, watch: Watch) -> None:
    view = viz.collectives(mlp, *arrays(line(), stored=False))
    page.goto(view.save(tmp_path / "collectives.html").as_uri())
    page.wait_for_selector(".tsr-view[data-ready]")
    expect(page.locator(".tsr-collective")).to_have_count(1)
    expect(page.locator(".tsr-collective-shown h4").first).to_contain_text("f32[16@dp, 8]{sum: tp}")
    expect(page.locator(".tsr-device")).to_have_count(16)
    page.locator("[data-device='0']").first.click()
    expect(page.locator(".tsr-collective-shown .tsr-foot").first).to_contain_text("to 3 devices")
    assert watch.errors == []


def test_plans_side_by_side(page: Page, tmp_path: Path, watch: Watch) -> None:
    search = dist.plan.search(MODEL, 8)
    page.goto(viz.parallel(search).save(tmp_path / "plans.html").as_uri())
    page.wait_for_selector(".tsr-view[data-ready]")
    plans = page.locator("button.tsr-plan")
    expect(plans).to_have_count(len(search.ranked))
    expect(page.locator(".tsr-plan-facts")).to_contain_text(str(search.best.pipeline))
    plans.first.focus()
    page.keyboard.press("ArrowDown")
    expect(plans.nth(1)).to_have_attribute("aria-selected", "true")
    expect(page.locator(".tsr-plan-facts")).to_contain_text(str(search.ranked[1].pipeline))
    page.locator("summary", has_text="rejected").click()
    expect(page.locator(".tsr-table td", has_text="instead of").first).to_be_visible()
    expect(page.locator("canvas")).to_be_visible()
    assert watch.errors == []
