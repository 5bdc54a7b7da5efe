"""Segments: where long graphs are cut, that equal ones are known, and how they become one graph again."""

import numpy as np

from support.gradients import graph_of
from support.graphs import normals
from tessera.core.base.dtypes import f32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Graph, Value
from tessera.core.graph.verify import verify
from tessera.lowering.graph.explain import explain
from tessera.lowering.graph.rewrite import rewrite
from tessera.lowering.graph.segments import LONGEST, SHORTEST, Joiner, segments
from tessera.runtime.interpret.graph import evaluate


def layer(b: GraphBuilder, x: Value, w: Value) -> Value:
    """Twenty maps, three products in the order that costs more, and the sum with what came in: 24 nodes."""
    y = x
    for _ in range(20):
        y = b.unary("sin", y)
    square = b.contract(w, w, ((0, 1), (2, 1)), (0, 2))
    wide = b.contract(y, b.contract(y, square, ((0, 1), (1, 2)), (0, 2)), ((0, 1), (1, 2)), (0, 2))
    return b.binary("add", x, wide)


def layers(count: int) -> Graph:
    def make(b: GraphBuilder, x: Value, *weights: Value) -> Value:
        for w in weights:
            x = layer(b, x, w)
        return x

    return graph_of(make, (f32, (64, 64)), *[(f32, (64, 2))] * count)  # type: ignore[arg-type]


def test_short_graphs_are_whole():
    built = layers(4)
    (part,) = segments(built)
    assert part.graph is built


def test_long_graphs_are_cut_where_least_is_alive():
    built = layers(12)
    parts = segments(built)
    assert [node for part in parts for node in part.graph.nodes] == list(built.nodes)
    assert all(SHORTEST <= len(part.graph.nodes) <= LONGEST for part in parts)
    for part in parts:
        verify(part.graph)
    assert all(len(part.graph.outputs) == 1 for part in parts)


def test_equal_segments_have_equal_keys():
    cut = [part.key for part in segments(layers(12))]
    assert len(set(cut)) < len(cut)
    other = segments(layers(11))
    assert other[0].key == cut[0]


def test_joined_unchanged_it_is_the_graph():
    built = layers(12)
    joiner = Joiner(built)
    for part in segments(built):
        joiner.add(part.graph, part.graph, part.graph)
    joined = joiner.finish()
    assert [node.ident for node in joined.nodes] == [node.ident for node in built.nodes]
    assert joined.outputs == built.outputs
    verify(joined)


def test_rewritten_segments_are_one_graph_with_histories():
    built = layers(12)
    made = rewrite(built, {"reassociate"})
    verify(made.graph)
    assert len({node.ident for node in made.graph.nodes}) == len(made.graph.nodes)
    assert made.rules == ("chain-order",)
    new = [node for node in made.graph.nodes if node.origin.rule]
    known = {node.ident for node in built.nodes}
    assert {node.ident for node in new}.isdisjoint(known)
    assert all(set(node.origin.parents) <= known for node in new)
    x = [value / 8 for value in normals([value.type for value in built.inputs])]
    for one, other in zip(evaluate(made.graph, x), evaluate(built, x), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_reports_of_long_graphs():
    built = layers(12)
    found, made = explain(built, {"reassociate"}), rewrite(built, {"reassociate"})
    assert (found.before, found.chosen.price, found.chosen.rules) == (made.before, made.after, made.rules)
