"""Operators that say what a derivative is to be."""

# pyright: reportUnknownVariableType=false

import numpy as np
import pytest

import tessera
from support.operators import FLOATS, Array, everywhere
from tessera import op


@pytest.mark.parametrize("dtype", FLOATS)
def test_stop_gradient_is_a_constant_to_derivatives_of_every_order(dtype: str):
    x = np.array([0.5, -1.0, 2.0, 0.0], FLOATS[dtype])
    np.testing.assert_array_equal(everywhere(op.stop_gradient, x), x)
    slope = tessera.grad(lambda v: op.sum(v * op.stop_gradient(v)))
    np.testing.assert_array_equal(everywhere(slope, x), x)
    np.testing.assert_array_equal(everywhere(tessera.grad(lambda v: op.sum(slope(v) * v)), x), x)
    value, tangent = tessera.jvp(lambda v: v * op.stop_gradient(v), (x,), (np.ones_like(x),))
    np.testing.assert_array_equal(value, x * x)
    np.testing.assert_array_equal(tangent, x)


def test_straight_through_rounding():
    x = np.array([0.4, 1.6, -2.5, -0.3], np.float32)

    def rounded(v: Array) -> Array:
        return v + op.stop_gradient(op.round(v) - v)

    np.testing.assert_array_equal(everywhere(rounded, x), np.rint(x))
    np.testing.assert_array_equal(tessera.grad(lambda v: op.sum(rounded(v)))(x), np.ones(4))
    np.testing.assert_array_equal(tessera.grad(lambda v: op.sum(op.round(v)))(x), np.zeros(4))


def test_a_target_that_gets_no_gradient():
    x = {"online": np.array([1.0, 2.0]), "target": np.array([3.0, 5.0])}
    slopes = tessera.grad(lambda p: op.sum((p["online"] - op.stop_gradient(p["target"])) ** 2))(x)
    np.testing.assert_array_equal(slopes["online"], 2 * (x["online"] - x["target"]))
    np.testing.assert_array_equal(slopes["target"], [0.0, 0.0])
