"""Inverse hyperbolic functions: units in the last place over the whole range, and derivatives at the ends."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportCallIssue=false

import math

import numpy as np
import pytest

import tessera
from ops.elementary.test_inverse_trigonometric import POINTS, within
from support.operators import FLOATS, TARGETS, everywhere
from tessera import graph, op
from tessera.core.settings import overridden

UNITS = {"arcsinh": 2.0, "arccosh": 2.7, "arctanh": 2.7}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_units_in_the_last_place(dtype: type[np.floating]):
    with np.errstate(all="ignore"):
        x = np.unique(np.concatenate([POINTS, -POINTS, 1 + np.logspace(-16, 30, 300)]).astype(dtype))
        x = np.concatenate([x, np.array([-0.0, np.nan, np.finfo(dtype).max], dtype)])
        exact = [getattr(np, name)(x.astype(np.longdouble)) for name in UNITS]
    for target in TARGETS:
        with overridden(target=target):
            got = graph.module("all")(lambda x: tuple(getattr(op, name)(x) for name in UNITS))(x)
        for name, each, right in zip(UNITS, got, exact, strict=True):
            within(each, right, UNITS[name], name)


def test_short_floats_are_rounded_once():
    for dtype in ("f16", "bf16"):
        x = np.linspace(-3, 3, 37).astype(FLOATS[dtype])
        np.testing.assert_array_equal(everywhere(op.arcsinh, x), np.arcsinh(x.astype(np.float64)).astype(x.dtype))


def test_derivatives_at_the_ends():
    def slope(name: str, *x: float) -> list[float]:
        return tessera.grad(lambda v: op.sum(getattr(op, name)(v)))(np.array(x)).tolist()

    assert slope("arcsinh", 0.0, math.inf, -math.inf, 1e300) == [1.0, 0.0, 0.0, 1e-300]
    assert slope("arccosh", 1.0, math.inf, 1e300) == [math.inf, 0.0, 1e-300]
    assert slope("arctanh", 0.0, 1.0, -1.0) == [1.0, math.inf, math.inf]
