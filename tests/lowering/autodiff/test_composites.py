"""Composites as regions, with adjoints of their own."""

from collections.abc import Sequence

import numpy as np
import pytest

from support.gradients import drawn, graph_of, matmul, reals, softmax
from tessera.core.base.dtypes import f64
from tessera.core.errors.catalog import NotDifferentiable
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Graph, Node, Origin, Routine, Tensor, Value
from tessera.lowering.autodiff.composites import region_graph, regions_of
from tessera.lowering.autodiff.reverse import vjp
from tessera.runtime.interpret.graph import evaluate


def two_layers() -> Graph:
    def make(b: GraphBuilder, x: Value, w: Value) -> Value:
        for number in range(2):
            s = matmul(b, x, w)
            with b.within(Origin("", (), (f"block.{number}", f"softmax.{number}"))):
                x = softmax(b, s)
        return x

    return graph_of(make, reals(4, 3), reals(3, 3))


def test_each_instance_is_a_region():
    graph = two_layers()
    one, two = regions_of(graph, ("softmax",))
    assert (one.name, two.name) == ("softmax", "softmax")
    assert one.inputs == (graph.nodes[0].result,)
    assert len(one.outputs) == 1
    assert two.outputs == graph.outputs
    assert regions_of(graph, ("soft", "attention")) == []
    assert [region.nodes for region in regions_of(graph, ("block", "softmax"))] == [one.nodes, two.nodes]


def test_a_region_is_a_graph():
    graph = two_layers()
    alone = region_graph(graph, regions_of(graph, ("softmax",))[0])
    x = np.random.default_rng(0).normal(size=(4, 3))
    (found,) = evaluate(alone, [x])
    np.testing.assert_allclose(found, np.exp(x) / np.exp(x).sum(1, keepdims=True), rtol=1e-14)


def test_every_instance_is_overridden_with_its_own_inputs_outputs_and_cotangents():
    graph = two_layers()
    seen: list[tuple[Value, Value]] = []

    def adjoint(
        b: GraphBuilder, inputs: Sequence[Value], outputs: Sequence[Value], cotangents: Sequence[Value]
    ) -> list[Value]:
        seen.append((inputs[0], outputs[0]))
        return [b.scaled(cotangents[0], 3.0)]

    backward = vjp(graph, (0,), {"softmax": adjoint})
    regions = regions_of(graph, ("softmax",))
    assert seen == [(region.inputs[0], region.outputs[0]) for region in reversed(regions)]
    x, w = drawn(graph)
    g = np.random.default_rng(2).normal(size=(4, 3))
    np.testing.assert_allclose(evaluate(backward, [x, w, g])[1], 9 * g @ w.T @ w.T, rtol=1e-12)


def test_none_is_a_zero_cotangent():
    backward = vjp(two_layers(), (0, 1), {"softmax": lambda b, inputs, outputs, cotangents: [None]})
    x, w = drawn(two_layers())
    found = evaluate(backward, [x, w, np.ones((4, 3))])[1:]
    assert not any(each.any() for each in found)


def test_nodes_of_others_in_between_are_refused():
    def make(b: GraphBuilder, x: Value) -> Value:
        with b.within(Origin("", (), ("f",))):
            y = b.unary("sin", x)
        z = b.unary("exp", x)
        with b.within(Origin("", (), ("f",))):
            return b.binary("mul", b.unary("cos", y), z)

    graph = graph_of(make, reals(3))
    with pytest.raises(ValueError, match="the nodes of f in g do not lie together"):
        vjp(graph, (0,), {"f": lambda b, inputs, outputs, cotangents: cotangents})


def test_derived_nodes_are_no_instances():
    assert len(regions_of(vjp(two_layers(), (0,)), ("softmax",))) == 2


def test_what_has_no_derivative_may_have_an_adjoint():
    """Of a call, which is no graph: sorting, say."""
    x, y = Value(Tensor(f64, (3,)), "x"), Value(Tensor(f64, (3,)))
    node = Node("call", (x,), (y,), {}, Routine("sort"), 0, Origin("", (), ("sort.1",)))
    graph = Graph("g", (x,), (node,), (y,))
    with pytest.raises(NotDifferentiable, match="sort has no adjoint"):
        vjp(graph, (0,))
    backward = vjp(graph, (0,), {"sort": lambda b, inputs, outputs, cotangents: [b.scaled(cotangents[0], 2.0)]})
    assert [each.op for each in backward.nodes] == ["call", "map"]
