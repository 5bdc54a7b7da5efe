"""Numbers of Python and of NumPy where an operator takes arrays."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from collections.abc import Callable

import numpy as np
import pytest

import tessera
from support.operators import Array
from tessera import graph, op
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.settings import overridden


@pytest.mark.parametrize(
    ("call", "right", "dtype"),
    [
        (lambda: op.exp(2.0), np.exp(2.0), np.float32), (lambda: op.exp(np.float64(2.0)), np.exp(2.0), np.float64),
        (lambda: op.sqrt(np.float32(2.0)), np.sqrt(2.0), np.float32), (lambda: op.exp(np.float16(1)), np.e, np.float16),
        (lambda: op.abs(-3), 3, np.int64), (lambda: op.abs(np.int8(-3)), 3, np.int64), (lambda: op.maximum(1, 2), 2, np.int64),
        (lambda: op.maximum(np.float64(0.1), 0.05), 0.1, np.float64), (lambda: op.where(True, 1.0, 2.0), 1.0, np.float32),
        (lambda: op.sqrt(np.array([4.0, 9.0]).max()), 3.0, np.float64), (lambda: op.silu(np.float32(0)), 0.0, np.float32),
        (lambda: op.clip(np.float32(3), 0, 1), 1.0, np.float32), (lambda: op.sum(True), 1, np.int64),
    ],
)  # fmt: skip
def test_operators_of_numbers(call: Callable[[], Array], right: float, dtype: type):
    with overridden(target="interpret"):
        got = np.asarray(call())
    assert got.dtype == dtype
    assert got.shape == ()
    np.testing.assert_allclose(got.astype(np.float64), right, rtol=1e-3 if dtype is np.float16 else 1e-6)


def test_a_number_of_numpy_keeps_its_digits_and_its_dtype():
    third = np.float64(1) / 3
    with overridden(target="interpret"):
        assert float(op.abs(third)) == third
        assert np.asarray(op.abs(np.float32(third))).dtype == np.float32
        x = np.ones(3, np.float16)
        assert np.asarray(graph.module("f")(lambda v: v * np.float64(0.1))(x)).dtype == np.float16  # as beside arrays


def test_inside_of_a_graph():
    x = np.arange(3.0)
    with overridden(target="interpret"):
        np.testing.assert_allclose(np.asarray(graph.module("f")(lambda v: v + op.exp(np.float64(1)))(x)), x + np.e)
        np.testing.assert_array_equal(np.asarray(graph.module("f")(lambda v: v + op.maximum(1, 2))(x)), x + 2)


@pytest.mark.parametrize("number", [3.0, np.float64(3), np.float32(3), np.float16(3)])
def test_derivatives_by_numbers(number: float):
    slope = tessera.grad(lambda v: v * v)(number)
    assert float(slope) == 6.0
    assert np.asarray(slope).dtype == (np.float64 if isinstance(number, float) else np.asarray(number).dtype)


@pytest.mark.parametrize("number", [3, np.int32(3), True, "3"])
def test_what_has_no_derivative_is_refused(number: object):
    with pytest.raises(OperandMismatch, match="argument 0 holds no floats to differentiate by") as caught:
        tessera.grad(lambda v: v)(number)
    assert "3.0 instead of 3" in str(caught.value)


def test_a_nan_of_numpy_is_captured_once():
    captures: list[int] = []

    def function(x: Array, number: Array) -> Array:
        captures.append(1)
        return x * number

    traced = graph.module("f")(function)
    with overridden(target="interpret"):
        for number in (np.float32("nan"), np.float32("nan"), np.float32(0.0), np.float32(-0.0), np.float32(0.0)):
            traced(np.ones(2, np.float32), number)
    assert len(captures) == 3
