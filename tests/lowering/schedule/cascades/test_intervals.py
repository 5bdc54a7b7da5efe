"""Bounds hold for every value, and are tight where attention needs them."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.cascades import E, absolute, exp, exp2, log, maximum, minimum, rsqrt, sqrt, tanh, where
from tessera.core.base.dtypes import f32, f64
from tessera.core.graph.expr import Apply, Argument, Expr, Literal
from tessera.lowering.schedule.cascades.evaluate import evaluate
from tessera.lowering.schedule.cascades.intervals import EVERYTHING, interval

X, Y = E(Argument(0, f64)), E(Argument(1, f64))


@pytest.mark.parametrize(("expr", "bounds"), [
    (X, EVERYTHING),
    (20.0 * tanh(X / 20.0), (-20.0, 20.0)),
    (1.0 / (1.0 + exp(-X)), (0.0, 1.0)),
    (-3.0 / (1.0 + exp(-X)), (-3.0, 0.0)),
    (minimum(maximum(X, -30.0), 30.0), (-30.0, 30.0)),
    (maximum(X, 0.0), (0.0, math.inf)),
    (X * X, (0.0, math.inf)),
    (tanh(X) ** 2, (0.0, 1.0)),
    (tanh(X) ** 3, (-1.0, 1.0)),
    (X**0.5, EVERYTHING),
    (absolute(tanh(X)) - 1.0, (-1.0, 0.0)),
    (where(X > 0.0, tanh(X), Y * 0.0), (-1.0, 1.0)),
    (exp(minimum(X, 0.0)), (0.0, 1.0)),
    (exp(minimum(X, 1e9)), (0.0, math.inf)),
    (sqrt(maximum(tanh(X), 0.0)), (0.0, 1.0)),
    (rsqrt(X), (0.0, math.inf)),
    (1.0 / tanh(X), EVERYTHING),
    (1.0 / maximum(X, 2.0), (0.0, 0.5)),
    (1.0 / maximum(X, 0.0), (0.0, math.inf)),
    (E(Apply("floor", ((tanh(X) * 2.5).expr,), f64)), (-3.0, 2.0)),
    (E(Apply("sin", (X.expr,), f64)) + E(Apply("erf", (X.expr,), f64)), (-2.0, 2.0)),
    (E(Apply("fma", (tanh(X).expr, Literal(2.0, f64), Literal(1.0, f64)), f64)), (-1.0, 3.0)),
    (tanh(X).to(f32), (-1.0, 1.0)),
    (E(Apply("mod", (X.expr, Y.expr), f64)), EVERYTHING),
])  # fmt: skip
def test_bounds(expr: E, bounds: tuple[float, float]):
    assert interval(expr.expr, {}) == bounds


def test_what_is_known_of_arguments_counts():
    assert interval((X * 16.0 + Y).expr, {0: (-1.0, 1.0), 1: (0.0, 2.0)}) == (-16.0, 18.0)


@st.composite
def expressions(draw: st.DrawFn, depth: int = 3) -> Expr:
    """Draw an expression of two arguments."""
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        return draw(st.sampled_from([X.expr, Y.expr, Literal(draw(st.floats(-3, 3)), f64)]))
    a, b = E(draw(expressions(depth - 1))), E(draw(expressions(depth - 1)))
    functions = [
        a + b, a - b, a * b, a / b, a * a, -a, tanh(a), exp(a), exp2(a), log(a), sqrt(a), absolute(a), maximum(a, b),
        minimum(a, b), a**2, a**3, where(a < b, a, b),
    ]  # fmt: skip
    return draw(st.sampled_from(functions)).expr


@settings(max_examples=200, deadline=None)
@given(expr=expressions(), x=st.floats(-2, 2), y=st.floats(0.5, 4))
def test_values_are_within_bounds(expr: Expr, x: float, y: float):
    low, high = interval(expr, {0: (-2.0, 2.0), 1: (0.5, 4.0)})
    value = float(evaluate(expr, [np.array(x), np.array(y)]))
    margin = 1e-9 * max(1.0, abs(value)) if math.isfinite(value) else 0.0
    assert math.isnan(value) or low - margin <= value <= high + margin
