"""The graph view model: what a graph must be."""

import pytest

from tessera.viz.graph.model import Badge, Edge, Graph, GraphModel, GraphStep, Node, Region, graph_of


def test_a_graph_says_what_is_wrong_with_it():
    good = Graph((Node("a", "a"), Node("b", "b", region="r")), (Edge("a", "b"), Edge("a", "r")), (Region("r", "r"),))
    assert list(good.problems()) == []
    assert list(Graph((Node("a", "a"),), (Edge("a", "b"),)).problems()) == ["an edge ends at 'b', which is not there"]
    assert list(Graph((Node("a", "a"), Node("a", "b")), ()).problems()) == ["two nodes or regions have one identity"]
    assert list(Graph((Node("a", "a", region="r"),), ()).problems()) == [
        "something stands in the region 'r', which is not there"
    ]
    ring = (Region("r", "r", "s"), Region("s", "s", "r"))
    assert "the region 'r' stands in itself" in list(Graph((), (), ring).problems())


def test_a_model_refuses_graphs_that_are_none():
    with pytest.raises(ValueError, match="has 0 steps, and no step 0"):
        GraphModel("empty", ())
    with pytest.raises(ValueError, match="bad: an edge ends at 'b'"):
        GraphModel("bad", (GraphStep("", Graph((Node("a", "a"),), (Edge("a", "b"),))),))


def test_styles_are_those_that_can_be_drawn():
    wrong = Graph((Node("a", "a", style="matmul"),), (Edge("a", "a", style="dotted"),))
    problems = list(wrong.problems())
    assert problems[0].startswith("there is no style 'matmul' (styles: memory, load,")
    assert problems[1] == "there is no style 'dotted' (styles: data, carried, index, effect)"


def test_lists_are_taken_for_tuples():
    badge = Badge("fused", "softmax")
    tuples = Graph((Node("a", "a", badges=(badge,)),), (Edge("a", "a"),), (Region("r", "r", facts=(("n", "1"),)),))
    lists = Graph(
        [Node("a", "a", badges=[badge])],  # pyright: ignore[reportArgumentType] - what people write
        [Edge("a", "a")],  # pyright: ignore[reportArgumentType]
        [Region("r", "r", facts=[("n", "1")])],  # pyright: ignore[reportArgumentType]
    )
    assert lists == tuples
    assert hash(lists) == hash(tuples)
    assert GraphModel("m", [GraphStep("", lists)]).steps == (GraphStep("", tuples),)  # pyright: ignore[reportArgumentType]


def test_regions_that_nothing_stands_in_are_left_out():
    nodes = [Node("a", "a", region="inner")]
    regions = [Region("outer", "outer"), Region("inner", "inner", "outer"), Region("empty", "empty")]
    found = graph_of(nodes, [Edge("a", "a"), Edge("a", "a")], regions)
    assert [region.id for region in found.regions] == ["outer", "inner"]
    assert len(found.edges) == 1
