"""Right adjoints pass, wrong ones are named where they stand."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from support.gradients import drawn, graph_of, layernorm, logsumexp, matmul, mean, reals, softmax
from tessera.core.base.dtypes import bf16, f32
from tessera.core.base.source import Source, Span
from tessera.core.errors.catalog import WrongAdjoint
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Graph, Origin, Value
from tessera.lowering.autodiff.check import Numbers, check_adjoint
from tessera.lowering.autodiff.composites import Adjoint
from tessera.lowering.autodiff.reverse import grad, vjp
from tessera.runtime.interpret.graph import evaluate

SPAN = Span("<cell>", 2, 5, 2, 18)
SOURCE = Source("<cell>", "def f(x, w):\n    op.softmax(x)\n")


def network(name: str = "softmax.1", operator: Callable[[GraphBuilder, Value], Value] = softmax) -> Graph:
    """Return mean(tanh(softmax(x @ w))), the softmax a composite with a place in the text."""

    def make(b: GraphBuilder, x: Value, w: Value) -> Value:
        s = matmul(b, x, w)
        with b.within(Origin("", (), ("block", name)), SPAN):
            p = operator(b, s)
        return mean(b, b.unary("tanh", p))

    return replace(graph_of(make, reals(4, 3), reals(3, 5)), source=SOURCE)


def softmax_adjoint(
    b: GraphBuilder, inputs: Sequence[Value], outputs: Sequence[Value], cotangents: Sequence[Value]
) -> list[Value | None]:
    """Return P (dP - rowsum(P dP))."""
    (p,), (dp,) = outputs, cotangents
    rows = b.reduce(b.binary("mul", p, dp), (len(p.type.shape) - 1,))
    return [b.binary("mul", p, b.binary("sub", dp, b.reshape(rows, (*rows.type.shape, 1))))]


def forgetful(b: GraphBuilder, inputs: Sequence[Value], outputs: Sequence[Value], cotangents: Sequence[Value]):
    return [b.scaled(value, 2.0) for value in softmax_adjoint(b, inputs, outputs, cotangents) if value]


def squared(b: GraphBuilder, inputs: Sequence[Value], outputs: Sequence[Value], cotangents: Sequence[Value]):
    """Depend on the cotangent's square."""
    return softmax_adjoint(b, inputs, outputs, [b.binary("mul", cotangents[0], cotangents[0])])


def misshapen(b: GraphBuilder, inputs: Sequence[Value], outputs: Sequence[Value], cotangents: Sequence[Value]):
    return [b.reduce(cotangents[0], (0,))]


def test_derived_adjoints_pass():
    for make, *types in (
        (layernorm, reals(3, 6), reals(6), reals(6)), (logsumexp, reals(3, 5)), (softmax, reals(2, 3)),
    ):  # fmt: skip
        graph = graph_of(make, *types)
        report = check_adjoint(graph, drawn(graph), evaluate)
        assert sorted(report.errors) == list(range(len(types)))
        assert max(report.errors.values()) < 1e-7
        assert report.nonlinearity < 1e-12


def test_short_floats_are_checked_in_f64():
    def make(b: GraphBuilder, x: Value) -> Value:
        return b.cast(b.unary("exp", b.cast(x, f32)), bf16)

    graph = graph_of(make, (bf16, (5,)))
    assert check_adjoint(graph, drawn(graph), evaluate).errors[0] < 1e-8


def test_an_override_is_checked_and_used():
    graph = network()
    check_adjoint(graph, drawn(graph), evaluate, {"softmax": softmax_adjoint})
    derived = vjp(graph, (0, 1))
    overridden = vjp(graph, (0, 1), {"softmax": softmax_adjoint})
    assert len(overridden.nodes) < len(derived.nodes)
    given = [*drawn(graph), np.array(0.7)]
    for a, b in zip(evaluate(derived, given), evaluate(overridden, given), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-15)


def test_an_overridden_adjoint_is_differentiated_itself():
    graph = network()
    second = [grad(_summed(grad(graph, (0,), rules)), (0,)) for rules in ({}, {"softmax": softmax_adjoint})]
    one, two = (evaluate(each, drawn(graph))[0] for each in second)
    np.testing.assert_allclose(one, two, rtol=1e-10, atol=1e-14)


def _summed(graph: Graph) -> Graph:
    builder = GraphBuilder(graph.next_ident)
    builder.nodes.extend(graph.nodes)
    (out,) = graph.outputs
    total = builder.reduce(builder.binary("mul", out, out), range(len(out.type.shape)))
    return builder.finish("summed", graph.inputs, [total])


@pytest.mark.parametrize(
    ("adjoint", "message"),
    [
        (forgetful, "the adjoint of softmax differs from finite differences by"),
        (squared, "the adjoint of softmax is not linear in the cotangent"),
        (misshapen, r"the adjoint of softmax returns f64\[5\] for inputs f64\[4, 5\]"),
    ],
)
def test_wrong_adjoints_are_named_where_they_stand(adjoint: Adjoint, message: str):
    graph = network()
    with pytest.raises(WrongAdjoint, match=message) as caught:
        check_adjoint(graph, drawn(graph), evaluate, {"softmax": adjoint})
    assert str(caught.value).splitlines()[2:4] == ["   2 |     op.softmax(x)", "     |     ^^^^^^^^^^^^^"]


def test_a_kink_is_no_mistake_and_hides_none():
    """At 0 differences see half of the derivative that is chosen; the last element has no kink, and a wrong one."""

    def kink(b: GraphBuilder, x: Value) -> Value:
        with b.within(None, SPAN):
            return b.binary("max", x, b.full(0.0, x.type.dtype, x.type.shape))

    graph = replace(graph_of(lambda b, x: kink(b, b.scaled(x, 2.0)), reals(3)), source=SOURCE)
    assert check_adjoint(graph, [np.zeros(3)], evaluate).within(1e-7)

    def off(part: Graph, arrays: Sequence[Numbers]) -> list[Numbers]:
        results = [np.array(each) for each in evaluate(part, arrays)]
        if len(results) > 1:  # a derivative
            results[-1][-1] *= 1.001
        return results

    with pytest.raises(WrongAdjoint, match="differs from finite differences") as caught:
        check_adjoint(graph, [np.array([0.0, 0.0, 1.0])], off)
    assert caught.value.source is not None
