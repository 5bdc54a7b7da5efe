"""Weights are computed again from scores and log-sum-exps: the graph that comes out, and what it computes."""

import numpy as np
import pytest

from support.gradients import causal_attention, drawn, graph_of, reals, softmax
from tessera.core.base.dtypes import f64
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, Literal, apply
from tessera.core.graph.graph import Graph, Node, Value
from tessera.core.graph.infer import numbers
from tessera.core.graph.verify import verify
from tessera.lowering.autodiff.reverse import vjp
from tessera.lowering.graph.simplify import simplify
from tessera.lowering.schedule.recompute import RULE, Recomputed, recompute_weights
from tessera.runtime.interpret.graph import evaluate

Q, K, V = reals(10, 4), reals(12, 4), reals(12, 3)


def attention(b: GraphBuilder, q: Value, k: Value, v: Value) -> Value:
    weights = softmax(b, b.contract(q, k, ((0, 2), (1, 2)), (0, 1)))
    return b.contract(weights, v, ((0, 1), (1, 2)), (0, 2))


def attention_without_maximum(b: GraphBuilder, q: Value, k: Value, v: Value) -> Value:
    weights = b.unary("exp", b.contract(q, k, ((0, 2), (1, 2)), (0, 1)))
    quotient = apply("div", Argument(0, f64), Argument(1, f64))
    weights = b.map(quotient, (weights, b.reduce(weights, (1,))), ((0, 1), (0,)), weights.type.shape)
    return b.contract(weights, v, ((0, 1), (1, 2)), (0, 2))


def by_hand(b: GraphBuilder, q: Value, k: Value, v: Value, do: Value) -> tuple[Value, ...]:
    """The gradients as people write them: P * dP - P * rowsum(P * dP)."""
    p = softmax(b, b.contract(q, k, ((0, 2), (1, 2)), (0, 1)))
    out = b.contract(p, v, ((0, 1), (1, 2)), (0, 2))
    dp = b.contract(do, v, ((0, 2), (1, 2)), (0, 1))
    product = b.binary("mul", p, dp)
    x, y, z = (Argument(number, f64) for number in range(3))
    rows = b.reduce(product, (1,))
    ds = b.map(apply("sub", x, apply("mul", y, z)), (product, p, rows), ((0, 1), (0, 1), (0,)), p.type.shape)
    return (
        out,
        b.contract(ds, k, ((0, 1), (1, 2)), (0, 2)),
        b.contract(ds, q, ((0, 1), (0, 2)), (1, 2)),
        b.contract(p, do, ((0, 1), (0, 2)), (1, 2)),
    )


def recomputed(graph: Graph) -> Recomputed:
    """Return the graph rewritten, which computes what it did."""
    made = recompute_weights(graph)
    assert made is not None
    verify(made.graph)
    arrays = drawn(graph)
    for one, other in zip(evaluate(made.graph, arrays), evaluate(graph, arrays), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-12)
    return made


def wide(graph: Graph, *, rows: int = 10, columns: int = 12) -> list[Node]:
    return [node for node in graph.nodes if node.results[0].type.shape[-2:] == (rows, columns) and node.op != "view"]


@pytest.mark.parametrize("make", [attention, attention_without_maximum])
def test_gradients_of_attention_need_two_numbers_a_row(make: object):
    graph = simplify(vjp(graph_of(make, Q, K, V), (0, 1, 2)))  # pyright: ignore[reportArgumentType] - a builder
    made = recomputed(graph)
    new = [node for node in made.graph.nodes if node.origin.rule == RULE]
    # The log-sum-exp; delta's products and their sum; the weights and their gradients.
    assert sorted((node.op, node.result.type.shape) for node in new) == [
        ("map", (10,)), ("map", (10, 3)), ("map", (10, 12)), ("map", (10, 12)), ("reduce", (10,)),
    ]  # fmt: skip
    assert {node.ident for node in wide(made.graph)} >= made.again


def test_gradients_written_by_hand_are_the_same():
    made = recomputed(simplify(graph_of(by_hand, Q, K, V, reals(10, 3))))
    sums = [node for node in made.graph.nodes if node.op == "reduce" and node.attributes["kind"] == "sum"]
    assert [numbers(node.attributes["axes"]) for node in sums] == [(1,), (1,)]
    assert any(node.operands[0].type.shape == (10, 3) for node in sums), "rowsum(dO O)"


def test_masks_of_rows_without_elements():
    types = (reals(2, 9, 4), reals(2, 9, 4), reals(2, 9, 3))
    made = recomputed(simplify(vjp(graph_of(causal_attention, *types), (0, 1, 2))))
    assert {node.op for node in made.graph.nodes if node.ident in made.again} == {"contract", "map"}


def test_what_attention_returns_needs_nothing_again():
    assert recompute_weights(simplify(graph_of(attention, Q, K, V))) is None
    assert recompute_weights(simplify(graph_of(softmax, reals(4, 5)))) is None


def test_exponentials_that_are_summed_alone_are_left_alone():
    """Weights times their total: what is divided later, or never."""

    def make(b: GraphBuilder, q: Value, k: Value, v: Value, shift: Value) -> tuple[Value, ...]:
        scores = b.contract(q, k, ((0, 2), (1, 2)), (0, 1))
        body = apply("exp", apply("sub", Argument(0, f64), Argument(1, f64)))
        e = b.map(body, (scores, shift), ((0, 1), (0,)), scores.type.shape)
        return b.reduce(e, (1,)), b.contract(e, v, ((0, 1), (1, 2)), (0, 2))

    assert recompute_weights(simplify(graph_of(make, Q, K, V, reals(10)))) is None


def test_weights_beside_other_things_are_left_alone():
    """Probabilities less a target, as cross entropy has them, are no multiple of weights."""

    def make(b: GraphBuilder, x: Value, w: Value, target: Value) -> Value:
        weights = softmax(b, b.contract(x, w, ((0, 2), (1, 2)), (0, 1)))
        return b.contract(b.binary("sub", weights, target), x, ((0, 1), (0, 2)), (1, 2))

    assert recompute_weights(simplify(graph_of(make, Q, K, reals(10, 12)))) is None


def test_scaled_weights_on_the_way_to_another_product():
    """Weights times a mask of their own, as dropout has: they are no output of attention, but a multiple."""

    def make(b: GraphBuilder, q: Value, k: Value, v: Value, kept: Value) -> Value:
        weights = softmax(b, b.contract(q, k, ((0, 2), (1, 2)), (0, 1)))
        body = apply("mul", apply("mul", Argument(0, f64), Argument(1, f64)), Literal(2.0, f64))
        return b.contract(b.elementwise(body, [weights, kept]), v, ((0, 1), (1, 2)), (0, 2))

    graph = graph_of(make, Q, K, V, reals(10, 12))
    assert recompute_weights(simplify(graph)) is None, "one loop has them all"
    recomputed(simplify(vjp(graph, (0, 1, 2))))


def test_products_that_are_compared_keep_their_bits():
    """The gradient of a maximum counts the scores that equal it: scores computed again may equal it nowhere."""

    def make(b: GraphBuilder, q: Value, k: Value, v: Value) -> tuple[Value, ...]:
        scores = b.contract(q, k, ((0, 2), (1, 2)), (0, 1))
        return b.contract(softmax(b, scores), v, ((0, 1), (1, 2)), (0, 2)), b.reduce(scores, (1,), "max")

    assert recompute_weights(simplify(vjp(graph_of(make, Q, K, V), (0, 1, 2)))) is None
