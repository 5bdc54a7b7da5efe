"""Elementary functions over the whole range of each float dtype: values and two derivatives, against f64."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import tessera
from support.operators import FLOATS, Array
from tessera import op
from tessera.core.settings import overridden

Values = NDArray[np.float64]
Function = Callable[[Values], Values]
MAGNITUDES = (0.0, 1e-30, 1e-3, 0.25, 0.5, 1.0, 1.5, 3.0, 12.0, 20.0, 88.0, 300.0, 1e4, math.inf)
POINTS = np.array([*MAGNITUDES, *(-each for each in MAGNITUDES), math.nan])
TOLERANCE = {"f64": 1e-12, "f32": 1e-5, "f16": 2e-3, "bf16": 1.6e-2}
LN2, PI = math.log(2.0), math.pi


def _erf(x: Values) -> Values:
    return np.vectorize(math.erf, otypes=[float])(x)


def _bell(x: Values) -> Values:
    return 2.0 / math.sqrt(PI) * np.exp(-x * x)


def _zero(x: Values) -> Values:
    return np.zeros_like(x)


FUNCTIONS: dict[str, tuple[Function, Function, Function]] = {
    "exp": (np.exp, np.exp, np.exp),
    "exp2": (np.exp2, lambda x: LN2 * np.exp2(x), lambda x: LN2 * LN2 * np.exp2(x)),
    "log": (np.log, lambda x: 1 / x, lambda x: -1 / x**2),
    "log2": (np.log2, lambda x: 1 / (LN2 * x), lambda x: -1 / (LN2 * x**2)),
    "sqrt": (np.sqrt, lambda x: 0.5 / np.sqrt(x), lambda x: -0.25 / np.sqrt(x) ** 3),
    "rsqrt": (lambda x: 1 / np.sqrt(x), lambda x: -0.5 / np.sqrt(x) ** 3, lambda x: 0.75 / np.sqrt(x) ** 5),
    "sin": (np.sin, np.cos, lambda x: -np.sin(x)),
    "cos": (np.cos, lambda x: -np.sin(x), lambda x: -np.cos(x)),
    "tanh": (np.tanh, lambda x: 1 / np.cosh(x) ** 2, lambda x: -2 * np.tanh(x) / np.cosh(x) ** 2),
    "erf": (_erf, _bell, lambda x: np.where(np.isinf(x), 0.0, -2 * x * _bell(x))),
    "square": (np.square, lambda x: 2 * x, lambda x: np.full_like(x, 2.0)),
    "reciprocal": (lambda x: 1 / x, lambda x: -1 / x**2, lambda x: 2 / x**3),
    "abs": (np.abs, np.sign, _zero),
    "fabs": (np.fabs, np.sign, _zero),
    "negative": (np.negative, lambda x: np.full_like(x, -1.0), _zero),
    "rint": (np.rint, _zero, _zero),
    "floor": (np.floor, _zero, _zero),
    "ceil": (np.ceil, _zero, _zero),
    "trunc": (np.trunc, _zero, _zero),
    "round": (np.rint, _zero, _zero),
    "sign": (np.sign, _zero, _zero),
    "arctan": (np.arctan, lambda x: 1 / (1 + x * x), lambda x: np.where(np.isinf(x), 0.0, -2 * x / (1 + x * x) ** 2)),
    "arcsin": (np.arcsin, lambda x: (1 - x * x) ** -0.5, lambda x: x * (1 - x * x) ** -1.5),
    "arccos": (np.arccos, lambda x: -((1 - x * x) ** -0.5), lambda x: -x * (1 - x * x) ** -1.5),
    "arcsinh": (np.arcsinh, lambda x: 1 / np.hypot(x, 1), lambda x: np.where(np.isinf(x), 0.0, -x / np.hypot(x, 1) ** 3)),
    "arccosh": (np.arccosh, lambda x: (x * x - 1) ** -0.5, lambda x: np.where(np.isinf(x), 0.0, -x * (x * x - 1) ** -1.5)),
    "arctanh": (np.arctanh, lambda x: 1 / (1 - x * x), lambda x: 2 * x / (1 - x * x) ** 2),
    "cbrt": (np.cbrt, lambda x: np.cbrt(x) ** -2 / 3, lambda x: -2 / 9 * np.cbrt(x) ** -5),
    "degrees": (np.degrees, lambda x: np.full_like(x, 180 / PI), _zero),
    "radians": (np.radians, lambda x: np.full_like(x, PI / 180), _zero),
}  # fmt: skip
DOMAINS = {
    "log": (0, math.inf), "log2": (0, math.inf), "sqrt": (0, math.inf), "rsqrt": (0, math.inf), "arccosh": (1, math.inf),
    "arcsin": (-1, 1), "arccos": (-1, 1), "arctanh": (-1, 1),
}  # fmt: skip


def derivatives(name: str, x: NDArray[Any]) -> list[Values]:
    """Return an operator's values and two derivatives, in f64."""
    function = getattr(op, name)

    def slope(x: Array) -> Array:
        return tessera.grad(lambda v: op.sum(function(v)))(x)

    def curve(x: Array) -> Array:
        return tessera.grad(lambda v: op.sum(slope(v)))(x)

    with overridden(target="interpret"):
        return [np.asarray(f(x)).astype(np.float64) for f in (function, slope, curve)]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_derivatives(name: str, dtype: str):
    least, greatest = DOMAINS.get(name, (-math.inf, math.inf))
    points = POINTS[~((least > POINTS) | (greatest < POINTS))]
    x = points.astype(FLOATS[dtype])
    info = ml_dtypes.finfo(FLOATS[dtype])
    with np.errstate(all="ignore"):
        expected = [np.asarray(f(x.astype(np.float64)), np.float64) for f in FUNCTIONS[name]]
    for order, (got, want) in enumerate(zip(derivatives(name, x), expected, strict=True)):
        kept = ~np.isnan(x.astype(np.float64)) if order else np.ones(len(x), np.bool_)  # a derivative at NaN may be 0
        with np.errstate(all="ignore"):
            rounded = want.astype(FLOATS[dtype]).astype(np.float64)  # beyond the greatest number it is infinite
        smallest = float(info.tiny) * 4
        if name == "tanh" and order:  # 1 - tanh^2, right relative to 1, as everywhere
            smallest = 4 * float(np.finfo(np.float64 if dtype == "f64" else np.float32).eps)
        np.testing.assert_allclose(got[kept], rounded[kept], rtol=TOLERANCE[dtype], atol=smallest, err_msg=f"{order}")
