"""Functions that saturate: values and two derivatives over the whole range of each float dtype, infinities included."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import tessera
from support.operators import FLOATS, TARGETS
from tessera import op
from tessera.core.settings import overridden

Values = NDArray[np.float64]
POINTS = (-math.inf, -1e4, -1000.0, -745.0, -104.0, -90.0, -20.0, -12.0, -3.0, -1.0, -1e-3, -0.0,
          0.0, 1e-3, 0.5, 1.0, 3.0, 12.0, 20.0, 90.0, 104.0, 745.0, 1000.0, 1e4, math.inf)  # fmt: skip
TOLERANCE = {"f64": 1e-12, "f32": 1e-5, "f16": 2e-3, "bf16": 1.6e-2}


def sigmoid(x: Values) -> Values:
    decay = np.exp(-abs(x))
    return np.where(x > 0, 1.0, decay) / (1.0 + decay)


def gated(gate: Callable[[Values], Values]) -> Callable[[Values], Values]:
    """x times a gate, with the limits at the infinities."""
    return lambda x: np.where(np.isinf(x), np.maximum(x, 0.0), x * gate(x))


def slope_of_silu(x: Values) -> Values:
    return np.where(np.isinf(x), x > 0, sigmoid(x) * (1.0 + x * sigmoid(-x)))


def curve_of_silu(x: Values) -> Values:
    s, t = sigmoid(x), sigmoid(-x)
    return np.where(np.isinf(x), 0.0, s * t * (2.0 + x * (t - s)))


def curve_of_sigmoid(x: Values) -> Values:
    return sigmoid(x) * sigmoid(-x) * (sigmoid(-x) - sigmoid(x))


REFERENCES: dict[str, tuple[Callable[[Values], Values], ...]] = {
    "sigmoid": (sigmoid, lambda x: sigmoid(x) * sigmoid(-x), curve_of_sigmoid),
    "silu": (gated(sigmoid), slope_of_silu, curve_of_silu),
    "softplus": (lambda x: np.maximum(x, 0.0) + np.log1p(np.exp(-abs(x))), sigmoid, lambda x: sigmoid(x) * sigmoid(-x)),
    "relu": (lambda x: np.maximum(x, 0.0), lambda x: (x > 0).astype(np.float64), np.zeros_like),
}


def _captured(name: str) -> tuple[Callable[..., Any], Callable[..., Any]]:
    function = getattr(op, name)
    slope: Callable[..., Any] = tessera.grad(lambda x: op.sum(function(x)))
    return function, slope


CAPTURED = {name: _captured(name) for name in REFERENCES}


def derivatives(name: str, x: NDArray[Any]) -> tuple[Values, ...]:
    """An operator's values and two derivatives, in f64."""
    function = getattr(op, name)
    slope: Callable[..., Any] = tessera.grad(lambda v: op.sum(function(v)))
    curve: Callable[..., Any] = tessera.grad(lambda v: op.sum(slope(v)))
    return tuple(np.asarray(f(x)).astype(np.float64) for f in (function, slope, curve))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", REFERENCES)
def test_values_and_derivatives(name: str, dtype: str):
    x = np.array(POINTS).astype(FLOATS[dtype])
    with np.errstate(all="ignore"):
        expected = [np.asarray(f(x.astype(np.float64)), np.float64) for f in REFERENCES[name]]
    smallest, unit = float(ml_dtypes.finfo(FLOATS[dtype]).tiny), 2.0**-52 if dtype == "f64" else 2.0**-23
    absolute = [smallest, smallest, unit]  # the second derivative changes its sign, where its terms cancel
    for target in TARGETS:
        with overridden(target=target):
            for got, want, least in zip(derivatives(name, x), expected, absolute, strict=True):
                np.testing.assert_allclose(got, want, rtol=TOLERANCE[dtype], atol=least)


@pytest.mark.parametrize("name", REFERENCES)
def test_what_is_no_number_stays_none(name: str):
    value, slope, _ = derivatives(name, np.array([math.nan, 1.0]))
    assert math.isnan(value[0])
    assert math.isnan(slope[0]) == (name != "relu")  # its derivative is that of the 0 which it is compared with
    assert np.isfinite([value[1], slope[1]]).all()


@settings(max_examples=20)
@given(st.lists(st.floats(allow_nan=False, width=32), min_size=16, max_size=16))
def test_values_and_derivatives_of_any_numbers_are_finite(numbers: list[float]):
    x = np.clip(np.array(numbers), -1e30, 1e30).astype(np.float32)
    with overridden(target="interpret"):
        for name, (function, slope) in CAPTURED.items():
            assert np.isfinite(np.asarray(function(x))).all(), name
            assert np.isfinite(np.asarray(slope(x))).all(), name
