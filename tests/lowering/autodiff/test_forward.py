"""Forward mode through calls: their adjoints, transposed; through everything else see `test_linearize.py`."""

from collections.abc import Sequence

import numpy as np
import pytest

from support.gradients import drawn, graph_of, reals
from tessera.core.errors.catalog import NotDifferentiable
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Graph, Node, NodeAdjoint, Routine, Value
from tessera.lowering.autodiff.forward import jvp
from tessera.lowering.autodiff.reverse import vjp
from tessera.runtime.interpret.graph import evaluate


def pulled(b: GraphBuilder, node: Node, cotangents: Sequence[Value]) -> list[Value | None]:
    """Return the cotangents of `x @ y` and of `x`, of its two results."""
    (x, y), (c, d) = node.operands, cotangents
    by_x = b.binary("add", b.contract(c, y, ((0, 2), (1, 2)), (0, 1)), d)
    return [by_x, b.contract(x, c, ((0, 1), (0, 2)), (1, 2))]


def product(adjoint: NodeAdjoint | None) -> Graph:
    routine = Routine(
        "product", "NumPy", lambda types, _: [types[0], types[0]],
        lambda arrays, _: [np.asarray(arrays[0]) @ np.asarray(arrays[1]), np.asarray(arrays[0])], adjoint=adjoint,
    )  # fmt: skip

    def make(b: GraphBuilder, x: Value, y: Value) -> tuple[Value, Value]:
        made = b.call(routine, [b.unary("sin", x), y])
        return b.unary("tanh", made[0]), made[1]

    return graph_of(make, reals(3, 3), reals(3, 3))


@pytest.mark.parametrize("wrt", [(0,), (1,), (0, 1)])
def test_forward_and_reverse_agree(wrt: tuple[int, ...]):
    graph = product(pulled)
    given = drawn(graph)
    rng = np.random.default_rng(3)
    tangents = [rng.normal(size=(3, 3)) for _ in wrt]
    cotangents = [rng.normal(size=(3, 3)) for _ in graph.outputs]
    pushed = evaluate(jvp(graph, wrt), [*given, *tangents])[2:]
    back = evaluate(vjp(graph, wrt), [*given, *cotangents])[2:]
    left = sum(float((c * p).sum()) for c, p in zip(cotangents, pushed, strict=True))
    right = sum(float((t * g).sum()) for t, g in zip(tangents, back, strict=True))
    np.testing.assert_allclose(left, right, rtol=1e-12)
    steps = [1e-6 * t for t in tangents]
    ends = [evaluate(graph, _moved(given, wrt, [s * e for e in steps])) for s in (1, -1)]
    for p, a, b in zip(pushed, *ends, strict=True):
        np.testing.assert_allclose(p, (a - b) / 2e-6, atol=1e-8)


def _moved(given: list[np.ndarray], wrt: Sequence[int], steps: Sequence[np.ndarray]) -> list[np.ndarray]:
    found = list(given)
    for number, step in zip(wrt, steps, strict=True):
        found[number] = found[number] + step
    return found


def test_second_derivatives():
    graph = product(pulled)
    second = jvp(vjp(graph, (0,)), (0,))
    given, rng = drawn(graph), np.random.default_rng(4)
    cotangents = [rng.normal(size=(3, 3)) for _ in graph.outputs]
    direction = rng.normal(size=(3, 3))
    (got,) = evaluate(second, [*given, *cotangents, direction])[-1:]
    first = vjp(graph, (0,))
    ends = [evaluate(first, [given[0] + s * 1e-6 * direction, given[1], *cotangents])[-1] for s in (1, -1)]
    np.testing.assert_allclose(got, (ends[0] - ends[1]) / 2e-6, atol=1e-7)


@pytest.mark.parametrize("mode", [jvp, vjp])
def test_calls_without_an_adjoint_are_refused(mode: object):
    assert callable(mode)
    with pytest.raises(NotDifferentiable, match="product has no adjoint"):
        mode(product(None), (0,))
