"""The IR explorer alone in a page: what a click marks, keys, search, passes, themes."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Literal, Protocol

import pytest
from playwright.sync_api import Browser, Page, expect

from support.compilations import saxpy_artifact, saxpy_compilation
from support.lab import Watch
from tessera.core.artifact import Artifact
from tessera.core.listing import Line, Listing
from tessera.profiling.line_shares import LineShares
from tessera.viz.ir.details import PaneDetails
from tessera.viz.ir.explorer_model import ExplorerModel, explorer_model
from tessera.viz.ir.explorer_view import Explorer
from tessera.viz.ir.measured_shares import instruction_column
from tessera.viz.ir.panes import Pane, ViewLine

pytestmark = pytest.mark.browser

SOURCE, LEVEL = ".tsr-src", ".tsr-text:not(.tsr-src)"
Scheme = Literal["light", "dark"]


class Show(Protocol):
    """Open a page that holds nothing but the viewer."""

    def __call__(self, *opened: str, scheme: Scheme = "light") -> Page: ...


@pytest.fixture
def view() -> ExplorerModel:
    compilation = saxpy_compilation()
    return explorer_model(compilation.artifact, compilation.listings, compilation.passes)


@pytest.fixture
def artifact() -> Artifact:
    return saxpy_artifact()


@pytest.fixture
def show(page: Page, tmp_path: Path, view: ExplorerModel) -> Show:
    def show(*opened: str, scheme: Scheme = "light") -> Page:
        page.emulate_media(color_scheme=scheme)
        open_page(page, Explorer(view, opened), tmp_path)
        return page

    return show


def open_page(page: Page, explorer: Explorer, folder: Path, fragment: str = "") -> None:
    path = explorer.save(folder / "page.html")
    page.goto(path.as_uri() + fragment)
    page.wait_for_selector(".tsr-view[data-ready]")


def marked(page: Page, pane: str) -> list[int]:
    """0-based numbers of the marked lines of a pane."""
    return page.eval_on_selector_all(f"{pane} .tsr-on", "rows => rows.map(row => Number(row.dataset.i))")


def test_every_click_marks_what_the_view_model_says(show: Show, view: ExplorerModel, watch: Watch) -> None:
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


def test_side_by_side_marks_all_levels_at_once(show: Show, view: ExplorerModel) -> None:
    page = show("tile", "asm")
    expect(page.locator(LEVEL)).to_have_count(2)
    page.click("[data-pick=target]")
    page.click(f'{SOURCE} [data-i="4"]')
    texts = page.query_selector_all(LEVEL)
    assert [len(text.query_selector_all(".tsr-on")) for text in texts] == [5, 3, 3]
    labels = [text.get_attribute("aria-label") or "" for text in texts]
    assert [label[:4] for label in labels] == ["Tile", "Targ", "mach"]


def test_a_clicked_line_shows_the_exact_expression_it_came_from(show: Show) -> None:
    page = show()
    page.click(f'{LEVEL} [data-i="5"]')
    expect(page.locator(".tsr-exact").first).to_have_text("alpha * x[i]", use_inner_text=True)
    expect(page.locator(".tsr-foot").first).to_contain_text(
        "operation 6: born in tile/build, seen down to target, together with 1 more", use_inner_text=True
    )
    page.click('[role=tab][data-level="target"]')
    page.click(f'{LEVEL} [data-i="1"]')
    expect(page.locator(".tsr-foot").first).to_contain_text("no source line: the compiler's own", use_inner_text=True)
    assert page.query_selector(".tsr-exact") is None


def test_every_type_has_the_colour_of_types(page: Page, tmp_path: Path, view: ExplorerModel) -> None:
    types = ["f64", "f32", "f16", "bf16", "tf32", "f8E4M3FN", "f8E5M2", "i64", "i8", "i1", "index"]
    names = ["f32", "bf16", "tf32", "fp8_e4m3", "fp8_e5m2", "u8", "i64", "bool"]
    pane = Pane("tile", "", (ViewLine(f"%0 = tessera.cast %1 : {', '.join(types)}"),))
    source = (f"y = cast(x, {', '.join(names)})",)
    view = replace(view, panes=(pane,), source=source, stories={}, lives={}, details=(PaneDetails(),))
    open_page(page, Explorer(view), tmp_path)
    for where, wanted in ((LEVEL, types), (SOURCE, names)):
        assert page.locator(f"{where} .tsr-t").all_text_contents() == wanted


def test_a_long_listing_opens_quickly_and_scrolls_to_the_counterpart(page: Page, tmp_path: Path, watch: Watch) -> None:
    compilation = saxpy_compilation()
    line = compilation.listings[-1].lines[2]
    lines = tuple(Line(f"nop {i}") for i in range(9000))
    listing = Listing("asm", "", (*lines, line, *lines[:1000]))
    view = explorer_model(compilation.artifact, (*compilation.listings[:-1], listing))
    open_page(page, Explorer(view, ("asm",)), tmp_path)
    page.click(f'{SOURCE} [data-i="4"]')
    assert marked(page, LEVEL) == [9000]
    page.wait_for_function("document.querySelector('.tsr-text:not(.tsr-src)').scrollTop > 100000")
    expect(page.locator(f'{LEVEL} [data-i="9000"]')).to_be_visible()
    assert watch.errors == []


def test_the_whole_viewer_works_from_the_keyboard(show: Show) -> None:
    page = show()
    page.focus(SOURCE)
    for key in ("ArrowDown", "ArrowDown", "j", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    assert marked(page, SOURCE) == [4]
    page.focus('[role=tab][tabindex="0"]')
    page.keyboard.press("ArrowRight")
    assert page.inner_text('[role=tab][aria-selected="true"]').startswith("target")
    assert page.evaluate("document.activeElement.dataset.level") == "target"
    page.keyboard.press("End")
    assert page.inner_text('[role=tab][aria-selected="true"]').startswith("asm")
    page.focus(LEVEL)
    page.keyboard.press("n")
    active = "document.getElementById(document.activeElement.getAttribute('aria-activedescendant')).dataset.i"
    assert page.evaluate(f"Number({active})") == 1
    page.keyboard.press("Escape")
    assert marked(page, LEVEL) == []
    expect(page.locator(".tsr-view").first).to_have_attribute("data-selected", "")


def test_a_pass_shows_what_it_changed(show: Show) -> None:
    page = show()
    assert page.query_selector(".tsr-gone") is None
    page.click('[data-pane="1"]')
    # Not `inner_text`: rows that are new have none until the next frame, as they stand in `content-visibility: auto`.
    assert (page.text_content(".tsr-gone .tsr-code") or "").strip() == '%1 = tessera.dim {symbol = "n"} : i64'
    page.keyboard.press("ArrowRight")
    signs = page.eval_on_selector_all(f"{LEVEL} .tsr-sign", "all => all.map(e => e.textContent).join('')")
    assert sorted(signs) == ["+", "~", "−"]
    page.click("text=± changes on")
    assert page.query_selector(".tsr-gone") is None


def test_search_counts_in_every_level_and_goes_to_the_hits(show: Show) -> None:
    page = show()
    page.fill("input[type=search]", "MASK")
    counts = page.eval_on_selector_all("[role=tab] .tsr-count", "all => all.map(e => e.textContent)")
    assert counts == ["0", "3", "0"]
    page.click('[role=tab][data-level="target"]')
    assert page.eval_on_selector_all(f"{LEVEL} .tsr-hit", "rows => rows.length") == 3


def test_enter_goes_to_the_next_hit_in_the_first_pane_that_has_one(show: Show) -> None:
    page = show("tile", "target")
    page.click(f'{SOURCE} [data-i="1"]')  # what is marked is no hit
    page.fill("input[type=search]", "MASK")
    hits = page.eval_on_selector_all(f"{LEVEL} .tsr-hit", "rows => rows.map(row => row.dataset.i)")
    target = page.locator(LEVEL).nth(1)
    for hit in (*hits, hits[0]):
        page.press("input[type=search]", "Enter")
        expect(target.locator(".tsr-current")).to_have_attribute("data-i", hit)


def test_panes_side_by_side_share_the_width_of_a_notebook(page: Page, tmp_path: Path, with_ptx: ExplorerModel) -> None:
    page.set_viewport_size({"width": 1040, "height": 900})
    open_page(page, Explorer(with_ptx, ("tile", "ptx")), tmp_path)
    body = page.locator(".tsr-body")
    assert body.evaluate("body => body.scrollWidth <= body.clientWidth")
    page.set_viewport_size({"width": 600, "height": 900})
    assert body.evaluate("body => body.scrollWidth > body.clientWidth")  # readable, and scrolled


def test_copy_gives_the_text_of_the_level(show: Show, view: ExplorerModel, browser: Browser) -> None:
    page = show()
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text }")
    page.click("text=copy")
    assert page.evaluate("window.copied") == view.panes[2].text


def test_copy_gives_the_text_of_the_pane_that_a_line_was_chosen_in(show: Show, view: ExplorerModel) -> None:
    page = show("tile", "asm")
    page.evaluate("navigator.clipboard.writeText = async (text) => { window.copied = text }")
    for number, level in ((1, "asm"), (0, "tile")):
        page.locator(LEVEL).nth(number).locator('[data-i="1"]').click()
        page.click("text=cop")
        assert page.evaluate("window.copied") == view.stages(level)[-1].text


def test_the_hottest_instruction_is_one_press_away(page: Page, tmp_path: Path, view: ExplorerModel) -> None:
    (number,) = (number for number, pane in enumerate(view.panes) if pane.level == "asm")
    lines = tuple(line.text for line in view.panes[number].lines)
    counts = [0] * len(lines)
    counts[1], counts[2] = 25, 75
    column = instruction_column(view.panes[number], LineShares({}, 1.0, 100, {}, lines, tuple(counts)))
    assert column is not None
    details = list(view.details)
    details[number] = replace(details[number], columns=(column,))
    open_page(page, Explorer(replace(view, details=tuple(details)), ("asm",)), tmp_path)
    for line, share in ((2, "75.0%"), (1, "25.0%"), (2, "75.0%")):
        page.click("button:has-text('hottest')")
        current = page.locator(f'{LEVEL} [data-i="{line}"]')
        expect(current).to_contain_text(share)
        expect(current).to_have_class(re.compile(r"\btsr-me\b"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_either_theme(show: Show, scheme: Scheme) -> None:
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


GPU_PTX = """\
.version 8.4
\t.loc\t1 7 3
$L__BB0_1:
\tadd.s32 \t%r1, %r1, -1;
\t@%p1 bra \t$L__BB0_1;
\tret;""".splitlines()


@pytest.fixture
def with_ptx() -> ExplorerModel:
    compilation = saxpy_compilation()
    ops = [(), (), (), (6,), (6,), (9,)]
    lines = tuple(Line(text, (), numbers) for text, numbers in zip(GPU_PTX, ops, strict=True))
    listings = (*compilation.listings[:-1], Listing("ptx", "", lines))
    return explorer_model(compilation.artifact, listings, compilation.passes)


def shown_lines(page: Page, pane: str = LEVEL) -> list[int]:
    return page.eval_on_selector_all(f"{pane} [data-i]", "rows => rows.map(row => Number(row.dataset.i))")


def test_the_filter_hides_directives_and_says_how_many(page: Page, tmp_path: Path, with_ptx: ExplorerModel) -> None:
    open_page(page, Explorer(with_ptx, ("ptx",)), tmp_path)
    assert shown_lines(page) == [2, 3, 4, 5]
    expect(page.locator(".tsr-hides").first).to_have_text(
        "2 lines of directives and comments hidden", use_inner_text=True
    )
    page.click("[data-toggle=filter]")
    assert shown_lines(page) == [0, 1, 2, 3, 4, 5]


def test_blocks_fold_by_key_and_say_what_they_hide(page: Page, tmp_path: Path, with_ptx: ExplorerModel) -> None:
    open_page(page, Explorer(with_ptx, ("ptx",)), tmp_path)
    page.click(f'{SOURCE} [data-i="4"]')
    page.focus(LEVEL)
    page.keyboard.press("Home")
    page.keyboard.press("ArrowLeft")
    assert shown_lines(page) == [2]
    expect(page.locator(f"{LEVEL} .tsr-more").first).to_contain_text("3 lines, 3 marked", use_inner_text=True)
    page.keyboard.press("n")  # goes to the next mark, which unfolds it
    assert shown_lines(page) == [2, 3, 4, 5]


def test_a_jump_has_an_arrow_and_words(page: Page, tmp_path: Path, with_ptx: ExplorerModel) -> None:
    open_page(page, Explorer(with_ptx, ("ptx",)), tmp_path)
    expect(page.locator(f"{LEVEL} .tsr-g-branch svg")).to_have_count(3)
    page.click(f'{LEVEL} [data-i="4"]')
    expect(page.locator(".tsr-info").first).to_contain_text("jumps to line 3", use_inner_text=True)
    assert page.inner_text(".tsr-info b").startswith("bra")
    page.click(f'{LEVEL} [data-i="2"]')
    expect(page.locator(".tsr-info").first).to_contain_text("reached from line 5", use_inner_text=True)


def test_an_operation_is_explained_under_the_pointer(show: Show) -> None:
    page = show()
    page.hover(f'{LEVEL} [data-i="5"] .tsr-k')
    expect(page.locator(".tsr-doc").first).to_have_text("arith.mulf floating-point product", use_inner_text=True)
    page.hover(".tsr-foot")
    assert not page.is_visible(".tsr-doc")


def test_panes_resize_by_key_and_pointer_and_can_be_hidden(show: Show) -> None:
    page = show("tile", "asm")
    split = page.locator("[role=separator]").first
    width = "document.querySelector('.tsr-left').getBoundingClientRect().width"
    before = page.evaluate(width)
    split.focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate(width) == pytest.approx(before + 32, abs=1)
    expect(split).to_have_attribute("aria-valuenow", str(round(before + 32)))
    box = split.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 3, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] - 57, box["y"] + 40)
    page.mouse.up()
    assert page.evaluate(width) == pytest.approx(before - 28, abs=2)
    page.click("[data-pick=source]")
    expect(page.locator(SOURCE)).to_have_count(0)


def test_a_level_stands_beside_itself_after_another_pass(show: Show) -> None:
    page = show()
    page.click("[data-another=tile]")
    expect(page.locator(LEVEL)).to_have_count(2)
    names = page.eval_on_selector_all(".tsr-pane[data-name]", "all => all.map(e => e.dataset.name)")
    assert names == ["tile/tile-simplify", "tile/tile-mask-edges"]
    page.click('section[data-name="tile/tile-simplify"] [data-pane="0"]')
    names = page.eval_on_selector_all(".tsr-pane[data-name]", "all => all.map(e => e.dataset.name)")
    assert names == ["tile/build", "tile/tile-mask-edges"]


def test_passes_show_their_times(show: Show) -> None:
    page = show()
    expect(page.locator('[data-pane="1"] .tsr-ms').first).to_have_text("1.0 ms", use_inner_text=True)
    assert (
        page.get_attribute('[data-pane="1"]', "title")
        == "tile-simplify: lines: 0 new, 0 changed or moved, 1 gone; 1.0 ms"
    )


def test_a_link_selects_its_line_in_a_saved_page(page: Page, tmp_path: Path, view: ExplorerModel) -> None:
    page.add_init_script("navigator.clipboard.writeText = async (text) => { window.copied = text }")
    open_page(page, Explorer(view), tmp_path)
    page.click('[role=tab][data-level="target"]')
    page.click(f'{LEVEL} [data-i="4"]')
    page.click("text=link")
    link = page.evaluate("window.copied")
    assert link.endswith("#tsr=saxpy%2Ftarget%2Ffinal%3A5")
    page.goto("about:blank")
    page.goto(link)
    page.wait_for_selector(".tsr-view[data-ready]")
    expect(page.locator('[role=tab][aria-selected="true"]').first).to_have_attribute("data-level", "target")
    assert 4 in marked(page, LEVEL)
    expect(page.locator(".tsr-view").first).to_have_attribute("data-selected", "7")


def test_a_line_leads_to_the_pass_that_made_or_removed_it(page: Page, tmp_path: Path, artifact: Artifact) -> None:
    old, new = Line("old", (), (1,), "1"), Line("new", (), (1,), "1.1")
    listings = [Listing("tile", "a", (old,)), Listing("tile", "b", (old,)), Listing("tile", "c", (new,))]
    open_page(page, Explorer(explorer_model(artifact, listings)), tmp_path)
    page.click(f'{LEVEL} [data-i="0"]')
    expect(page.locator("[data-jump=made]").first).to_have_text("made by c ↗", use_inner_text=True)
    page.click('[data-pane="0"]')
    page.click(f'{LEVEL} [data-i="0"]')
    page.click("[data-jump=removed]")
    expect(page.locator('[role=radio][aria-checked="true"]').first).to_have_attribute("data-pane", "2")
    expect(page.locator(".tsr-gone .tsr-code").first).to_have_text("old", use_inner_text=True)


def test_long_lines_wrap_and_nothing_is_cut(page: Page, tmp_path: Path, artifact: Artifact) -> None:
    text = "%0 = tessera.fill " + ", ".join(f"%argument_{n}" for n in range(60))
    lines = (Line(text), Line("end"))
    open_page(page, Explorer(explorer_model(artifact, [Listing("tile", "", lines)])), tmp_path)
    overflow = (
        "(({scrollWidth, clientWidth}) => scrollWidth - clientWidth)(document.querySelector('.tsr-text:not(.tsr-src)'))"
    )
    assert page.evaluate(overflow) > 100
    page.click("[data-toggle=wrap]")
    page.wait_for_function(f"{overflow} <= 0")
    first, second = (page.locator(f'{LEVEL} [data-i="{i}"]').bounding_box() for i in (0, 1))
    assert first is not None
    assert second is not None
    assert first["height"] > 18
    code = page.locator(f'{LEVEL} [data-i="0"] .tsr-code').bounding_box()
    assert code is not None
    assert code["height"] <= first["height"] + 1
    assert second["y"] == pytest.approx(first["y"] + first["height"], abs=1)


def test_a_very_long_text_has_few_elements(page: Page, tmp_path: Path, artifact: Artifact, watch: Watch) -> None:
    lines = tuple(Line(f"nop {i}") for i in range(200_000))
    open_page(page, Explorer(explorer_model(artifact, [Listing("asm", "", lines)])), tmp_path)
    page.focus(LEVEL)
    page.keyboard.press("End")
    page.wait_for_selector(f'{LEVEL} [data-i="199999"]')
    assert page.locator(f"{LEVEL} .tsr-row").count() < 120
    assert watch.errors == []
