"""What a selection guards is differentiated together with it."""

import numpy as np

from support.gradients import check, graph_of, reals
from tessera.core.base.dtypes import boolean, f64
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, Literal, apply, to_text
from tessera.core.graph.graph import Graph, Value
from tessera.core.graph.index_maps import window
from tessera.lowering.autodiff.guards import joined
from tessera.lowering.autodiff.reverse import vjp
from tessera.runtime.interpret.graph import evaluate

ZERO = Literal(0.0, f64)
WHERE = apply("select", Argument(0, boolean), Argument(1, f64), ZERO)


def positive(b: GraphBuilder, x: Value) -> Value:
    return b.elementwise(apply("cmp", Argument(0, f64), ZERO, predicate="gt"), [x])


def where(b: GraphBuilder, condition: Value, value: Value) -> Value:
    return b.elementwise(WHERE, [condition, value])


def of_last(graph: Graph) -> str:
    return to_text(joined(graph.nodes[-1], graph.producers).body)


def test_a_chain_is_joined_up_to_where_nothing_is_unbounded():
    graph = graph_of(lambda b, x: where(b, positive(b, x), b.scaled(b.unary("log", b.scaled(x, 2.0)), 3.0)), reals(4))
    assert of_last(graph) == "select(x0, (3.0 * log(x3)), 0.0)"


def test_harmless_operands_stay_operands():
    graph = graph_of(lambda b, x: where(b, positive(b, x), b.scaled(x, 3.0)), reals(4))
    assert of_last(graph) == "select(x0, x1, 0.0)"
    divided = apply("div", Argument(0, f64), Literal(8.0, f64))
    graph = graph_of(lambda b, x: where(b, positive(b, x), b.elementwise(divided, [x])), reals(4))
    assert of_last(graph) == "select(x0, x1, 0.0)"


def test_what_is_not_selected_stays_an_operand():
    def make(b: GraphBuilder, x: Value) -> Value:
        body = apply("mul", apply("select", Argument(0, boolean), Argument(1, f64), ZERO), Argument(2, f64))
        return b.elementwise(body, [positive(b, x), x, b.unary("exp", x)])

    assert of_last(graph_of(make, reals(4))) == "(select(x0, x1, 0.0) * x2)"


def test_axes_follow_and_values_are_known():
    def make(b: GraphBuilder, x: Value, y: Value) -> Value:
        root = b.unary("sqrt", y)
        return b.map(WHERE, (positive(b, x), root), ((1, 0), (0,)), (4, 3))

    graph = graph_of(make, reals(3, 4), reals(4))
    whole = joined(graph.nodes[-1], graph.producers)
    assert to_text(whole.body) == "select(x0, sqrt(x2), 0.0)"
    assert whole.operands[2] is graph.inputs[1]
    assert whole.axes[2] == (0,)
    assert [(to_text(e), v, axes) for e, v, axes in whole.values] == [
        ("select(x0, sqrt(x2), 0.0)", graph.outputs[0], (0, 1)), ("sqrt(x2)", graph.nodes[0].result, (0,)),
    ]  # fmt: skip


def test_joined_maps_have_the_right_derivative():
    def make(b: GraphBuilder, x: Value, y: Value) -> Value:
        inner = b.binary("div", b.unary("exp", x), b.binary("mul", y, y))
        return b.binary("mul", where(b, positive(b, x), b.unary("log", inner)), inner)

    check(graph_of(make, reals(3, 4), reals(3, 4)))


def _safe_normalisation(b: GraphBuilder, x: Value) -> Value:
    """Return x / |x| by rows, 0 where the norm is: the norm, kept as a column, is repeated."""
    norm = b.reshape(b.unary("sqrt", b.reduce(b.binary("mul", x, x), (1,))), (x.type.shape[0], 1))
    wide = b.broadcast(norm, (0, 1), x.type.shape)
    return where(b, positive(b, wide), b.binary("div", x, norm))


def test_guards_reach_through_views():
    graph = graph_of(_safe_normalisation, reals(3, 4))
    assert of_last(graph) == "select(x0, (x2 / sqrt(x4)), 0.0)"
    check(graph)
    x = np.array([[0.0, 0, 0, 0], [1, 2, 3, 4], [0, 0, 0, 5]])
    found = evaluate(vjp(graph, (0,)), [x, np.ones((3, 4))])[1]
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found[0], np.zeros(4))


def test_slices_are_not_joined():
    def make(b: GraphBuilder, x: Value) -> Value:
        y = b.view(b.unary("sqrt", x), window((6,), (1,), (1,), (4,)))
        return where(b, positive(b, y), y)

    graph = graph_of(make, reals(6))
    assert of_last(graph) == "select(x0, x1, 0.0)"
    check(graph, [np.arange(1.0, 7.0)])
