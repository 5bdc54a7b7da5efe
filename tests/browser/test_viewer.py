"""The IR viewer alone in a page: what a click marks, keys, search, passes, themes."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from support.compilations import saxpy_compilation
from tessera.core.listing import Line, Listing
from tessera.viz.ir_html import ir_html
from tessera.viz.ir_view import IrView, Pane, ViewLine, ir_view

pytestmark = pytest.mark.browser

SOURCE, LEVEL = ".tsr-src", ".tsr-text:not(.tsr-src)"


@pytest.fixture
def view() -> IrView:
    compilation = saxpy_compilation()
    return ir_view(compilation.artifact, compilation.listings)


@pytest.fixture
def show(page, tmp_path: Path, view: IrView) -> Callable[..., object]:
    """Open a page that holds nothing but the viewer."""

    def show(*opened: str, scheme: str = "light"):
        page.emulate_media(color_scheme=scheme)
        path = tmp_path / "page.html"
        path.write_text(f"<!doctype html><meta charset=utf-8>{ir_html(view, opened)}", encoding="utf-8")
        page.goto(path.as_uri())
        page.wait_for_selector(".tsr-ir[data-ready]")
        return page

    return show


def marked(page, pane: str) -> list[int]:
    """0-based numbers of the marked lines of a pane."""
    return page.eval_on_selector_all(f"{pane} .tsr-on", "rows => rows.map(row => Number(row.dataset.i))")


def test_every_click_marks_what_the_view_model_says(show, view: IrView, watch) -> None:
    page = show()
    shown = [len(view.panes) - 1 - [p.level for p in reversed(view.panes)].index(level) for level in view.levels]
    clicks = [(SOURCE, i, view.select_source(view.first_line + i)) for i in range(1, len(view.source))]
    for level, pane in zip(view.levels, shown, strict=True):
        page.click(f'[role=tab][data-level="{level}"]')
        for index in range(len(view.panes[pane].lines)):
            clicks_here = view.select_line(pane, index)
            page.click(f'{LEVEL} [data-i="{index}"]')
            assert marked(page, LEVEL) == list(view.counterparts(clicks_here)[pane])
            places = [line - view.first_line for line in view.source_counterparts(clicks_here)]
            assert marked(page, SOURCE) == places
            counts = page.eval_on_selector_all("[role=tab] .tsr-count", "all => all.map(e => Number(e.textContent))")
            assert counts == [len(view.counterparts(clicks_here)[i]) for i in shown]
        for where, index, selection in clicks:
            page.click(f'{where} [data-i="{index}"]')
            assert marked(page, LEVEL) == list(view.counterparts(selection)[pane])
    assert watch.errors == []
    assert watch.requests == []


def test_side_by_side_marks_all_levels_at_once(show, view: IrView) -> None:
    page = show("tile", "asm")
    assert page.locator(LEVEL).count() == 2
    page.click("[data-pick=target]")
    page.click(f'{SOURCE} [data-i="4"]')
    texts = page.query_selector_all(LEVEL)
    assert [len(text.query_selector_all(".tsr-on")) for text in texts] == [5, 3, 3]
    assert [text.get_attribute("aria-label")[:4] for text in texts] == ["Tile", "Targ", "mach"]


def test_a_clicked_line_shows_the_exact_expression_it_came_from(show) -> None:
    page = show()
    page.click(f'{LEVEL} [data-i="5"]')
    assert page.inner_text(".tsr-exact") == "alpha * x[i]"
    assert "operation 6: born in tile/build, seen down to target, together with 1 more" in page.inner_text(".tsr-foot")
    page.click('[role=tab][data-level="target"]')
    page.click(f'{LEVEL} [data-i="1"]')
    assert "no source line: the compiler's own" in page.inner_text(".tsr-foot")
    assert page.query_selector(".tsr-exact") is None


def test_every_type_has_the_colour_of_types(page, tmp_path: Path, view: IrView) -> None:
    types = ["f64", "f32", "f16", "bf16", "tf32", "f8E4M3FN", "f8E5M2", "i64", "i8", "i1", "index"]
    names = ["f32", "bf16", "tf32", "fp8_e4m3", "fp8_e5m2", "u8", "i64", "bool"]
    pane = Pane("tile", "", (ViewLine(f"%0 = tessera.cast %1 : {', '.join(types)}"),))
    view = replace(view, panes=(pane,), source=(f"y = cast(x, {', '.join(names)})",), stories={})
    path = tmp_path / "types.html"
    path.write_text(f"<!doctype html><meta charset=utf-8>{ir_html(view)}", encoding="utf-8")
    page.goto(path.as_uri())
    page.wait_for_selector(".tsr-ir[data-ready]")
    for where, wanted in ((LEVEL, types), (SOURCE, names)):
        assert page.locator(f"{where} .tsr-t").all_text_contents() == wanted


def test_a_long_listing_opens_quickly_and_scrolls_to_the_counterpart(page, tmp_path: Path, watch) -> None:
    compilation = saxpy_compilation()
    line = compilation.listings[-1].lines[2]
    lines = tuple(Line(f"nop {i}") for i in range(9000))
    listing = Listing("asm", "", (*lines, line, *lines[:1000]))
    view = ir_view(compilation.artifact, (*compilation.listings[:-1], listing))
    path = tmp_path / "long.html"
    path.write_text(f"<!doctype html><meta charset=utf-8>{ir_html(view, ['asm'])}", encoding="utf-8")
    page.goto(path.as_uri())
    page.wait_for_selector(".tsr-ir[data-ready]")
    page.click(f'{SOURCE} [data-i="4"]')
    assert marked(page, LEVEL) == [9000]
    page.wait_for_function("document.querySelector('.tsr-text:not(.tsr-src)').scrollTop > 100000")
    assert page.locator(f'{LEVEL} [data-i="9000"]').is_visible()
    assert watch.errors == []


def test_the_whole_viewer_works_from_the_keyboard(show) -> None:
    page = show()
    page.focus(f'{SOURCE} [tabindex="0"]')
    for key in ("ArrowDown", "ArrowDown", "j", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    assert marked(page, SOURCE) == [4]
    page.focus('[role=tab][tabindex="0"]')
    page.keyboard.press("ArrowRight")
    assert page.inner_text('[role=tab][aria-selected="true"]').startswith("target")
    assert page.evaluate("document.activeElement.dataset.level") == "target"
    page.keyboard.press("End")
    assert page.inner_text('[role=tab][aria-selected="true"]').startswith("asm")
    page.focus(f'{LEVEL} [tabindex="0"]')
    page.keyboard.press("n")
    assert page.evaluate("Number(document.activeElement.dataset.i)") == 1
    page.keyboard.press("Escape")
    assert marked(page, LEVEL) == []
    assert page.get_attribute(".tsr-ir", "data-selected") == ""


def test_a_pass_shows_what_it_changed(show) -> None:
    page = show()
    assert page.query_selector(".tsr-gone") is None
    page.click('[data-pane="1"]')
    assert page.inner_text(".tsr-gone .tsr-code").strip() == '%1 = tessera.dim {symbol = "n"} : i64'
    page.keyboard.press("ArrowRight")
    signs = page.eval_on_selector_all(f"{LEVEL} .tsr-sign", "all => all.map(e => e.textContent).join('')")
    assert sorted(signs) == ["+", "~", "−"]
    page.click("text=± changes on")
    assert page.query_selector(".tsr-gone") is None


def test_search_counts_in_every_level_and_goes_to_the_hits(show) -> None:
    page = show()
    page.fill("input[type=search]", "MASK")
    counts = page.eval_on_selector_all("[role=tab] .tsr-count", "all => all.map(e => e.textContent)")
    assert counts == ["0", "3", "0"]
    page.click('[role=tab][data-level="target"]')
    assert page.eval_on_selector_all(f"{LEVEL} .tsr-hit", "rows => rows.length") == 3


def test_copy_gives_the_text_of_the_level(show, view: IrView, browser) -> None:
    page = show()
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text }")
    page.click("text=copy")
    assert page.evaluate("window.copied") == view.panes[2].text


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_either_theme(show, scheme: str) -> None:
    page = show(scheme=scheme)
    page.click(f'{LEVEL} [data-i="5"]')
    # WCAG's contrast of every kind of text on what is behind it.
    worst = page.evaluate(
        """() => {
          const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
          const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
          const solid = (color) => { canvas.fillStyle = color; canvas.fillRect(0, 0, 1, 1); };
          const behind = (node) => {
            const layers = [];
            for (let at = node; at; at = at.parentElement) layers.unshift(getComputedStyle(at).backgroundColor);
            solid("white");
            layers.forEach(solid);
            return canvas.getImageData(0, 0, 1, 1).data;
          };
          const light = (c) => [0.2126, 0.7152, 0.0722].reduce((sum, w, i) => {
            const v = c[i] / 255;
            return sum + w * (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
          }, 0);
          let worst = [99, ""];
          for (const node of document.querySelectorAll(".tsr-row *, .tsr-tab, .tsr-stage, .tsr-foot *")) {
            if (!node.textContent.trim()) continue;
            const [a, b] = [light(rgb(getComputedStyle(node).color)), light(behind(node))].sort((x, y) => y - x);
            const contrast = (a + 0.05) / (b + 0.05);
            if (contrast < worst[0]) worst = [contrast, node.className + ": " + node.textContent];
          }
          return worst;
        }"""
    )
    assert worst[0] >= 4.5, worst
