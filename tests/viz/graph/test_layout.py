"""Layouts: nothing overlaps, edges keep their ends, and what is in two steps keeps its place."""

import random
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessera.viz.graph import dot
from tessera.viz.graph.layout import ALL, GRAPHVIZ, LAYERED, MAIN, Layout, lay_out, lift
from tessera.viz.graph.model import COMPUTE, CONSTANT, Edge, Graph, GraphStep, Node, Region
from tessera.viz.graph.placing import Rows

ENGINES = [LAYERED, *([GRAPHVIZ] if dot.is_installed() else [])]


@st.composite
def graphs(draw: st.DrawFn, most: int = 24) -> Graph:
    """A random graph: nested regions, edges forward and some back, some constants."""
    places = [""]
    regions: list[Region] = []
    for number in range(draw(st.integers(0, 4))):
        regions.append(Region(f"r{number}", f"for i{number}", draw(st.sampled_from(places))))
        places.append(f"r{number}")
    count = draw(st.integers(1, most))
    nodes = tuple(
        Node(f"n{i}", "x" * draw(st.integers(1, 20)), region=draw(st.sampled_from(places)),
             style=CONSTANT if draw(st.integers(0, 4)) == 0 else COMPUTE)
        for i in range(count)
    )  # fmt: skip
    pairs = draw(st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=2 * count))
    return Graph(nodes, tuple(Edge(f"n{a}", f"n{b}") for a, b in dict.fromkeys(pairs) if a != b), tuple(regions))


def boxes_of(layout: Layout, rows: Rows) -> list[list[tuple[float, float]]]:
    """Left and right of each box of each row."""
    sizes = {key: box.width / 2 for key, box in layout.boxes.items()}
    return [
        [(slot.x - sizes[slot.id], slot.x + sizes[slot.id]) for slot in row if slot.id in sizes and not slot.to]
        for row in rows
    ]


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=30, deadline=None)
@given(graph=graphs())
def test_boxes_of_a_row_do_not_overlap_and_everything_is_there_once(engine: str, graph: Graph):
    layout = lay_out([GraphStep("", graph)], engine)
    assert layout.engine == engine
    for variant, places in layout.variants.items():
        seen: list[str] = []
        for epochs in places.values():
            (epoch,) = epochs
            for row in boxes_of(layout, epoch.rows):
                assert all(right < left for (_, right), (left, _) in pairwise(row)), row
                assert all(left >= -0.2 and right <= epoch.width + 0.2 for left, right in row)
            seen += [slot.id for row in epoch.rows for slot in row if not slot.to]
        shown = [node.id for node in graph.nodes if variant == ALL or node.style == COMPUTE]
        assert sorted(seen) == sorted([*shown, *(region.id for region in graph.regions)])


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=30, deadline=None)
@given(graph=graphs())
def test_edges_without_cycles_go_down(engine: str, graph: Graph):
    forward = tuple(edge for edge in graph.edges if int(edge.source[1:]) < int(edge.target[1:]))
    flat = Graph(tuple(Node(node.id, node.label) for node in graph.nodes), forward)
    (epoch,) = lay_out([GraphStep("", flat)], engine).variants[MAIN][""]
    rows = {slot.id: number for number, row in enumerate(epoch.rows) for slot in row if not slot.to}
    assert all(rows[edge.source] < rows[edge.target] for edge in forward)


def positions(layout: Layout, step: int, place: str = "") -> dict[str, tuple[int, float]]:
    """Row and x of everything in a region."""
    epoch = [epoch for epoch in layout.variants[MAIN][place] if epoch.first <= step][-1]
    return {slot.id: (number, slot.x) for number, row in enumerate(epoch.rows) for slot in row if not slot.to}


@pytest.mark.parametrize("engine", ENGINES)
@settings(max_examples=25, deadline=None)
@given(graph=graphs(), seed=st.integers(0, 999))
def test_what_stays_keeps_its_place_and_its_size(engine: str, graph: Graph, seed: int):
    chance = random.Random(seed)
    kept = {node.id for node in graph.nodes if chance.random() < 0.75}
    nodes = tuple(node for node in graph.nodes if node.id in kept)
    # One node in four is replaced by another that takes its inputs.
    gone = [node for node in graph.nodes if node.id not in kept]
    new = tuple(Node(f"m{node.id}", node.label + "!", region=node.region) for node in gone)
    edges = tuple(
        Edge(edge.source if edge.source in kept else f"m{edge.source}", edge.target if edge.target in kept else f"m{edge.target}")
        for edge in graph.edges
    )  # fmt: skip
    later = Graph((*nodes, *new), edges, graph.regions)
    layout = lay_out([GraphStep("a", graph), GraphStep("b", later)], engine)
    for place, epochs in layout.variants[MAIN].items():
        old, new_here = (
            {node.id for node in each.nodes if node.region == place and node.style == COMPUTE}
            for each in (graph, later)
        )
        same = len(old & new_here) >= 0.5 * max(len(old), len(new_here))
        inner = any(region.parent == place for region in graph.regions)
        if old or inner:
            assert len(epochs) == (1 if same else 2)
        if same and (old or inner):
            before, after = positions(layout, 0, place), positions(layout, 1, place)
            assert before == after
            assert before.keys() >= old | new_here


def test_a_new_layout_begins_where_regions_come_and_go():
    before = Graph((Node("a", "a", region="r"), Node("b", "b")), (Edge("a", "b"),), (Region("r", "for"),))
    after = Graph((Node("a", "a"), Node("b", "b")), (Edge("a", "b"),))
    layout = lay_out([GraphStep("1", before), GraphStep("2", before), GraphStep("3", after)], LAYERED)
    assert [epoch.first for epoch in layout.variants[MAIN][""]] == [0, 2]


def test_what_stands_alone_fills_rows():
    graph = Graph(tuple(Node(f"n{i}", "op") for i in range(100)), ())
    (epoch,) = lay_out([GraphStep("", graph)], LAYERED).variants[MAIN][""]
    assert 5 <= len(epoch.rows) <= 20
    assert epoch.width < 2000


def test_an_edge_is_lifted_to_where_its_ends_stand_side_by_side():
    inside = {"a": "r", "b": "s", "r": "", "s": "r", "c": ""}
    assert lift("a", "b", inside) == ("r", "a", "s")
    assert lift("a", "c", inside) == ("", "r", "c")
    assert lift("r", "a", inside) is None
    assert lift("a", "nowhere", inside) is None


def test_without_dot_the_layered_layout_stands_in(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dot.shutil, "which", lambda _: None)
    assert lay_out([GraphStep("", Graph((Node("a", "a"),), ()))]).engine == LAYERED


def test_a_dot_that_fails_is_said_and_replaced(monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object, **__: object) -> None:
        raise OSError("no dot")

    monkeypatch.setattr(dot.subprocess, "run", fail)
    graph = Graph((Node("a", "a"), Node("b", "b")), (Edge("a", "b"),))
    assert lay_out([GraphStep("", graph)], GRAPHVIZ).engine == LAYERED
