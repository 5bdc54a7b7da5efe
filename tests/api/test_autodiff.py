"""`grad`, `value_and_grad`, `vjp`, `jvp`, `hvp` and `@autodiff` on functions of operators."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportCallIssue=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tessera
from support.operators import TARGETS, Array, close, drawn
from tessera import autodiff, op
from tessera.core.errors.catalog import NotDifferentiable, OperandMismatch
from tessera.core.settings import overridden


@pytest.fixture(params=TARGETS, autouse=True)
def target(request: pytest.FixtureRequest):
    with overridden(target=request.param):
        yield request.param


@dataclass(frozen=True)
class Layer:
    w: object
    b: object


def differences(function: Callable[[NDArray[Any]], object], x: NDArray[Any], h: float = 1e-6) -> NDArray[Any]:
    out = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[place] = h
        out[place] = (float(np.asarray(function(x + step))) - float(np.asarray(function(x - step)))) / (2 * h)
    return out


def loss(w: Array, x: Array) -> Array:
    return op.mse(op.tanh(x @ w), x[:, :2])


W, X = drawn((3, 2), np.float64, 1), drawn((4, 3), np.float64, 2)


def test_grad_by_the_first_argument_and_by_several():
    by_w = tessera.grad(loss)(W, X)
    np.testing.assert_allclose(by_w, differences(lambda w: tessera.graph.module(loss)(w, X), W), atol=1e-8)
    both = tessera.grad(loss, (1, 0))(W, X)
    close(both[1], by_w, 1e-12)
    np.testing.assert_allclose(both[0], differences(lambda x: tessera.graph.module(loss)(W, x), X), atol=1e-8)
    close(tessera.grad(loss, -1)(W, X), both[0], 1e-12)


def test_value_and_grad():
    value, by_w = tessera.value_and_grad(loss)(W, X)
    close(value, ((np.tanh(X @ W) - X[:, :2]) ** 2).mean(), 1e-12)
    close(by_w, tessera.grad(loss)(W, X), 1e-12)


def test_gradients_are_arranged_as_the_arguments_are():
    def net(layer: Layer, others: dict[str, Any]) -> Array:
        return ((others["x"] @ layer.w + layer.b) ** 2).sum()  # type: ignore[operator]

    b = drawn((2,), np.float64, 3)
    by_layer, by_others = tessera.grad(net, (0, 1))(Layer(W, b), {"x": X})
    slope = 2 * (X @ W + b)
    assert isinstance(by_layer, Layer)
    close(np.asarray(by_layer.w), X.T @ slope, 1e-12)
    close(np.asarray(by_layer.b), slope.sum(0), 1e-12)
    close(by_others["x"], slope @ W.T, 1e-12)


def test_vjp_and_jvp_agree():
    def layer(w: Array, x: Array) -> Array:
        return op.softmax(x @ w)

    value, pullback = tessera.vjp(layer, W, X)
    seed, by = drawn((4, 2), np.float64, 4), (drawn((3, 2), np.float64, 5), drawn((4, 3), np.float64, 6))
    cotangents = pullback(seed)
    again, tangent = tessera.jvp(layer, (W, X), by)
    close(value, again, 1e-12)
    np.testing.assert_allclose((tangent * seed).sum(), sum((c * t).sum() for c, t in zip(cotangents, by, strict=True)))


def test_hvp_is_the_derivative_of_the_gradient():
    v = drawn((3, 2), np.float64, 7)
    only = lambda w: loss(w, X)  # noqa: E731
    (got,) = tessera.hvp(only, (W,), (v,))
    h = 1e-5
    want = (tessera.grad(only)(W + h * v) - tessera.grad(only)(W - h * v)) / (2 * h)
    np.testing.assert_allclose(got, want, atol=1e-8)


def test_a_gradient_of_a_gradient():
    def cubes(x: Array) -> Array:
        return (x * x * x).sum()

    x = drawn((5,), np.float64)
    close(tessera.grad(lambda x: tessera.grad(cubes)(x).sum())(x), 6 * x, 1e-12)
    close(tessera.grad(lambda x: (tessera.grad(cubes)(x) ** 2).sum())(x), 36 * x**3, 1e-12)


def test_arrays_that_the_function_closes_over_may_change():
    kept = {"x": X}
    by = tessera.grad(lambda w: (w @ w.T * kept["x"][:3, :3]).sum())
    close(by(W), (X[:3, :3] + X[:3, :3].T) @ W, 1e-12)
    kept["x"] = X * 2
    close(by(W), 2 * (X[:3, :3] + X[:3, :3].T) @ W, 1e-12)


def test_the_decorator():
    made = autodiff(loss)
    np.testing.assert_array_equal(made.grad(W, X), tessera.grad(loss)(W, X))
    np.testing.assert_array_equal(made.grad(W, X, argnums=1), tessera.grad(loss, 1)(W, X))
    np.testing.assert_array_equal(made.value_and_grad(W, X)[0], made(W, X))
    value, pullback = made.vjp(W, X)
    np.testing.assert_allclose(pullback(np.ones_like(value))[0], made.grad(W, X), rtol=1e-12)
    tangent = made.jvp((W, X), (np.ones_like(W), np.zeros_like(X)))[1]
    np.testing.assert_allclose(tangent, made.grad(W, X).sum(), rtol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_gradients_have_the_dtype_of_what_they_belong_to(dtype: type):
    w, x = W.astype(dtype), X.astype(dtype)
    by = tessera.grad(loss)(w, x)
    assert by.dtype == dtype
    close(by, tessera.grad(loss)(w.astype(np.float64), x.astype(np.float64)), 1e-5 if dtype is np.float32 else 1e-2)


def test_a_gradient_is_inspected_like_any_graph():
    by = tessera.grad(loss)
    by(W, X)
    assert "tanh" in by.inspect_ir("graph")
    assert by.inspect_ir("schedule").startswith("schedule grad_loss")


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: tessera.grad(lambda x: x * 2)(W), NotDifferentiable, "one number"),
        (lambda: tessera.grad(lambda x: x.sum())(np.arange(3)), NotDifferentiable, "i64"),
        (lambda: tessera.grad(loss, 2)(W, X), OperandMismatch, "there is no argument 2"),
        (lambda: tessera.vjp(lambda x: x * 2, W)[1](W[:2]), OperandMismatch, "given"),
        (lambda: tessera.jvp(lambda x: x * 2, (W,), (X,)), OperandMismatch, "given"),
    ],
)
def test_what_has_no_derivative(call: Callable[[], object], kind: type[Exception], message: str):
    with pytest.raises(kind, match=rf"^[^\n]*(?:{message})") as raised:
        call()
    assert "test_autodiff.py, line" in str(raised.value)


def test_what_a_loss_returns_besides():
    def loss(w: Array, x: Array) -> tuple[Array, dict[str, Array]]:
        y = x @ w
        return op.sum(y * y), {"y": y, "mean": op.mean(y)}

    w, x = np.array([[0.5], [2.0]]), np.array([[1.0, 2.0], [3.0, 4.0]])
    y = x @ w
    for _ in range(2):
        slope, more = tessera.grad(loss, has_aux=True)(w, x)
        np.testing.assert_allclose(slope, 2 * x.T @ y)
        np.testing.assert_allclose(more["y"], y)
        np.testing.assert_allclose(more["mean"], y.mean())
        (value, more), slope = tessera.value_and_grad(loss, has_aux=True)(w, x)
        np.testing.assert_allclose(value, (y * y).sum())
        np.testing.assert_allclose(more["y"], y)
        np.testing.assert_allclose(slope, 2 * x.T @ y)
        (by_w, by_x), _ = tessera.grad(loss, (0, 1), has_aux=True)(w, x)
        np.testing.assert_allclose(by_w, 2 * x.T @ y)
        np.testing.assert_allclose(by_x, 2 * y @ w.T)


@pytest.mark.parametrize("transform", [tessera.grad, tessera.value_and_grad])
def test_a_loss_without_more_is_no_pair(transform: Callable[..., Callable[[Array], object]]):
    for loss in (
        op.sum,
        lambda x: [op.sum(x), x],
        lambda x: (op.sum(x), x, x),
        lambda x: ((op.sum(x), x), x),
    ):
        with pytest.raises(OperandMismatch, match="the function returns no pair"):
            transform(loss, has_aux=True)(np.ones(3))
