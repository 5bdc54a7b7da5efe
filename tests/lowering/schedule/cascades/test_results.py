"""Results over the state: what is common to numerators and divisors cancels, and nothing overflows that need not."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.cascades import E, absolute, exp, exp2, log, log2, maximum, rsqrt, sqrt
from tessera.core.base.dtypes import DType, boolean, f32, f64, i64
from tessera.core.graph.expr import Apply, Argument, Expr, Literal, to_text
from tessera.lowering.schedule.cascades.evaluate import evaluate
from tessera.lowering.schedule.cascades.rebuild import sum_of
from tessera.lowering.schedule.cascades.results import Results
from tessera.lowering.schedule.cascades.terms import NormalForm, Term, collect, symbol

# State: sums A and B, an anchor c; results: l = A exp(c - m), m a maximum.
A, B, C, M = (Argument(number, f64) for number in range(4))
TOTAL, MAXIMUM, OTHER = (E(Argument(number, f64)) for number in (10, 11, 12))


def _results(tied: bool = False) -> Results:
    shift = ((((C, 1.0),), 1.0), (((M, 1.0),), -1.0))
    total: NormalForm = (Term(1.0, parameters=((A, 1.0),), shift=shift),)
    forms = {10: total, 11: symbol(M, varies=False), 12: symbol(B, varies=False)}
    return Results(forms, {M: C} if tied else {})


def _text(expr: E, tied: bool = False) -> str:
    return to_text(sum_of(_results(tied).value(expr.expr), f64), ("A", "B", "c", "m"))


@pytest.mark.parametrize(("expr", "text"), [
    (MAXIMUM + log(TOTAL), "(log(A) + c)"),
    (log2(exp2(OTHER)), "B"),
    (TOTAL / TOTAL, "1.0"),
    (exp(-log(OTHER)), "(1.0 / B)"),
    (exp(2.0 * log(TOTAL) + MAXIMUM), "((A * A) * exp(((c * 2.0) - m)))"),
    (rsqrt(OTHER * OTHER + 1.0), "rsqrt(((B * B) + 1.0))"),
    (sqrt(exp(OTHER)), "exp((B * 0.5))"),
    (absolute(OTHER - MAXIMUM), "abs((B - m))"),
    ((OTHER + 1.0) / (OTHER + 1.0), "1.0"),
    (log(OTHER * 0.0 + 2.0), str(float(np.log(2.0)))),
    (log(-exp(OTHER)), "log(-exp(B))"),
])  # fmt: skip
def test_simplified(expr: E, text: str):
    assert _text(expr) == text


def test_tied_maxima_cancel_with_their_anchor_in_exponents():
    results = _results(tied=True)
    exponent = collect([*symbol(C, varies=False), Term(-1.0, parameters=((M, 1.0),))])
    assert results.exponential(exponent, f64) == (Term(1.0),)
    assert results.with_anchors(exponent) == ()
    assert _results().with_anchors(exponent) == exponent


def test_exponents_are_written_as_other_results_are():
    def guarded(form: NormalForm, dtype: DType) -> Expr:
        made = sum_of(form, dtype)
        empty = Apply("cmp", (A, Literal(0.0, f64)), boolean, "eq")
        uses = any(expr == A for term in form for expr, _ in term.parameters)
        return Apply("select", (empty, Literal(0.0, f64), made), f64) if uses else made

    results = Results(_results().arguments, {}, guarded)
    got = sum_of(results.value(exp(TOTAL / OTHER).expr), f64)
    assert to_text(got, ("A", "B", "c", "m")) == "exp(select((A == 0.0), 0.0, ((A / B) * exp((c - m)))))"
    values = [np.array(0.0), np.array(2.0), np.array(2000.0), np.array(0.0)]
    assert evaluate(got, values) == 1.0


def test_divisors_take_out_the_greatest_exponential():
    (term,) = _results().power(_results().value((1.0 + exp(OTHER)).expr), -1.0, f64)
    assert term.coefficient == 1.0
    got = sum_of((term,), f64)
    for value in (-2000.0, -1.0, 0.0, 1.0, 2000.0):
        want = np.exp(-np.logaddexp(0.0, value))
        assert evaluate(got, [np.zeros(()), np.array(value)]) == pytest.approx(want, rel=1e-12)


def test_common_factors_come_out_of_sums():
    results = _results()
    terms = results.value((OTHER * MAXIMUM + OTHER * 2.0).expr)
    (term,) = results.group(terms, f64)
    assert (B, 1.0) in term.parameters
    rest = next(expr for expr, _ in term.parameters if expr != B)
    assert to_text(rest, ("A", "B", "c", "m")) == "(m + 2.0)"
    assert rest in results.groups


def test_functions_of_other_types_are_kept():
    flag = Apply("cmp", (OTHER.expr, Literal(0.0, f64)), boolean, "gt")
    chosen = E(Apply("select", (flag, OTHER.expr, MAXIMUM.expr), f64))
    assert _text(chosen) == "select((B > 0.0), B, m)"
    counted = E(Apply("cast", (Apply("cast", (OTHER.expr,), i64),), f64))
    assert _text(counted) == "f64(i64(B))"
    assert _text(OTHER.to(f32).to(f64)) == "f64(f32(B))"


@st.composite
def expressions(draw: st.DrawFn, depth: int = 3) -> Expr:
    """Draw an expression of results that are above 0."""
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        return draw(st.sampled_from([TOTAL.expr, MAXIMUM.expr, OTHER.expr, Literal(draw(st.floats(0.5, 2)), f64)]))
    a, b = E(draw(expressions(depth - 1))), E(draw(expressions(depth - 1)))
    return draw(st.sampled_from([
        a + b, a * b, a / b, a - b, log(absolute(a) + 1.0), sqrt(absolute(a) + 0.5), exp(-absolute(a)), a * a, maximum(a, b),
        rsqrt(a * a + 1.0), log(exp(-a) + exp(-b)), exp(log(absolute(a) + 0.5) * 0.5), a**2 / (absolute(b) + 0.1),
    ])).expr  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(expr=expressions(), seed=st.integers(0, 2**32 - 1))
def test_values_stay(expr: Expr, seed: int):
    state = [np.array(each) for each in np.random.default_rng(seed).uniform(0.5, 2.0, 4)]
    total = np.array(state[0] * np.exp(state[2] - state[3]))
    arguments = [*state, *[np.zeros(())] * 6, total, state[3], state[1]]
    want = float(evaluate(expr, arguments))
    got = float(evaluate(sum_of(_results().value(expr), f64), state))
    if np.isfinite(want) and abs(want) < 1e8:
        assert got == pytest.approx(want, rel=1e-6, abs=1e-6)
