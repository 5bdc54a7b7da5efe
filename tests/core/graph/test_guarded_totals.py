"""Totals that are replaced where they are 0 are recognised, and nothing else."""

import pytest

from tessera.core.base.dtypes import boolean, f32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, Expr, Literal, apply
from tessera.core.graph.graph import Graph, Tensor, Value
from tessera.core.graph.guarded_totals import guarded_total, source_of
from tessera.core.graph.index_maps import window

X = Argument(0, f32)
ZERO, ONE = Literal(0.0, f32), Literal(1.0, f32)
EMPTY = apply("cmp", X, ZERO, predicate="eq")


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (apply("select", EMPTY, ONE, X), True),
        (apply("select", EMPTY, ZERO, X), False),
        (apply("select", apply("cmp", X, ZERO, predicate="lt"), ONE, X), False),
        (apply("select", apply("cmp", X, ONE, predicate="eq"), ONE, X), False),
        (apply("select", EMPTY, X, X), False),
        (apply("max", X, ONE), False),
    ],
)
def test_one_map(body: Expr, found: bool):
    build = GraphBuilder()
    total = Value(Tensor(f32, (4,)))
    build.elementwise(body, [total])
    assert guarded_total(build.nodes[-1], {}) is (total if found else None)


@pytest.mark.parametrize("same", [True, False])
def test_the_condition_is_a_value_in_another_shape(same: bool):
    build = GraphBuilder()
    total, other = Value(Tensor(f32, (4,))), Value(Tensor(f32, (4,)))
    tested = build.reshape(total if same else other, (4, 1))
    condition = build.reshape(build.elementwise(EMPTY, [tested]), (4,))
    body = apply("select", Argument(0, boolean), ONE, Argument(1, f32))
    made = build.elementwise(body, [condition, total])
    graph = Graph("guard", (total, other), tuple(build.nodes), (made,))
    assert guarded_total(graph.nodes[-1], graph.producers) is (total if same else None)


def test_other_elements_are_another_value():
    build = GraphBuilder()
    total = Value(Tensor(f32, (4,)))
    flipped = build.view(total, window((4,), (3,), (-1,), (4,)))
    graph = Graph("flip", (total,), tuple(build.nodes), (flipped,))
    assert source_of(flipped, graph.producers) is flipped
