"""Maxima that cancel are found, others are not."""

import math
from collections.abc import Callable

import numpy as np
import pytest

from support.gradients import causal_attention, check, graph_of, logsumexp, reals, softmax
from tessera.core.base.dtypes import boolean, f64
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, Literal, apply
from tessera.core.graph.graph import Graph, Value
from tessera.lowering.autodiff.reverse import grad
from tessera.lowering.autodiff.shifts import ShiftAnalysis
from tessera.runtime.interpret.graph import evaluate

X = Argument(0, f64)


def maxima_cancel(graph: Graph) -> list[bool]:
    analysis = ShiftAnalysis(graph)
    return [
        analysis.cancels(node.result)
        for node in graph.nodes
        if node.op == "reduce" and node.attributes["kind"] == "max"
    ]


def shifted(b: GraphBuilder, x: Value) -> tuple[Value, Value]:
    m = b.reduce(x, (1,), "max")
    return m, b.binary("sub", x, b.reshape(m, (m.type.shape[0], 1)))


def softmax_in_base_2(b: GraphBuilder, x: Value) -> Value:
    _, d = shifted(b, x)
    e = b.unary("exp2", b.scaled(d, 1 / math.log(2)))
    return b.map(apply("div", X, Argument(1, f64)), (e, b.reduce(e, (1,))), ((0, 1), (0,)), x.type.shape)


def logsumexp_in_base_2(b: GraphBuilder, x: Value) -> Value:
    m, d = shifted(b, x)
    total = b.reduce(b.unary("exp2", b.scaled(d, 1 / math.log(2))), (1,))
    return b.binary("add", m, b.scaled(b.unary("log2", total), math.log(2)))


def guarded_softmax(b: GraphBuilder, x: Value) -> Value:
    """Shift by 0 where the maximum is -inf, and by where's result in a node of its own."""
    m = b.reduce(x, (1,), "max")
    empty = b.elementwise(apply("cmp", X, Literal(-math.inf, f64), predicate="eq"), [m])
    safe = b.elementwise(apply("select", Argument(0, boolean), Literal(0.0, f64), Argument(1, f64)), [empty, m])
    e = b.unary("exp", b.binary("sub", x, b.reshape(safe, (3, 1))))
    return b.binary("div", e, b.reshape(b.reduce(e, (1,)), (3, 1)))


def masked_after(b: GraphBuilder, x: Value) -> Value:
    """Zero some of the exponentials after the shift."""
    _, d = shifted(b, x)
    body = apply(
        "select", apply("cmp", Argument(1, f64), Literal(0.5, f64), predicate="lt"), apply("exp", X), Literal(0.0, f64)
    )
    e = b.elementwise(body, [d, x])
    return b.binary("div", e, b.reshape(b.reduce(e, (1,)), (3, 1)))


def weighted_mean(b: GraphBuilder, x: Value) -> Value:
    """Sum of exponentials times values over the sum of exponentials, through a contraction."""
    _, d = shifted(b, x)
    e = b.unary("exp", d)
    o = b.contract(e, x, ((0, 1), (2, 1)), (0, 2))
    return b.map(apply("div", X, Argument(1, f64)), (o, b.reduce(e, (1,))), ((0, 1), (0,)), o.type.shape)


def cosine(b: GraphBuilder, x: Value) -> Value:
    """Cancels a factor exp(m) in a norm: e / sqrt(sum(e * e))."""
    _, d = shifted(b, x)
    e = b.unary("exp", d)
    norm = b.unary("rsqrt", b.reduce(b.binary("mul", e, e), (1,)))
    return b.map(apply("mul", X, Argument(1, f64)), (e, norm), ((0, 1), (0,)), x.type.shape)


CANCEL = [
    softmax,
    logsumexp,
    softmax_in_base_2,
    logsumexp_in_base_2,
    guarded_softmax,
    masked_after,
    weighted_mean,
    cosine,
]


@pytest.mark.parametrize("make", CANCEL)
def test_shifts_that_cancel(make: Callable[[GraphBuilder, Value], Value]):
    graph = graph_of(make, reals(3, 5))
    assert maxima_cancel(graph) == [True]
    check(graph)


def test_attention():
    assert maxima_cancel(graph_of(causal_attention, *[reals(2, 4, 3)] * 3)) == [True]


def plain(b: GraphBuilder, x: Value) -> Value:
    return b.reduce(x, (1,), "max")


def unnormalised(b: GraphBuilder, x: Value) -> Value:
    return b.unary("exp", shifted(b, x)[1])


def of_another_axis(b: GraphBuilder, x: Value) -> Value:
    """The sum runs over the axis that the maximum has."""
    e = b.unary("exp", shifted(b, x)[1])
    return b.binary("div", e, b.reduce(e, (0,)))


def offset(b: GraphBuilder, x: Value) -> Value:
    """A number beside the sum, which is not scaled."""
    e = b.unary("exp", shifted(b, x)[1])
    one = b.elementwise(apply("add", X, Literal(1.0, f64)), [b.reduce(e, (1,))])
    return b.binary("div", e, b.reshape(one, (3, 1)))


def returned(b: GraphBuilder, x: Value) -> tuple[Value, Value]:
    return softmax(b, x), b.reduce(x, (1,), "max")


def half(b: GraphBuilder, x: Value) -> Value:
    """Logarithm with the wrong factor."""
    m, d = shifted(b, x)
    return b.binary("add", m, b.scaled(b.unary("log", b.reduce(b.unary("exp", d), (1,))), 0.5))


@pytest.mark.parametrize("make", [plain, unnormalised, of_another_axis, offset, half])
def test_shifts_that_do_not_cancel(make: Callable[[GraphBuilder, Value], Value]):
    graph = graph_of(make, reals(3, 5))
    assert maxima_cancel(graph) == [False]
    check(graph)


def test_a_maximum_that_is_returned_has_a_derivative():
    graph = graph_of(returned, reals(3, 5))
    assert maxima_cancel(graph) == [True, False]
    check(graph)


def test_ties_share_evenly():
    graph = graph_of(lambda b, x: b.reduce(plain(b, x), (0,)), reals(2, 4))
    (found,) = evaluate(grad(graph, (0,)), [np.array([[1.0, 3, 3, 0], [2, 2, 2, 2]])])
    np.testing.assert_array_equal(found, [[0, 0.5, 0.5, 0], [0.25] * 4])


def guarded(b: GraphBuilder, x: Value, *, summand: bool) -> tuple[Value, Value]:
    """Return a softmax whose divisor is 1 where it is 0, and its maximum; or what else is divided by it."""
    top = b.reduce(x, (1,), "max")
    weights = b.map(apply("exp", apply("sub", X, Argument(1, f64))), (x, top), ((0, 1), (0,)), x.type.shape)
    total = b.reshape(b.reduce(weights, (1,)), (x.type.shape[0], 1))
    empty = b.elementwise(apply("cmp", X, Literal(0.0, f64), predicate="eq"), [total])
    choice = apply("select", Argument(0, boolean), Literal(1.0, f64), Argument(1, f64))
    divisor = b.reshape(b.elementwise(choice, [empty, total]), (x.type.shape[0],))
    above = weights if summand else b.binary("add", weights, weights)
    quotient = apply("div", X, Argument(1, f64))
    return b.map(quotient, (above, divisor), ((0, 1), (0,)), x.type.shape), top


@pytest.mark.parametrize("summand", [True, False])
def test_a_divisor_that_is_replaced_where_it_is_zero(summand: bool):
    """What is divided is 0 there, if it is what the divisor is the sum of; of other things nothing is known."""
    graph = graph_of(lambda b, x: guarded(b, x, summand=summand)[0], reals(4, 5))
    assert maxima_cancel(graph) == [summand]
    check(graph)


def test_a_guarded_divisor_used_for_something_else_depends():
    def make(b: GraphBuilder, x: Value) -> tuple[Value, ...]:
        made, _ = guarded(b, x, summand=True)
        divisor = next(node.operands[1] for node in b.nodes if node.result is made)
        return made, b.unary("log", divisor)

    assert maxima_cancel(graph_of(make, reals(4, 5))) == [False]
