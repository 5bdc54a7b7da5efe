"""The graph view in a page: regions, passes, traces, keys, search, themes; and graphviz in the page of a live view."""

from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from support.lab import Lab, Watch
from support.product_programs import matrix_product
from tessera.core.program_records import records_of_program
from tessera.core.stage import stages_of
from tessera.core.targets import Target
from tessera.lowering.driver.compile import compile_program
from tessera.viz import graph_view
from tessera.viz.graph.decisions import LEGEND, Decisions
from tessera.viz.graph.model import Edge, Graph, GraphModel, Node
from tessera.viz.graph.view import GraphView, steps_of

pytestmark = pytest.mark.browser

STAGE = ".tsr-g-stage"


@pytest.fixture(scope="module")
def product() -> GraphView:
    """A product for Hopper, with every pass of Tile IR."""
    program = replace(matrix_product((128, 256, 64)), options={})
    found = compile_program(program, Target("cuda", "sm_90a"), observe=True)
    stages = [
        each
        for each in stages_of(records_of_program(program), found.listings, found.passes)
        if each.level == "tile" and each.name
    ]
    steps = steps_of([(each.name, each.records) for each in stages], Decisions(found.artifact.resources.buffers))
    return graph_view(GraphModel("product", steps, len(steps) - 1, "product", LEGEND))


@pytest.fixture
def shown(page: Page, tmp_path: Path, product: GraphView) -> Page:
    page.goto(product.save(tmp_path / "page.html").as_uri())
    page.wait_for_selector(".tsr-view[data-ready] .tsr-g-node")
    return page


def nodes(page: Page) -> dict[str, str]:
    """What is drawn: each identity with its place."""
    return page.eval_on_selector_all(
        "[data-node]", "all => Object.fromEntries(all.map(e => [e.dataset.node, e.style.transform]))"
    )


def test_regions_close_to_a_box_that_keeps_its_edges(shown: Page, watch: Watch) -> None:
    before = nodes(shown)
    assert {"12", "13", "14", "16", "11"} <= before.keys()
    shown.locator("[data-node='11'] .tsr-g-toggle").click()
    after = nodes(shown)
    assert not {"12", "13", "14"} & after.keys()
    assert "inside" in shown.locator("[data-node='11']").text_content()  # pyright: ignore[reportOperatorIssue]
    ends = shown.eval_on_selector_all(".tsr-g-wire[data-from]", "all => all.map(e => [e.dataset.from, e.dataset.to])")
    assert ["kernel^0.0", "11"] in ends
    assert ["11", "16"] in ends
    shown.keyboard.press("Escape")
    shown.locator(STAGE).focus()
    shown.locator("[data-node='11'] .tsr-g-toggle").click()
    assert nodes(shown).keys() == before.keys()
    assert watch.errors == []
    assert watch.requests == []


def test_operations_keep_their_places_from_pass_to_pass(shown: Page) -> None:
    last = nodes(shown)
    shown.locator(STAGE).focus()
    for _ in range(5):
        shown.keyboard.press("[")
    expect(shown.locator(".tsr-g-pass").first).to_contain_text("15 of 20", use_inner_text=True)
    earlier = nodes(shown)
    assert earlier == last
    assert shown.locator("[data-node='14'] .tsr-g-chip").count() < 5
    shown.locator("input[type=range]").fill("5")
    expect(shown.locator(".tsr-g-pass").first).to_contain_text("tile-distribute-ranges", use_inner_text=True)


def test_a_pass_marks_what_it_changed(shown: Page) -> None:
    shown.locator("input[type=range]").fill("9")
    expect(shown.locator(".tsr-g-pass").first).to_contain_text("cuda-select-mma", use_inner_text=True)
    assert shown.eval_on_selector_all(".tsr-g-node[data-change='changed']", "all => all.map(e => e.dataset.node)") == [
        "14"
    ]
    shown.get_by_role("button", name="changes").click()
    assert shown.locator("[data-node='14'] .tsr-g-change").is_hidden()


def test_a_trace_follows_producers_and_consumers(shown: Page) -> None:
    shown.locator("[data-node='14'] .tsr-g-box").first.click(position={"x": 4, "y": 4})
    expect(shown.locator(".tsr-g-panel").first).to_contain_text("WGMMA", use_inner_text=True)
    shown.locator(STAGE).focus()
    shown.keyboard.press("p")
    dim = shown.eval_on_selector_all(".tsr-g-node.tsr-g-dim", "all => all.map(e => e.dataset.node)")
    assert "16" in dim
    assert not {"12", "13", "kernel^0.0"} & set(dim)
    shown.keyboard.press("c")
    dim = shown.eval_on_selector_all(".tsr-g-node.tsr-g-dim", "all => all.map(e => e.dataset.node)")
    assert "12" in dim
    assert "16" not in dim
    expect(shown.locator(".tsr-g-status").first).to_contain_text("traced", use_inner_text=True)


def test_the_keyboard_goes_everywhere(shown: Page) -> None:
    shown.locator(STAGE).focus()
    shown.keyboard.press("Home")
    for key in ("ArrowDown", "ArrowDown", "ArrowDown"):
        shown.keyboard.press(key)
    chosen = shown.get_attribute(".tsr-g-chosen", "data-node")
    assert chosen not in (None, "")
    assert shown.get_attribute(STAGE, "aria-activedescendant") == shown.get_attribute(".tsr-g-chosen", "id")
    shown.keyboard.press("/")
    shown.keyboard.type("wgmma")
    shown.keyboard.press("Enter")
    expect(shown.locator(".tsr-g-chosen").first).to_have_attribute("data-node", "14")
    shown.locator(STAGE).focus()
    shown.keyboard.press("-")
    assert "14" not in nodes(shown)
    shown.keyboard.press("+")
    assert "14" in nodes(shown)
    shown.keyboard.press("Escape")
    expect(shown.locator(".tsr-g-chosen")).to_have_count(0)


def test_index_arithmetic_unfolds(shown: Page) -> None:
    before = nodes(shown)
    fold = shown.locator(".tsr-g-fold")
    expect(fold).to_contain_text("index operations", use_inner_text=True)
    fold.click()
    assert len(nodes(shown)) > len(before)


def test_every_operation_is_in_the_table(shown: Page, product: GraphView) -> None:
    shown.click("summary:has-text('as a table')")
    expect(shown.locator(".tsr-g-scroll tbody tr")).to_have_count(len(product.shown.graph.nodes))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_both_themes(shown: Page, scheme: str) -> None:
    shown.emulate_media(color_scheme=scheme)  # pyright: ignore[reportArgumentType]
    shown.wait_for_function(
        f"document.querySelector('.tsr-view').classList.contains('tsr-dark') === {str(scheme == 'dark').lower()}"
    )
    box, ink = shown.eval_on_selector(
        "[data-node='14']",
        """e => [getComputedStyle(e.querySelector('rect')).fill,
      getComputedStyle(e.querySelector('text.tsr-g-label')).fill]""",
    )
    assert box != ink


def test_two_thousand_operations_can_be_moved(page: Page, tmp_path: Path, watch: Watch) -> None:
    ops = tuple(Node(f"n{i}", f"op {i}") for i in range(2000))
    edges = tuple(Edge(f"n{i // 2}", f"n{i}") for i in range(1, 2000))
    page.goto(graph_view(Graph(ops, edges), title="large").save(tmp_path / "large.html").as_uri())
    page.wait_for_selector(".tsr-view[data-ready] .tsr-g-node")
    drawn = page.locator(".tsr-g-node").count()
    assert 0 < drawn < 1000
    page.locator(STAGE).focus()
    page.keyboard.press("f")
    page.keyboard.press("1")
    page.keyboard.press("/")
    page.keyboard.type("op 1999")
    page.keyboard.press("Enter")
    expect(page.locator("[data-node=n1999]")).to_be_visible()
    assert watch.errors == []


WITHOUT_DOT = """
from tessera.viz import graph_view
from tessera.viz.graph import dot
from tessera.viz.graph.model import Edge, Graph, Node
dot.shutil = type("Nowhere", (), {"which": staticmethod(lambda name: None)})
view = graph_view(Graph(tuple(Node(c, c) for c in "abcd"), (Edge("a", "b"), Edge("a", "c"), Edge("b", "d"))))
"""


def test_a_live_view_without_dot_lays_out_in_the_page(lab: Lab, page: Page, watch: Watch) -> None:
    lab.run_cells(page, "graph", WITHOUT_DOT, "view.widget()")
    page.wait_for_function(
        "[...document.querySelectorAll('.tsr-g-legend')].some(e => e.textContent.includes('graphviz, in the page'))"
    )
    assert watch.errors == []
    assert watch.requests == []
