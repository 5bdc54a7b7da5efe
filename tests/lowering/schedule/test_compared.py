"""What a product is compared with decides whether it may be computed again."""

import pytest

from support.gradients import graph_of, reals
from tessera.core.base.dtypes import f64
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, Expr, Literal, apply
from tessera.core.graph.graph import Value
from tessera.lowering.schedule.compared import is_compared

SCORE, ROW = Argument(0, f64), Argument(1, f64)


@pytest.mark.parametrize(
    ("condition", "compared"),
    [
        (apply("cmp", SCORE, ROW, predicate="eq"), True),
        (apply("cmp", apply("mul", SCORE, Literal(2.0, f64)), ROW, predicate="ge"), True),
        (apply("cmp", SCORE, Literal(0.0, f64), predicate="gt"), False),
        (apply("cmp", ROW, ROW, predicate="eq"), False),
    ],
)
def test_products_compared_with_numbers_that_are_computed(condition: Expr, compared: bool):
    def make(b: GraphBuilder, q: Value, k: Value) -> tuple[Value, ...]:
        scores = b.unary("neg", b.contract(q, k, ((0, 2), (1, 2)), (0, 1)))
        largest = b.reduce(scores, (1,), "max")
        body = apply("select", condition, Literal(1.0, f64), Literal(0.0, f64))
        ties = b.map(body, (scores, largest), ((0, 1), (0,)), (5, 6))
        return b.unary("exp", scores), b.reduce(ties, (1,))

    graph = graph_of(make, reals(5, 3), reals(6, 3))
    assert is_compared(graph, graph.outputs[0], (5, 6)) == compared


def test_only_products_of_that_shape_count():
    def make(b: GraphBuilder, x: Value, y: Value) -> tuple[Value, ...]:
        body = apply("select", apply("cmp", SCORE, ROW, predicate="eq"), Literal(1.0, f64), Literal(0.0, f64))
        return b.unary("exp", x), b.map(body, (x, y), ((0, 1), (0, 1)), (5, 6))

    graph = graph_of(make, reals(5, 6), reals(5, 6))
    assert not is_compared(graph, graph.outputs[0], (5, 6)), "inputs have the same bits wherever they are read"
