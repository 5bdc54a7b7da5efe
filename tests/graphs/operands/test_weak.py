"""Values that are made of Python numbers alone take the float dtype of what they meet."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownLambdaType=false

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import tessera
from support.operators import Array
from tessera import graph, op
from tessera.core.base.dtypes import f16, f32, f64, i32
from tessera.core.settings import overridden
from tessera.graphs.operands.weak import dtype_of_meeting, is_weak
from tessera.graphs.trace import tracing
from tessera.graphs.tracer import as_tracer

X = np.random.default_rng(0).standard_normal((3, 4))
POSITIVE = X > 0
CHOSEN = np.where(POSITIVE, 0.1, 0.3)


def scaled_by_a_root(x: Array) -> Array:
    """Use a value of the graph around it in a body."""
    root = op.sqrt(2)
    return op.scan(lambda h, s: (h * root + s, h), x[0], x)[1][1]


@pytest.mark.parametrize(
    ("function", "right"),
    [
        (lambda x: op.exp(0.5) * x, np.exp(0.5) * X), (lambda x: x / op.sqrt(3), X / np.sqrt(3)),
        (lambda x: op.tanh(op.sqrt(2) * 0.3) + x, np.tanh(np.sqrt(2) * 0.3) + X), (lambda x: -op.exp(0.1) * x, -np.exp(0.1) * X),
        (lambda x: op.silu(0.3) * x, 0.3 / (1 + np.exp(-0.3)) * X), (lambda x: op.power(2, 0.3) * x, 2**0.3 * X),
        (lambda x: op.maximum(0.1, 0.3) * x, 0.3 * X), (lambda x: (1 / op.sqrt(3.0)) ** 2 * x, X * (1 / np.sqrt(3)) ** 2),
        (lambda x: op.where(x > 0, 0.1, 0.3) * x, CHOSEN * X), (lambda x: op.where(x > 0, 0.1, 0.3)[1:] * x[1:], (CHOSEN * X)[1:]),
        (lambda x: op.sum(op.where(x > 0, 0.1, 0.3), 0) * x, CHOSEN.sum(0) * X), (lambda x: op.where(x > 0, 0.1, 0.3).sum() * x, CHOSEN.sum() * X),
        (lambda x: op.softmax(op.where(x > 0, 0.1, 0.3)) * x, np.exp(CHOSEN) / np.exp(CHOSEN).sum(1, keepdims=True) * X),
        (lambda x: op.where(x > 0, 0.1, 0.3).T @ x, CHOSEN.T @ X), (lambda x: op.where(x > 0, op.sqrt(2), 0.1) * x, np.where(POSITIVE, np.sqrt(2), 0.1) * X),
        (lambda x: op.scan(lambda h, s: (h * op.exp(0.1) + s, h), x[0], x)[1][1], np.exp(0.1) * X[0] + X[0]),
        (scaled_by_a_root, np.sqrt(2) * X[0] + X[0]),
        (lambda x: op.sqrt(2).astype("f64") + x * 0, np.sqrt(2) + X * 0), (lambda x: x + op.where(x > 0, 0.1, 0.3).reshape(3, 4), X + CHOSEN),
        (lambda x: op.erf(op.hypot(0.3, 0.4)) * x, 0.5204998778130465 * X),
    ],
)  # fmt: skip
def test_beside_f64_they_have_its_digits(function: Callable[[Array], Array], right: Array):
    with overridden(target="interpret"):
        got = np.asarray(graph.module("f")(function)(X))
    assert got.dtype == np.float64
    np.testing.assert_allclose(got, right, rtol=1e-14)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float32])
def test_they_do_not_widen_what_they_meet(dtype: type):
    x = X.astype(dtype)
    with overridden(target="interpret"):
        for function in (lambda v: op.exp(0.5) * v, lambda v: v / op.sqrt(3), lambda v: op.maximum(v, op.sqrt(2) - 1)):
            assert np.asarray(graph.module("f")(function)(x)).dtype == dtype


def test_on_their_own_they_are_f32():
    with overridden(target="interpret"):
        number, array, product = graph.module("f")(lambda x: (op.exp(0.5), op.where(x > 0, 0.1, 0.3), x * op.exp(0.5)))(
            X
        )
    assert [np.asarray(each).dtype for each in (number, array, product)] == [np.float32, np.float32, np.float64]
    np.testing.assert_allclose(np.asarray(array), CHOSEN, rtol=1e-7)


def test_integers_meet_them_in_f32():
    with overridden(target="interpret"):
        got = np.asarray(graph.module("f")(lambda n: n * op.sqrt(2))(np.arange(3, dtype=np.int32)))
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, np.arange(3) * np.sqrt(2), rtol=1e-6)


def test_a_gradient_by_what_meets_them():
    with overridden(target="interpret"):
        slope = tessera.grad(lambda x: op.sum(op.exp(0.5) * x * x))(X)
    np.testing.assert_allclose(slope, 2 * np.exp(0.5) * X, rtol=1e-14)


def test_which_values_are_weak():
    with tracing():
        root, array = op.sqrt(2.0), as_tracer(X)
        assert all(map(is_weak, (1, 0.5, True, root, root * 2, -root, op.exp(root), op.where(array > 0, 0.1, root))))
        assert not any(map(is_weak, (array, root * array, op.ones((3,)), op.full((), 0.1), op.sqrt(np.float64(2)), root.astype("f16"),
                                     op.where(array > 0, array, 0.1), "0.5", None)))  # fmt: skip
        assert dtype_of_meeting([root, array], floating=False) == f64
        assert dtype_of_meeting([root, array.astype("f16")], floating=False) == f16
        assert dtype_of_meeting([root, array.astype("i32")], floating=False) == f32
        assert dtype_of_meeting([2, array.astype("i32")], floating=False) == i32
        assert dtype_of_meeting([2, array.astype("i32")], floating=True) == f32
