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
from support.operators import FLOATS, TARGETS, Array
from tessera import op
from tessera.core.settings import overridden

Values = NDArray[Any]
Reference = Callable[[Values], Values]
POINTS = (-math.inf, -1e4, -1000.0, -745.0, -104.0, -90.0, -20.0, -12.0, -6.0, -3.0, -1.0, -1e-3, -0.0,
          0.0, 1e-3, 0.5, 1.0, 3.0, 6.0, 12.0, 20.0, 90.0, 104.0, 745.0, 1000.0, 1e4, math.inf)  # fmt: skip
TOLERANCE = {"f64": 1e-12, "f32": 1e-5, "f16": 2e-3, "bf16": 1.6e-2}
SCALE, ALPHA = 1.0507009873554805, 1.6732632423543772
ERF = np.vectorize(math.erf, otypes=[np.float64])
ERFC = np.vectorize(math.erfc, otypes=[np.float64])


def sigmoid(x: Values) -> Values:
    decay = np.exp(-abs(x))
    return np.where(x > 0, 1.0, decay) / (1.0 + decay)


def softplus(x: Values) -> Values:
    return np.maximum(x, 0.0) + np.log1p(np.exp(-abs(x)))


def limited(function: Reference, below: float, above: float | None = None) -> Reference:
    """A function with its limits at the infinities; None: the infinity itself."""
    return lambda x: np.where(
        x == -math.inf, below, np.where(x == math.inf, math.inf if above is None else above, function(x))
    )


def between(
    low: float, high: float, inside: Reference, below: Reference | float, above: Reference | float
) -> Reference:
    """Three functions of x: below `low`, above `high`, and inside of both, without the ends."""

    def of(part: Reference | float, x: Values) -> Values:
        return np.broadcast_to(part(x) if callable(part) else part, x.shape)

    return lambda x: np.where(x <= low, of(below, x), np.where(x >= high, of(above, x), inside(x)))


def slope_of_silu(x: Values) -> Values:
    return sigmoid(x) * (1.0 + x * sigmoid(-x))


def curve_of_silu(x: Values) -> Values:
    s, t = sigmoid(x), sigmoid(-x)
    return s * t * (2.0 + x * (t - s))


def logistic_tanh(x: Values) -> tuple[Values, Values, Values]:
    """tanh(softplus(x)) and its two derivatives: 1 - 2 q, where q is 1 / (1 + (1 + exp(x))^2)."""
    grown = np.exp(np.minimum(x, 300.0))
    q = 1.0 / (1.0 + (1.0 + grown) ** 2)
    first = 4.0 * q * q * (1.0 + grown) * grown
    second = first * ((1.0 + 2.0 * grown) / (1.0 + grown) - 4.0 * q * (1.0 + grown) * grown)
    return grown * (grown + 2.0) * q, first, second


def density(x: Values) -> Values:
    return np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)


def distribution(x: Values) -> Values:
    return 0.5 * ERFC(-x * math.sqrt(0.5))


def inner(x: Values) -> tuple[Values, Values, Values]:
    """The argument of the tanh that stands for a normal distribution, and its derivatives."""
    factor = math.sqrt(2.0 / math.pi)
    return factor * (x + 0.044715 * x**3), factor * (1.0 + 0.134145 * x * x), factor * 0.26829 * x


def slope_of_tanh_gelu(x: Values) -> Values:
    u, du, _ = inner(x)
    return sigmoid(2.0 * u) * (1.0 + 2.0 * x * du * sigmoid(-2.0 * u))


def curve_of_tanh_gelu(x: Values) -> Values:
    u, du, ddu = inner(x)
    s, t = sigmoid(2.0 * u), sigmoid(-2.0 * u)
    return s * t * (4.0 * du + 2.0 * x * ddu + 4.0 * x * du * du * (t - s))


def exponential_unit(alpha: float, rate: float, scale: float) -> tuple[Reference, ...]:
    """x where it is positive, else alpha (exp(x / rate) - 1), both scaled, and the derivatives."""
    return (
        lambda x: scale * np.where(x > 0, x, alpha * np.expm1(x / rate)),
        lambda x: scale * np.where(x > 0, 1.0, alpha / rate * np.exp(np.minimum(x, 0.0) / rate)),
        lambda x: scale * np.where(x > 0, 0.0, alpha / rate**2 * np.exp(np.minimum(x, 0.0) / rate)),
    )


def curve_of_sigmoid(x: Values) -> Values:
    return sigmoid(x) * sigmoid(-x) * (sigmoid(-x) - sigmoid(x))


ZERO: Reference = np.zeros_like
FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    **{name: getattr(op, name) for name in (
        "relu", "relu6", "hardtanh", "hardsigmoid", "hardswish", "leaky_relu", "elu", "selu", "softsign",
        "sigmoid", "log_sigmoid", "silu", "mish", "gelu", "softplus",
    )},
    "gelu tanh": lambda x: op.gelu(x, "tanh"), "celu 3": lambda x: op.celu(x, 3.0),
    "leaky_relu 0": lambda x: op.leaky_relu(x, 0.0),
}  # fmt: skip
REFERENCES: dict[str, tuple[Reference, ...]] = {
    "relu": (lambda x: np.maximum(x, 0.0), lambda x: (x > 0) * 1.0, ZERO),
    "leaky_relu 0": (lambda x: np.maximum(x, 0.0), lambda x: (x > 0) * 1.0, ZERO),
    "leaky_relu": (lambda x: np.where(x > 0, x, 0.01 * x), lambda x: np.where(x > 0, 1.0, 0.01), ZERO),
    "relu6": (lambda x: np.clip(x, 0.0, 6.0), between(0.0, 6.0, np.ones_like, 0.0, 0.0), ZERO),
    "hardtanh": (lambda x: np.clip(x, -1.0, 1.0), between(-1.0, 1.0, np.ones_like, 0.0, 0.0), ZERO),
    "hardsigmoid": (
        lambda x: (np.clip(x, -3.0, 3.0) + 3.0) / 6.0,
        between(-3.0, 3.0, lambda x: np.full_like(x, 1.0 / 6.0), 0.0, 0.0), ZERO,
    ),
    "hardswish": (
        between(-3.0, 3.0, lambda x: x * (x + 3.0) / 6.0, 0.0, lambda x: x),
        between(-3.0, 3.0, lambda x: (2.0 * x + 3.0) / 6.0, 0.0, 1.0),
        between(-3.0, 3.0, lambda x: np.full_like(x, 1.0 / 3.0), 0.0, 0.0),
    ),
    "elu": exponential_unit(1.0, 1.0, 1.0),
    "selu": exponential_unit(ALPHA, 1.0, SCALE),
    "celu 3": exponential_unit(3.0, 3.0, 1.0),
    "softsign": (
        limited(lambda x: x / (1.0 + abs(x)), -1.0, 1.0), lambda x: np.power(1.0 + abs(x), -2.0),
        lambda x: -2.0 * np.sign(x) / (1.0 + abs(x)) ** 3,
    ),
    "sigmoid": (sigmoid, lambda x: sigmoid(x) * sigmoid(-x), curve_of_sigmoid),
    "log_sigmoid": (lambda x: -softplus(-x), lambda x: sigmoid(-x), lambda x: -sigmoid(x) * sigmoid(-x)),
    "silu": (limited(lambda x: x * sigmoid(x), 0.0), limited(slope_of_silu, 0.0, 1.0), limited(curve_of_silu, 0.0, 0.0)),
    "mish": (
        limited(lambda x: x * logistic_tanh(x)[0], 0.0),
        limited(lambda x: logistic_tanh(x)[0] + x * logistic_tanh(x)[1], 0.0, 1.0),
        limited(lambda x: 2.0 * logistic_tanh(x)[1] + x * logistic_tanh(x)[2], 0.0, 0.0),
    ),
    "gelu": (
        limited(lambda x: x * distribution(x), 0.0),
        limited(lambda x: distribution(x) + x * density(x), 0.0, 1.0),
        limited(lambda x: (2.0 - x * x) * density(x), 0.0, 0.0),
    ),
    "gelu tanh": (
        limited(lambda x: x * sigmoid(2.0 * inner(x)[0]), 0.0),
        limited(slope_of_tanh_gelu, 0.0, 1.0), limited(curve_of_tanh_gelu, 0.0, 0.0),
    ),
    "softplus": (softplus, sigmoid, lambda x: sigmoid(x) * sigmoid(-x)),
}  # fmt: skip
NAMES = sorted(REFERENCES)
CANCELS = ("gelu", "gelu tanh")
"""Whose small numbers are differences of 1 and a number near it: right relative to 1, as PyTorch's."""
IGNORES_NAN = {"relu", "relu6", "hardtanh", "leaky_relu 0", "leaky_relu", "hardsigmoid", "hardswish"}
"""Whose derivative is that of a branch: a number for NaN, too."""


def values(x: Array) -> Array:
    """Every function, each of a row of its own: one graph for all."""
    return op.stack([FUNCTIONS[name](x[number]) for number, name in enumerate(NAMES)])


def total(x: Array) -> Array:
    y = values(x)
    return op.sum(y), y


def total_slope(x: Array) -> Array:
    slope, y = tessera.grad(total, has_aux=True)(x)
    return op.sum(slope), (y, slope)


DERIVED: Callable[..., Any] = tessera.grad(total_slope, has_aux=True)


def derivatives(x: NDArray[Any]) -> tuple[Values, Values, Values]:
    """Values and two derivatives of all functions at the same numbers, in f64: [names, numbers]."""
    curve, (y, slope) = DERIVED(np.broadcast_to(x, (len(NAMES), *x.shape)).copy())
    a, b, c = (np.asarray(each).astype(np.float64) for each in (y, slope, curve))
    return a, b, c


@pytest.mark.parametrize("dtype", FLOATS)
def test_values_and_derivatives(dtype: str):
    with np.errstate(all="ignore"):
        x = np.array((*POINTS, math.nan)).astype(FLOATS[dtype])
        expected = [[np.asarray(f(x.astype(np.float64)), np.float64) for f in REFERENCES[name]] for name in NAMES]
    smallest, unit = float(ml_dtypes.finfo(FLOATS[dtype]).tiny), 2.0**-52 if dtype == "f64" else 2.0**-23
    largest = float(ml_dtypes.finfo(FLOATS[dtype]).max)
    # Floats of 16 bits are computed by the same kernels of f32, and rounded.
    for target in TARGETS if dtype in ("f64", "f32") else ("interpret",):
        with overridden(target=target):
            got = derivatives(x)
        assert np.isnan(got[0][:, -1]).all()
        assert {name for name, slope in zip(NAMES, got[1][:, -1], strict=True) if not np.isnan(slope)} == IGNORES_NAN
        for number, name in enumerate(NAMES):
            # The second derivative changes its sign, where its terms cancel.
            absolute = [4 * unit, 4 * unit, 32 * unit] if name in CANCELS else [smallest, smallest, unit]
            for order, (want, least) in enumerate(zip(expected[number], absolute, strict=True)):
                right = np.where(abs(want) > largest, np.copysign(math.inf, want), want)[:-1]
                np.testing.assert_allclose(
                    got[order][number, :-1], right, rtol=TOLERANCE[dtype], atol=least, err_msg=f"{name}, order {order}"
                )


@settings(max_examples=10)
@given(st.lists(st.floats(allow_nan=False, width=32), min_size=len(POINTS) + 1, max_size=len(POINTS) + 1))
def test_values_and_derivatives_of_any_numbers_are_finite(numbers: list[float]):
    x = np.clip(np.array(numbers), -1e30, 80.0).astype(np.float32)
    with overridden(target="interpret"):
        for each in derivatives(x):
            infinite = [name for name, row in zip(NAMES, each, strict=True) if not np.isfinite(row).all()]
            assert not infinite
