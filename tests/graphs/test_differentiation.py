"""Derivatives as captured functions: they nest, inline, and have names."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false

import warnings

import numpy as np
import pytest

import tessera
from support.mesh_arrays import Sharded
from support.operators import TARGETS, Array, close, drawn
from tessera import graph, op
from tessera.core.errors.catalog import NotDifferentiable, OperandMismatch
from tessera.core.graph.permissions import ALGEBRA
from tessera.core.placement.mesh import Mesh
from tessera.core.settings import overridden
from tessera.graphs.differentiation import Derivative, Paired, inlined
from tessera.graphs.function import GraphFunction
from tessera.graphs.trace import tracing
from tessera.graphs.tracer import as_tracer

X = drawn((4,), np.float64)


def cubes(x: Array) -> Array:
    return (x * x * x).sum()


def test_a_derivative_becomes_part_of_a_graph():
    descent = graph.module("descent")(lambda x: x - 0.1 * tessera.grad(cubes)(x))
    assert isinstance(descent, GraphFunction)
    close(np.asarray(descent(X)), X - 0.3 * X**2, 1e-12)
    assert 'composite = "descent/grad_cubes' in descent.inspect_ir("graph")


def test_derivatives_of_a_composition_nest():
    third = tessera.grad(lambda x: tessera.grad(lambda x: tessera.grad(cubes)(x).sum())(x).sum())
    close(third(X), np.full(4, 6.0), 1e-12)


def test_it_closes_over_arrays():
    by = drawn((4,), np.float64, 3)
    inner = tessera.grad(lambda x: (x * x * by).sum())
    assert isinstance(inner, Derivative)
    close(inner(X), 2 * X * by, 1e-12)
    outer = graph.module(lambda x: inner(x) + by)
    close(np.asarray(outer(X)), 2 * X * by + by, 1e-12)  # type: ignore[operator]


def test_it_is_captured_once():
    calls: list[int] = []

    def counted(x: Array) -> Array:
        calls.append(1)
        return op.mse(x, x * 0)

    by = tessera.grad(counted)
    for _ in range(3):
        by(X)
    assert calls == [1]


def test_integers_beside_floats_are_passed_over_with_a_warning():
    """The step and the mask of a state have no gradient, nor have its numbers and its names."""
    mask = np.array([True, False, True, True])
    state = {"w": X, "step": np.array(3), "inner": [mask, 2.0, 7, "adam"]}

    def loss(state: dict[str, Array]) -> Array:
        weights, scale, power, _ = state["inner"]
        return op.sum(op.where(weights, state["w"], 0.0) ** 2) * scale + state["step"] * (power - 7)

    gradient = tessera.grad(loss)
    with pytest.warns(
        RuntimeWarning, match=r"the gradient is None for state_step \(i64\), state_inner_0 \(bool\)"
    ) as noted:
        slopes = gradient(state)
    assert noted[0].filename == __file__
    close(slopes["w"], 4.0 * X * mask, 1e-13)
    assert slopes["step"] is None
    assert slopes["inner"][0] is None
    close(slopes["inner"][1], np.sum(X[mask] ** 2), 1e-13)
    assert slopes["inner"][2:] == [None, None]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gradient(state)  # noted once


def test_integers_alone_are_refused():
    for argument in (np.arange(3), {"a": np.arange(3)}):
        with pytest.raises(NotDifferentiable, match="only floats have derivatives"):
            tessera.grad(lambda x: op.sum((x["a"] if isinstance(x, dict) else x) * 1.0))(argument)


def test_tangents_are_arranged_as_the_primals_are():
    forward = Paired(lambda p: p["a"] * p["b"], forward=True)
    value, tangent = forward(({"a": X, "b": X + 1},), ({"a": np.ones(4), "b": np.zeros(4)},))  # type: ignore[misc]
    close(np.asarray(value), X * (X + 1), 1e-12)
    close(np.asarray(tangent), X + 1, 1e-12)
    with pytest.raises(OperandMismatch, match=r"f64\[4\] given"):
        Paired(cubes, forward=False)((X,), X)


def test_a_graph_is_put_into_another():
    found = graph.module(cubes)
    assert isinstance(found, GraphFunction)
    small = found.graph_for(X).graph
    with tracing() as trace:
        (got,) = inlined(small, [as_tracer(X, trace)], trace)
    assert got.shape == ()
    assert [node.op for node in trace.builder.nodes] == [node.op for node in small.nodes]


def test_permissions_hold_for_derivatives():
    for algebra in (ALGEBRA, frozenset[str]()):
        made = tessera.grad(GraphFunction(cubes, algebra=algebra))
        assert isinstance(made, Derivative)
        assert made.algebra == algebra


@pytest.mark.parametrize("cuts", [("dp", ""), ("", "tp"), ("dp tp", ""), ("", "")], ids=str)
def test_gradients_lie_as_what_they_are_the_gradients_of(cuts: tuple[str, str]):
    mesh = Mesh.of(("dp", "tp"), range(4), (2, 2))
    x, w = (np.random.default_rng(n).normal(size=(8, 8)).astype(np.float32) for n in range(2))
    on_mesh = Sharded.of(x, mesh, "dp", ""), Sharded.of(w, mesh, *cuts)

    def loss(x: Array, w: Array) -> Array:
        return op.sum(op.tanh(op.matmul(x, w)))

    value, (dx, dw) = tessera.value_and_grad(loss, argnums=(0, 1))(*on_mesh)
    assert (dx.placement, dw.placement) == (on_mesh[0].placement, on_mesh[1].placement)
    slope = 1 - np.tanh(x.astype(np.float64) @ w) ** 2
    np.testing.assert_allclose(value.whole, np.tanh(x.astype(np.float64) @ w).sum(), rtol=1e-4)
    np.testing.assert_allclose(dx.whole, slope @ w.T, atol=1e-4)
    np.testing.assert_allclose(dw.whole, x.T @ slope, atol=1e-4)
    _, pullback = tessera.vjp(op.matmul, *on_mesh)
    by_x, by_w = pullback(np.ones((8, 8), np.float32))
    assert (by_x.placement, by_w.placement) == (on_mesh[0].placement, on_mesh[1].placement)
    np.testing.assert_allclose(by_w.whole, x.T @ np.ones((8, 8)), atol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_equal_gradients_are_arrays_of_their_own(target: str):
    """Gradients by both terms of a sum, and by what is not used, are one value of the graph."""
    rng = np.random.default_rng(0)
    a, b, unused = rng.normal(size=(3, 4)), rng.normal(size=(3, 4)), [np.ones(4), np.ones(4)]
    with overridden(target=target):
        for results in (
            tessera.grad(lambda a, b: op.sum((a + b) ** 2), (0, 1))(a, b),
            tessera.grad(lambda p, x: op.sum(op.sin(x)), 0)(unused, a),
            tessera.vjp(lambda a, b: a + b, a, b)[1](a),
            graph.module("twice")(lambda x: (x * 2, x * 2))(a),
        ):
            first, second = results
            assert not np.shares_memory(first, second)
            before = np.array(second)
            first[...] = 7.0
            np.testing.assert_array_equal(second, before)
