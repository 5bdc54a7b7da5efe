"""Operators of one's own: what runs, what is differentiated, and every way to get one wrong."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportCallIssue=false
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false, reportArgumentType=false
# pyright: reportUnknownParameterType=false, reportMissingParameterType=false, reportUntypedFunctionDecorator=false

from collections.abc import Callable
from typing import cast

import numpy as np
import pytest

import tessera
from support.operators import TARGETS, Array, close, drawn, on_host, on_target
from tessera import graph, op
from tessera.api.jit import Jit
from tessera.core.errors.catalog import (
    CannotTrace,
    NotDifferentiable,
    OperandMismatch,
    WrongAdjoint,
    WrongResult,
)
from tessera.core.settings import overridden
from tessera.graphs.function import GraphFunction

X = drawn((3, 4), np.float32)


@pytest.fixture(params=TARGETS, autouse=True)
def target(request: pytest.FixtureRequest):
    with overridden(target=request.param):
        yield request.param


def cosine(inputs: tuple[Array], outputs: tuple[Array], cotangents: tuple[Array]) -> Array:
    del outputs
    return cotangents[0] * op.cos(inputs[0])


@op.custom(adjoint=cosine, shape=lambda x: x.shape)
def sine(x: Array) -> Array:
    return np.sin(x)


@op.custom(adjoint=lambda inputs, outputs, cotangents: cotangents[0] * outputs[0])
def exponential(x: Array) -> Array:
    return op.exp(x)


KERNELS = tessera.compile_source(
    """
@kernel
def scale(x: f32[m, n], y: mut f32[m, n], by: f32):
    for i in tile.range(m, step=4):
        y[i:i+4, :] = x[i:i+4, :] * by
"""
)


def test_functions_of_the_host_run_between_kernels():
    close(sine(X), np.sin(X), 1e-6)

    @GraphFunction
    def model(x: Array) -> Array:
        return exponential(sine(x * 2)) + 1

    close(model(X), np.exp(np.sin(2 * X)) + 1, 1e-6)
    assert 'name = "sine", library = "a function of the host"' in model.inspect_ir("graph")
    plan = model.inspect_ir("schedule")
    assert "schedule model: 2 kernels, 1 call" in plan
    assert "call 1 sine (a function of the host): 96 B" in plan
    assert "exponential" in plan.partition("call 1")[2]  # what is made of operators is fused


def test_derivatives_are_those_that_are_given():
    def loss(x: Array) -> Array:
        return op.sum(exponential(sine(x) * 2))

    s, c = np.sin(X), np.cos(X)
    close(tessera.grad(loss)(X), np.exp(2 * s) * 2 * c, 2e-6)
    (second,) = tessera.hvp(loss, (X,), (np.ones_like(X),))
    close(second, np.exp(2 * s) * (4 * c * c - 2 * s), 4e-6)
    value, tangent = tessera.jvp(sine, (X,), (X,))
    close(value, s, 1e-6)
    close(tangent, c * X, 1e-6)


def test_kernels_with_an_adjoint_that_launches_kernels():
    def launch(x: Array, by: float) -> Array:
        y = np.empty_like(x)
        KERNELS.scale(x, y, by)
        return y

    def pulled(i: tuple[Array], o: tuple[Array], c: tuple[Array], by: float) -> Array:
        del i, o
        return cast("Callable[..., Array]", scaled)(c[0], by=by)

    @op.custom(adjoint=pulled, shape=lambda x, by: x.shape)
    def scaled(x: Array, *, by: float) -> Array:
        return launch(x, by)

    close(scaled(X, by=3.0), X * 3, 1e-6)
    close(tessera.grad(lambda x: op.sum(scaled(x, by=3.0) * scaled(x, by=2.0)))(X), 12 * X, 1e-6)
    assert tessera.check_adjoint(lambda x: scaled(x, by=3.0), X).within(5e-3)


def test_several_inputs_results_and_dtypes():
    def pulled(inputs: tuple[Array, Array], outputs: tuple[Array, Array], cotangents: tuple[Array, Array]):
        del inputs, outputs
        return cotangents[0] + 2 * cotangents[1][..., 0].astype("f32"), None

    @op.custom(
        adjoint=pulled, shape=lambda x, count: (x.shape, (*x.shape, 1), count.shape), dtype=("f32", "f64", "i64")
    )
    def parts(x: Array, count: Array) -> tuple[Array, ...]:
        return x + 1, x.astype(np.float64)[..., None] * 2, count * 2

    count = np.arange(3)
    one, two, three = parts(X, count)
    close(one, X + 1, 1e-7)
    assert (two.dtype, two.shape) == (np.float64, (3, 4, 1))
    np.testing.assert_array_equal(three, count * 2)

    def loss(x: Array) -> Array:
        one, two, _ = parts(x, count)
        return op.sum(one) + op.sum(two[..., 0].astype("f32"))

    close(tessera.grad(loss)(X), np.full_like(X, 3), 1e-6)


def test_constants_that_are_closed_over():
    weights = drawn((4,), np.float32, 7)

    @op.custom(adjoint=lambda i, o, c: c[0] * o[0] / i[0])
    def weighed(x: Array) -> Array:
        return x * weights

    x = np.abs(X) + 1
    close(weighed(x), x * weights, 1e-6)
    close(tessera.grad(lambda x: op.sum(weighed(x)))(x), np.broadcast_to(weights, x.shape), 1e-6)


def test_an_operator_without_an_adjoint_is_differentiated_through():
    @op.custom
    def squares(x: Array) -> Array:
        return x * x

    close(tessera.grad(lambda x: op.sum(squares(x)))(X), 2 * X, 1e-6)


def wrong(*cotangents: object) -> Callable[[Array], Array]:
    return op.custom(adjoint=lambda i, o, c: cotangents, shape=lambda x: x.shape)(np.sin)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: tessera.grad(lambda x: op.sum(op.custom(np.sin, shape=lambda x: x.shape, name="f")(x)))(X),
         NotDifferentiable, "f has no adjoint"),
        (lambda: op.custom(lambda x: x[0], shape=lambda x: x.shape, name="f")(X), WrongResult,
         r"f returns f32\[4\], and declares f32\[3, 4\]"),
        (lambda: op.custom(lambda x: (x, x), shape=lambda x: x.shape, name="f")(X), WrongResult, "f returns f32"),
        (lambda: op.custom(lambda x: x, shape=lambda x: "ab", name="f")(X), OperandMismatch, "shape= of f returns"),
        (lambda: op.custom(lambda x: x, shape=lambda x: (3,), dtype="f99", name="f")(X), OperandMismatch,
         "dtype= of f is 'f99'"),
        (op.custom(lambda: X, shape=lambda: (3,), name="f"), OperandMismatch, "f takes no array that"),
        (lambda: tessera.grad(lambda x: op.sum(wrong(X)(x)))(X), CannotTrace, "neither input, output nor cotangent"),
        (lambda: tessera.grad(lambda x: op.sum(wrong(None, None)(x)))(X), WrongAdjoint,
         "returns 2 cotangents for 1 inputs"),
    ],
)  # fmt: skip
def test_mistakes(call: Callable[[], object], error: type[tessera.TesseraError], message: str):
    with pytest.raises(error, match=rf"^[^\n]*(?:{message})") as caught:
        call()
    assert "^^^" in str(caught.value)


def test_values_of_the_graph_around_cannot_be_closed_over():
    def model(x: Array) -> Array:
        return op.custom(lambda y: x * y, adjoint=cosine, name="f")(x)

    with pytest.raises(CannotTrace, match="f uses a value of the graph that it does not take"):
        graph.module(model)(X)


def test_cotangents_of_another_shape():
    @op.custom(adjoint=lambda i, o, c: op.sum(c[0], 0))
    def odd(x: Array) -> Array:
        return x * 2

    with pytest.raises(WrongAdjoint, match=r"returns f32\[4\] for inputs f32\[3, 4\]"):
        tessera.grad(lambda x: op.sum(odd(x)))(X)


@pytest.mark.parametrize("target", TARGETS)
def test_calls_are_steps_of_captured_graphs(target: str):
    """What the host does lies between the launches, and is done again whenever the graph is launched."""
    step = tessera.jit(capture_graph=True)(lambda x: op.sum(sine(x * 2) * 2, 0))
    with overridden(target=target):
        x = on_target(X.copy(), target)
        for scale in (1, 2, 3):
            x[...] = on_target(X * scale, target)
            np.testing.assert_allclose(on_host(step(x)), (np.sin(2 * X * scale) * 2).sum(0), rtol=1e-5)
        assert isinstance(step, Jit)
        (captured,) = step.graphs.values()
    assert "sine" in captured.graph.kernels
