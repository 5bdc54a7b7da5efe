"""Tangents of loops, whiles and branches, node by node, against difference quotients."""

# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false
# pyright: reportArgumentType=false, reportUnknownVariableType=false, reportUnknownParameterType=false

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from support.operators import Array
from tessera import op
from tessera.core.graph.verify import verify
from tessera.graphs.function import GraphFunction
from tessera.lowering.autodiff.forward import jvp
from tessera.runtime.interpret.graph import evaluate

RNG = np.random.default_rng(1)
W, H, XS = RNG.normal(size=(3, 3)) / 2, RNG.normal(size=3), RNG.normal(size=(4, 3))


def looped(w: Array, h: Array, xs: Array) -> Array:
    def step(c: Array, x: Array) -> Array:
        a, n, still = c
        return (op.tanh(a @ w) + x * still, n + 1, still), (a * x, n)

    (last, count, _), (ys, ns) = op.scan(step, (h, 0, h), xs, reverse=True)
    return last, count, ys, ns


def waited(w: Array, h: Array, xs: Array) -> Array:
    def step(c: Array) -> Array:
        return c[0] @ (w * 0.1) + c[0] * 0.5, c[1] + xs.sum(0), c[2] + 1

    return op.while_(lambda c: c[2] < 3, step, (h, h * 2, 0))


def chosen(w: Array, h: Array, xs: Array) -> Array:
    return op.cond(h[0] > 0, lambda a: (a @ w, xs[0]), lambda a: (op.sin(a), a * xs.sum(0)), h)


@pytest.mark.parametrize("function", [looped, waited, chosen])
@pytest.mark.parametrize("wrt", [(0,), (1,), (2,), (0, 1, 2)])
def test_tangents_are_difference_quotients(function: Callable[..., Any], wrt: tuple[int, ...]):
    given = [W, H, XS]
    graph = GraphFunction(function).graph_for(*given).graph
    made = jvp(graph, wrt)
    verify(made)
    assert sum(node.op in ("loop", "while", "branch") for node in made.nodes) == 1  # nothing is computed twice
    tangents = [RNG.normal(size=given[number].shape) for number in wrt]
    got = evaluate(made, [*given, *tangents])
    ends: list[Any] = []
    for sign in (1, -1):
        moved = list(given)
        for number, tangent in zip(wrt, tangents, strict=True):
            moved[number] = moved[number] + sign * 1e-6 * tangent
        ends.append(evaluate(graph, moved))
    primal = evaluate(graph, given)
    for one, two in zip(got, primal, strict=False):
        np.testing.assert_array_equal(one, two)
    floats = [number for number, each in enumerate(primal) if each.dtype.kind == "f"]
    for slope, number in zip(got[len(primal) :], floats, strict=True):
        np.testing.assert_allclose(slope, (ends[0][number] - ends[1][number]) / 2e-6, rtol=1e-7, atol=1e-8)


def test_a_tangent_that_a_carry_gets_on_the_way():
    """The carry begins without one, and has one from the first trip on."""

    def f(x: Array) -> Array:
        return op.scan(lambda c, _: (c + x * c.sum(), None), np.ones(2), None, length=3)[0]

    captured = GraphFunction(f).graph_for(np.array([0.5, 1.5]))
    made = jvp(captured.graph, [0])
    x, t, e = np.array([0.5, 1.5]), np.array([1.0, -2.0]), 1e-6
    closed = list(captured.captured)
    got = evaluate(made, [x, *closed, t])[1]
    ends = [evaluate(captured.graph, [x + sign * e * t, *closed])[0] for sign in (1, -1)]
    np.testing.assert_allclose(got, (ends[0] - ends[1]) / (2 * e), rtol=1e-7)
