"""The visual diff in a browser: what clicks and keys do, and what it says."""

import re
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from support.lab import Watch
from tessera.kernels.kernel import Kernel
from tessera.viz import diff
from tests.viz.diffs import kernels

pytestmark = pytest.mark.browser


@pytest.fixture
def shown(page: Page, tmp_path: Path) -> Page:
    compiled = kernels.product.compile(*kernels.arguments(), target="cpu")
    view = diff((compiled, "tile", "tile-mask-edges"), (compiled, "tile", "tile-distribute-ranges"))
    page.goto(view.save(tmp_path / "diff.html").as_uri())
    page.wait_for_selector(".tsr-view[data-ready] .tsr-d-row")
    return page


def status(page: Page) -> str:
    return page.inner_text(".tsr-view [role=status]")


def test_signs_labels_and_keys(shown: Page, watch: Watch) -> None:
    assert shown.inner_text(".tsr-d-kinds").split("\n") == ["~ 1 changed", "↕ 2 moved", "∧ 2 split"]
    expect(shown.locator(".tsr-d-label >> nth=0").first).to_contain_text(
        "tile after tile-mask-edges", use_inner_text=True
    )
    expect(shown.locator(".tsr-d-label >> nth=1").first).to_contain_text(
        "tile after tile-distribute-ranges", use_inner_text=True
    )
    shown.focus(".tsr-d-list")
    shown.keyboard.press("n")
    assert "func.func: attribute ranges added" in status(shown)
    expect(shown.locator(".tsr-d-place").first).to_have_text("1 of 5 changes", use_inner_text=True)
    shown.keyboard.press("n")
    assert "split, scf.for: scf.for became tessera.id" in status(shown)
    shown.keyboard.press("p")
    shown.keyboard.press("p")
    expect(shown.locator(".tsr-d-place").first).to_have_text("5 of 5 changes", use_inner_text=True)
    assert "moved from line" in status(shown)
    shown.wait_for_function("document.querySelectorAll('.tsr-d-join').length >= 3")
    assert watch.errors == []
    assert watch.requests == []


def test_next_and_previous_go_on_from_the_row_that_was_chosen(shown: Page) -> None:
    shown.focus(".tsr-d-list")
    shown.keyboard.press("n")
    shown.keyboard.press("End")
    shown.keyboard.press("n")
    expect(shown.locator(".tsr-d-place").first).to_have_text("1 of 5 changes", use_inner_text=True)
    shown.keyboard.press("End")
    shown.keyboard.press("p")
    expect(shown.locator(".tsr-d-place").first).to_have_text("5 of 5 changes", use_inner_text=True)
    shown.keyboard.press("Home")
    shown.keyboard.press("n")
    expect(shown.locator(".tsr-d-place").first).to_have_text(re.compile(r"[12] of 5 changes"), use_inner_text=True)


def test_joins_reach_all_rows_where_a_notebook_sizes_pictures(shown: Page) -> None:
    shown.add_style_tag(content=".jp-RenderedHTMLCommon svg { max-width: 100%; height: auto; }")
    shown.evaluate("document.body.classList.add('jp-RenderedHTMLCommon')")
    rows = shown.locator(".tsr-d-space").evaluate("space => space.clientHeight")
    assert rows > 150  # which is what a picture without a height has
    assert shown.locator(".tsr-d-joins").evaluate("joins => joins.clientHeight") == rows


def test_figures_have_units(page: Page, tmp_path: Path) -> None:
    given = kernels.arguments()
    view = diff(
        kernels.product.compile(*given, target="cpu"), kernels.product.variant(BK=64).compile(*given, target="cpu")
    )
    code = next(each for each in view.data.figures if each.name == "code")
    page.goto(view.save(tmp_path / "diff.html").as_uri())
    expect(page.locator(".tsr-d-figure", has_text="code")).to_contain_text(
        f"{code.before:,.0f} → {code.after:,.0f} bytes"
    )


def test_kinds_are_filtered_and_listed(shown: Page) -> None:
    shown.click("text=∧ 2 split")
    assert shown.inner_text(".tsr-d-place").endswith("of 3 changes")
    expect(shown.locator("button.tsr-d-entry")).to_have_count(0)
    shown.click("text=list")
    expect(shown.locator("button.tsr-d-entry")).to_have_count(3)
    shown.click("button.tsr-d-entry >> nth=2")
    assert "moved" in status(shown)
    shown.click("text=∧ 2 split")
    shown.click("role=button[name='attributes']")
    assert shown.inner_text(".tsr-d-place").endswith("of 4 changes")


def test_one_column(shown: Page) -> None:
    shown.focus(".tsr-d-list")
    shown.keyboard.press("u")
    expect(shown.locator(".tsr-d-unified")).to_have_count(1)
    cells = shown.locator(".tsr-d-row").first.locator(".tsr-d-cell")
    expect(cells).to_have_count(1)
    signs = shown.locator(".tsr-d-sign").all_inner_texts()
    assert signs[:2] == ["~-", "~+"]  # both texts of what was changed


def test_lines_say_what_they_became(shown: Page) -> None:
    expect(shown.locator(".tsr-d-count")).to_have_count(0)
    shown.click("role=button[name='instructions']")
    counts = shown.eval_on_selector_all(".tsr-d-count", "cells => cells.map(cell => cell.textContent)")
    assert sum(int(count.split()[0]) for count in counts if count) > 0


def test_another_pass_is_chosen(shown: Page) -> None:
    shown.select_option("select >> nth=1", label="tile · tile-simplify")
    shown.wait_for_function("document.querySelector('.tsr-d-label').textContent.includes('pack-floats')")
    expect(shown.locator(".tsr-d-label >> nth=1").first).to_contain_text(
        "tile after tile-simplify", use_inner_text=True
    )
    expect(shown.locator("select >> nth=0 >> option[disabled]").first).to_be_attached()


def test_a_selection_elsewhere_is_marked(shown: Page) -> None:
    group = shown.evaluate("JSON.parse(document.querySelector('.tsr-data').textContent).group")
    line = shown.evaluate(
        "group => { const bus = globalThis.__tessera_v1.lib.busOf(group);"
        "bus.select({ ops: [9999], label: 'nothing' }, {}); }",
        group,
    )
    assert line is None
    assert status(shown) == "nothing: no counterpart here"


@pytest.mark.parametrize(("other", "words", "shade"), [
    (kernels.scale_and_add, "results: wrong after", "tsr-d-bad"),
    (kernels.scale.variant(), "results: as expected, same bits", "tsr-d-good"),
], ids=["wrong", "right"])  # fmt: skip
def test_the_head_says_whether_results_are_right(
    page: Page, tmp_path: Path, other: Kernel, words: str, shade: str
) -> None:
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    kernels.scale(x, y)
    view = diff(kernels.scale, other, args=(x, np.zeros_like(y)), expect=y)
    page.goto(view.save(tmp_path / "diff.html").as_uri())
    pill = page.locator(".tsr-head .tsr-pill", has_text="results")
    expect(pill).to_have_text(words)
    expect(pill).to_have_class(re.compile(shade))
    alert = page.locator("[role=alert]")
    if shade == "tsr-d-bad":
        expect(alert).to_contain_text("after: y: 64 of 64 are not as expected, the first is y[0] = ")
    else:
        expect(alert).to_have_count(0)
