"""Adjoints of loops and branches: what is kept of each trip, how often bodies run, and values against differences."""

# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportArgumentType=false, reportUnknownVariableType=false, reportUnknownParameterType=false

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from support.operators import Array
from tessera import op
from tessera.core.errors.catalog import NotDifferentiable
from tessera.core.graph.graph import Graph, Node, Tensor
from tessera.core.graph.verify import verify
from tessera.graphs.function import GraphFunction
from tessera.lowering.autodiff.check import check_adjoint
from tessera.lowering.autodiff.reverse import vjp
from tessera.lowering.graph.prune_bodies import prune_bodies
from tessera.runtime.interpret.graph import evaluate

RNG = np.random.default_rng(2)
W, H, XS = RNG.normal(size=(3, 3)) / 2, RNG.normal(size=3), RNG.normal(size=(4, 3))


def captured(function: Callable[..., Any], *arrays: Array) -> Graph:
    return GraphFunction(function).graph_for(*arrays).graph


def loops(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if node.op == "loop"]


def rnn(recompute: bool, reverse: bool = False) -> Callable[..., Any]:
    def function(w: Array, h: Array, xs: Array) -> Array:
        def step(c: Array, x: Array) -> Array:
            hidden = op.exp(c @ w) * 0.1 + x
            return op.tanh(hidden @ w), hidden

        return op.scan(step, h, xs, recompute=recompute, reverse=reverse)

    return function


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
def test_two_loops_one_each_way(recompute: bool, reverse: bool):
    graph = captured(rnn(recompute, reverse), W, H, XS)
    made = prune_bodies(vjp(graph, [0, 1, 2]))
    verify(made)
    forward, backward = loops(made)
    assert forward.attributes["reverse"] == reverse
    assert backward.attributes["reverse"] != reverse
    assert check_adjoint(graph, [W, H, XS], evaluate).within(1e-6)
    kept = [value.type for value in forward.results[2:]]
    if recompute:
        assert kept == [Tensor(graph.inputs[1].type.dtype, (4, 3))]  # the carries alone
    else:
        assert len(kept) > 1


def test_what_depends_on_constants_alone_is_not_kept():
    def function(w: Array, h: Array, xs: Array) -> Array:
        return op.scan(lambda c, x: (op.sin(c @ op.exp(w.T)) + x, None), h, xs)[0]

    forward, _ = loops(prune_bodies(vjp(captured(function, W, H, XS), [1])))
    assert all(value.type.shape in ((3,), (4, 3)) for value in forward.results)


def test_gradients_by_one_input_cost_no_more():
    """Where the constant's cotangent is not asked for, the second loop sums none."""
    graph = captured(rnn(False), W, H, XS)
    _, backward = loops(prune_bodies(vjp(graph, [1])))
    assert backward.attributes["carried"] == 1
    assert len(backward.results) == 1
    _, with_sums = loops(prune_bodies(vjp(graph, [0, 1])))
    assert with_sums.attributes["carried"] == 2


def test_sums_over_trips_are_kept_in_f32():
    """Integers of f16 are exact up to 2048: what is added to that, one by one, would be lost."""

    def function(w: Array, xs: Array) -> Array:
        return op.scan(lambda c, x: (c + op.sum(w * x).astype("f32"), None), np.float32(0), xs)[0]

    w, xs = np.ones(1, np.float16), np.ones((3000, 1), np.float16)
    graph = captured(function, w, xs)
    gradient = evaluate(vjp(graph, [0]), [w, xs, np.float32(1)])[1]
    assert gradient.dtype == np.float16
    assert gradient[0] == 3000


def test_branches_are_taken_again():
    def function(x: Array, w: Array) -> Array:
        return op.cond(x[0] > 0, lambda: (op.exp(x) * w, w), lambda: (op.sin(x), x * x))

    for sign in (1, -1):
        x = sign * np.array([0.5, 1.5])
        graph = captured(function, x, W[0, :2])
        assert check_adjoint(graph, [x, W[0, :2]], evaluate).within(1e-6)
        made = vjp(graph, [0, 1])
        verify(made)
        assert sum(node.op == "branch" for node in made.nodes) == 2


def test_what_has_no_tangent_is_left_alone():
    def function(w: Array, xs: Array) -> Array:
        total, _ = op.scan(lambda c, x: (c + x, None), np.zeros(3), xs)
        halved = op.while_(lambda c: c.max() > 0, lambda c: c * 0.5 - 1, total)
        return (w @ halved).sum()

    found = GraphFunction(function).graph_for(W, XS)
    inputs = [W, XS, *found.captured]
    made = vjp(found.graph, [0])
    assert len(loops(made)) == 1
    got = evaluate(made, [*inputs, np.float64(1)])[1]
    halved = XS.sum(0)
    while halved.max() > 0:
        halved = halved * 0.5 - 1
    np.testing.assert_allclose(got, np.broadcast_to(halved, (3, 3)), rtol=1e-12)


def test_whiles_are_refused_where_they_have_tangents():
    graph = captured(lambda x: op.while_(lambda c: c.max() > 0, lambda c: c - 1, x), H)
    with pytest.raises(NotDifferentiable, match=r"op\.while_ has no derivative backwards"):
        vjp(graph, [0])
