"""Loops and branches do the least they can, and compute the same."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportUnknownParameterType=false

from collections.abc import Callable
from typing import Any

import numpy as np

from support.operators import Array, drawn
from tessera import op
from tessera.core.graph.graph import Graph, Node
from tessera.core.graph.verify import verify
from tessera.graphs.function import GraphFunction
from tessera.lowering.graph.prune_bodies import prune_bodies
from tessera.runtime.interpret.graph import evaluate


def pruned(function: Callable[..., Any], *arrays: Array) -> Graph:
    """Prune a captured function, and compare what it computes."""
    graph = GraphFunction(function).graph_for(*arrays).graph
    made = prune_bodies(graph)
    verify(made)
    for got, want in zip(evaluate(made, arrays), evaluate(graph, arrays), strict=True):
        np.testing.assert_array_equal(got, want)
    return made


def only(graph: Graph, op_name: str) -> Node:
    (found,) = [node for node in graph.nodes if node.op == op_name]
    return found


X = drawn((3,), np.float32)
XS = drawn((4, 3), np.float32)


def test_results_that_nothing_reads():
    def f(x: Array, xs: Array) -> Array:
        (a, _, _), (ys, _) = op.scan(lambda c, v: ((c[0] + v, c[1] * c[2], c[2] + 1), (c[0], c[1])), (x, x, x), xs)
        return a, ys

    loop = only(pruned(f, X, XS), "loop")
    assert len(loop.results) == 2
    assert len(loop.operands) == 2
    assert len(loop.graphs[0].nodes) == 2  # a sum and a copy


def test_carries_that_carries_need_stay():
    def f(x: Array, xs: Array) -> Array:
        (a, _, _), _ = op.scan(lambda c, v: ((c[0] + c[1], c[1] + c[2], c[2] * v), None), (x, x * 2, x * 3), xs)
        return a

    graph = pruned(f, X, XS)
    assert len(only(graph, "loop").operands) == 4
    assert prune_bodies(graph) is graph or len(prune_bodies(graph).nodes) == len(graph.nodes)


def test_carries_that_stay_the_same_are_constants():
    def f(w: Array, x: Array, xs: Array) -> Array:
        (w2, a), ws = op.scan(lambda c, v: ((c[0], c[1] * c[0] + v), c[0]), (w, x), xs)
        return a, w2, w2 + 1, ws

    graph = pruned(f, 2 * X, X, XS)
    loop = only(graph, "loop")
    assert (loop.attributes["constants"], loop.attributes["carried"]) == (1, 1)


def test_loops_behind_loops_hand_the_same_on():
    def f(w: Array, xs: Array) -> Array:
        first, _ = op.scan(lambda c, v: (c, v), w, xs)
        second, ys = op.scan(lambda c, v: (c, c * v), first, xs)
        return second, ys

    graph = pruned(f, X, XS)
    assert only(graph, "loop").operands[0] is graph.inputs[0]


def test_whiles_and_branches():
    def f(x: Array, y: Array) -> Array:
        a, _, c = op.while_(lambda s: s[0].max() < 9, lambda s: (s[0] + s[2], s[1] * 2, s[2]), (x, y, x * 0 + 1))
        _, second = op.cond(x.sum() > 0, lambda: (a * c, a + 1), lambda: (y, a - 1))
        return second

    graph = pruned(f, X, 2 * X)
    loop, branch = only(graph, "while"), only(graph, "branch")
    assert (loop.attributes["constants"], loop.attributes["carried"]) == (1, 1)
    assert len(branch.results) == 1
    assert len(set(branch.operands[1:])) == 1


def test_bodies_in_bodies():
    def f(x: Array, xs: Array) -> Array:
        def step(c: Array, v: Array) -> Array:
            (inner, _), _ = op.scan(lambda s, u: ((s[0] * u, s[1] + u), s[0]), (c, c), xs)
            return inner, v

        return op.scan(step, x, xs)[0]

    loop = only(pruned(f, X, XS), "loop")
    inner = only(loop.graphs[0], "loop")
    assert len(inner.results) == 1
    assert len(loop.results) == 1


def test_graphs_without_bodies_stay():
    graph = GraphFunction(lambda x: x + 1).graph_for(X).graph
    assert prune_bodies(graph) is graph
