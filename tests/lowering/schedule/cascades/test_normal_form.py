"""Normal forms have the values of what they are made of, and take apart only what must be."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.cascades import NEVER, E, exp, exp2, log, maximum, minimum, rsqrt, sqrt, tanh, where
from tessera.core.base.dtypes import bf16, boolean, f32, f64, fp8_e4m3
from tessera.core.graph.expr import Apply, Argument, Literal
from tessera.lowering.schedule.cascades.evaluate import Array, evaluate
from tessera.lowering.schedule.cascades.normal_form import Normalizer, Uses, is_widening
from tessera.lowering.schedule.cascades.rebuild import sum_of
from tessera.lowering.schedule.cascades.terms import NormalForm, NotSeparable, Term

X, Y, V = (E(Argument(number, f64)) for number in (0, 1, 2))
C, D = (E(Argument(number, boolean)) for number in (3, 4))
T = E(Argument(5, f64))  # does not vary
R, Q = (E(Argument(number, f64)) for number in (6, 7))  # results
NARROW = E(Argument(8, bf16))


def _uses(number: int) -> Uses:
    return {5: Uses.INVARIANTS, 6: Uses.RESULTS, 7: Uses.RESULTS}.get(number, Uses.ATOMS)


def _normal(expr: E) -> NormalForm:
    return Normalizer(_uses).normal(expr.expr)


@pytest.mark.parametrize("expr", [
    X * Y, X + Y, X - R, (X - R) * (Y - Q), (X - R) ** 3, X / R, X / (Y + 1.0), exp(X - R), exp2(X - R) * V,
    exp(X - R) / Q * V, exp((X - R) * 0.5), exp(X * T - R), exp(-(X - R)), -X * (R + 1.0), sqrt(Y) * R, rsqrt(Y) * R,
    (exp(X - R)) ** 2, sqrt(exp(X - R)), where(C, X, 0.0) * R, where(C, X - R, Y), where(C & ~D, exp(X - R), 0.0),
    exp(where(C, X, NEVER) - R), exp(X + where(C, 0.0, NEVER) - R), exp(where(C, NEVER, X) * 2.0 - R),
    exp(-(where(C, X, math.inf) + R)), exp(2.0 * where(C, X, NEVER) - where(D, Y, math.inf)),
    exp(maximum(where(C, X, NEVER), NEVER) - R), exp(where(C, where(D, X, NEVER), NEVER) / 2.0 - R),
    C.to(f64) * R, where(C, X, -1e9) * R, tanh(X * T) * R, log(Y) * R, maximum(X, NEVER) - R, minimum(X, math.inf) * R,
    (1.0 + exp(-X)) * R, (exp(X) + 1.0) ** 2 * R, exp(where(C, X, 0.25) - R), exp(tanh(X) * Y - R), X - X + R,
    E(Apply("fma", (X.expr, R.expr, Y.expr), f64)), E(Apply("fma", (X.expr, Literal(2.0, f64), R.expr), f64)),
    where(R > 0.0, R, Q) * X, NARROW.to(f64) - R, exp(X - (R + log(Q))), X * 0.0 + R * X, (X + T) * R, R * Q + 1.0,
])  # fmt: skip
@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_values_stay(expr: E, seed: int):
    rng = np.random.default_rng(seed)
    values: list[Array] = [rng.uniform(0.5, 2.0, 6) for _ in range(9)]
    values[3], values[4] = rng.random(6) < 0.5, rng.random(6) < 0.5
    values[8] = values[8].astype(bf16.numpy)
    want = evaluate(expr.expr, values)
    assert np.allclose(evaluate(sum_of(_normal(expr), f64), values), want, rtol=1e-12)


def test_parts_without_results_stay_whole():
    for expr in (X + Y, tanh(X + Y), (X + 1.0) * (Y + 1.0), where(C, X, Y), 1.0 / (1.0 + exp(-X))):
        (term,) = _normal(expr * R)
        assert len(term.atoms) == (2 if expr.expr == ((X + 1.0) * (Y + 1.0)).expr else 1)
        assert not term.exponent


def test_elements_that_cancel_do_so_before_they_are_weighted():
    (term,) = _normal((C.to(f64) - Y) * exp(X - R))
    assert term.atoms == (((C.to(f64) - Y).expr, 1.0),)
    assert term.indicator == ()
    (term,) = _normal((where(C, X, 0.0) + where(C & D, Y, 0.0)) * R)
    assert term.indicator == (C.expr,)


def test_exponents_are_taken_apart():
    (one,) = _normal(exp(X + Y - R))
    (two,) = _normal(exp(Y) * exp(X) * exp(-R))
    assert one == two
    assert one.exponent == ((((X.expr, 1.0),), 1.0), (((Y.expr, 1.0),), 1.0))
    assert one.shift == ((((R.expr, 1.0),), -1.0),)


def test_indicators_are_conditions_that_all_hold():
    (term,) = _normal(where(C, exp(where(C & D, X, NEVER) - R), 0.0))
    assert term.indicator == (C.expr, D.expr)
    assert _normal(where(C, where(~C, X, 0.0), 0.0) * R) == ()


def test_what_does_not_vary_may_meet_results_and_exponents():
    (term,) = _normal(exp(X * T) * T)
    assert term.parameters == ((T.expr, 1.0),)
    assert term.exponent == ((((X.expr, 1.0), (T.expr, 1.0)), 1.0),)


def test_numbers_are_folded():
    assert _normal(X * 2.0 * 3.0 * R) == (Term(6.0, ((X.expr, 1.0),), ((R.expr, 1.0),)),)
    (term,) = _normal(exp2(X * 2.0 - R))
    assert term.exponent[0][1] == pytest.approx(2 * math.log(2))
    assert _normal(E(Literal(0.0, f64)) * X) == ()


@pytest.mark.parametrize(("expr", "reason"), [
    (tanh(X - R), "tanh of atoms mixed"),
    (exp(X * R), "the exponent multiplies"),
    (where(X > R, X, 0.0), "the condition depends"),
    ((X - R).to(f32).to(f64), "it rounds to f32"),
    ((X - R) ** 0.5, "pow of atoms mixed"),
    (E(Apply("pow", (X.expr, R.expr), f64)), "pow of atoms mixed"),
    ((X - R) ** 5, "pow of atoms mixed"),
    (1.0 / (X - R), "div of atoms mixed"),
    (exp(exp(X - R)), "inside of an exponent"),
    (maximum(X, R), "max of atoms mixed"),
    (1.0 / where(C, X - R, 0.0), "atoms mixed"),
])  # fmt: skip
def test_refusals(expr: E, reason: str):
    with pytest.raises(NotSeparable, match=reason):
        _normal(expr)


def test_only_exact_casts_are_transparent():
    narrow, wide = Argument(0, bf16), Argument(0, f32)
    code = Argument(0, fp8_e4m3)
    assert is_widening(Apply("cast", (narrow,), f32))
    assert is_widening(Apply("cast", (code,), bf16))
    assert not is_widening(Apply("cast", (wide,), bf16))
    assert not is_widening(Apply("cast", (Argument(0, boolean),), f32))


def test_linear_forms_are_of_what_varies():
    normalizer = Normalizer(_uses)
    assert normalizer.linear((X * 2.0 + Y - 1.0).expr) == (((), -1.0), (((X.expr, 1.0),), 2.0), (((Y.expr, 1.0),), 1.0))
    assert normalizer.split((X - R).expr) == (((((X.expr, 1.0),), 1.0),), ((((R.expr, 1.0),), -1.0),))
    assert normalizer.masked(where(C, X, NEVER).expr, NEVER) == ((C.expr,), X.expr)
    assert normalizer.masked(X.expr, NEVER) == ((), X.expr)
