"""Views of operator graphs in a browser: rows, columns, keys, and one selection for all of them."""

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from support.lab import Watch
from support.operator_graphs import LOSS, QKV, ROWS, attention, classify, gradient, line_of
from tessera import viz
from tessera.viz.base.page import document

pytestmark = pytest.mark.browser


def test_fusion_says_why_kernels_are_two_and_links_rows_to_lines(page: Page, tmp_path: Path, watch: Watch) -> None:
    page.goto(viz.fusion(classify, *ROWS).save(tmp_path / "fusion.html").as_uri())
    view = page.locator(".tsr-view[data-kind=fusion][data-ready]")
    expect(view.locator(".tsr-kernel")).to_have_count(3)
    expect(view.locator(".tsr-boundary")).to_have_count(2)
    boundary = view.locator("[data-rule=reduced-axes]")
    expect(boundary).to_contain_text("1 → 2 two kernels: they reduce different axes")
    expect(boundary).to_contain_text("remedy reduce the same axes in both")
    expect(view.locator(".tsr-totals")).to_contain_text("105 kB moved · 5 kernels")
    expect(view.locator(".tsr-totals")).to_contain_text("63.8 kB moved · 3 kernels")
    # The algebra of the derived kernel; its parts are marked with the equations that they come from.
    part = view.locator(".tsr-algebra .tsr-item", has_text="M1 = sum_j")
    part.first.click()
    expect(view.locator(".tsr-equations .tsr-on code")).to_have_text("g9[i, j] = sum_k h[i, k] * w[k, j]")
    page.keyboard.press("Home")
    first = view.locator(".tsr-item").first
    expect(first).to_be_focused()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(view.locator(".tsr-item:focus")).to_have_attribute("aria-pressed", "true")
    page.keyboard.press("Escape")
    expect(view.locator(".tsr-on")).to_have_count(0)
    view.locator("summary", has_text="what was tried").click()
    expect(view.locator(".tsr-merges tbody tr")).to_have_count(len(viz.fusion(classify, *ROWS).data.trials))
    assert watch.errors == []


def test_memory_has_a_column_a_kernel_and_a_row_an_array(page: Page, tmp_path: Path, watch: Watch) -> None:
    model = viz.memory(gradient, *LOSS).data
    page.goto(viz.memory(gradient, *LOSS).save(tmp_path / "memory.html").as_uri())
    view = page.locator(".tsr-view[data-kind=memory][data-ready]")
    expect(view.locator(".tsr-column")).to_have_count(len(model.moments))
    expect(view.locator(".tsr-life")).to_have_count(len(model.arrays))
    heights = view.locator(".tsr-column").evaluate_all(
        "all => all.map(each => [...each.querySelectorAll('i')].reduce((sum, one) => sum + one.offsetHeight, 0))"
    )
    peak = max(heights)
    assert heights.index(peak) == model.peak
    for height, moment in zip(heights, model.moments, strict=True):
        assert height / peak == pytest.approx(moment.total / model.peak_bytes, abs=0.03)
    expect(view.locator(".tsr-peak .tsr-top")).to_have_text("28.7 kB")
    view.locator(".tsr-column").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(view.locator(".tsr-column.tsr-on")).to_have_attribute(
        "aria-label", view.locator(".tsr-column").nth(1).get_attribute("title") or ""
    )
    view.locator(".tsr-life").first.focus()
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    expect(view.locator(".tsr-life.tsr-on").last).to_be_focused()
    assert watch.errors == []


def test_a_selection_is_shared_by_all_views_of_a_function(page: Page, tmp_path: Path, watch: Watch) -> None:
    views = (
        viz.explore(attention, *QKV, levels=("graph", "tile")), viz.dataflow(attention, *QKV),
        viz.fusion(attention, *QKV), viz.film(attention, *QKV),
    )  # fmt: skip
    path = tmp_path / "all.html"
    path.write_text(document("all", "".join(view.html() for view in views)), encoding="utf-8")
    page.goto(path.as_uri())
    expect(page.locator(".tsr-view[data-ready]")).to_have_count(4)
    explorer, fusion = page.locator("[data-kind=explorer]"), page.locator("[data-kind=fusion]")
    explorer.locator("[aria-label='your source'] [role=option]", has_text="A = op.softmax(S)").click()
    expect(explorer.locator("[role=status]").first).to_contain_text(f"line {line_of('A = op.softmax')}")
    expect(fusion.locator(".tsr-equations .tsr-on")).to_have_count(5)
    # A part of the algebra leads to the lines of Tile IR that were emitted for it.
    fusion.locator(".tsr-algebra .tsr-item", has_text="c0 = running max of S").click()
    expect(explorer.locator("[role=status]").first).to_contain_text("tile")
    expect(explorer.locator("[role=status]").first).not_to_contain_text("tile no counterpart")
    assert watch.errors == []
