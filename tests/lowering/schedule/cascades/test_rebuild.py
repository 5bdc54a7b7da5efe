"""Expressions made of terms."""

import pytest

from tessera.core.base.dtypes import bf16, boolean, f16, f32, f64, i64
from tessera.core.graph.expr import Argument, Literal, to_text
from tessera.lowering.schedule.cascades.rebuild import (
    accumulated_in,
    all_of,
    linear_of,
    negated,
    product_of,
    sum_of,
    term_of,
)
from tessera.lowering.schedule.cascades.terms import Term

X, Y, C = Argument(0, f64), Argument(1, f64), Argument(2, boolean)


@pytest.mark.parametrize(("powers", "coefficient", "text"), [
    ((), 2.0, "2.0"),
    (((X, 1.0),), 1.0, "x0"),
    (((X, 1.0),), -1.0, "-x0"),
    (((X, 2.0), (Y, 1.0)), 3.0, "(((x0 * x0) * x1) * 3.0)"),
    (((X, 1.0), (Y, -1.0)), 1.0, "(x0 / x1)"),
    (((X, -2.0),), 2.0, "(2.0 / (x0 * x0))"),
    (((X, 0.5),), 1.0, "sqrt(x0)"),
    (((X, -0.5),), 1.0, "rsqrt(x0)"),
    (((X, 1.5),), 1.0, "pow(x0, 1.5)"),
    (((X, 7.0),), 1.0, "pow(x0, 7.0)"),
    (((X, -1.5),), 1.0, "(1.0 / pow(x0, 1.5))"),
])  # fmt: skip
def test_products(powers: tuple[tuple[Argument, float], ...], coefficient: float, text: str):
    assert to_text(product_of(powers, f64, coefficient)) == text


def test_sums_begin_with_what_is_positive():
    terms = (Term(-2.0, ((X, 1.0),)), Term(1.0, ((Y, 1.0),)))
    assert to_text(sum_of(terms, f64)) == "(x1 - (x0 * 2.0))"
    assert to_text(sum_of((), f64)) == "0.0"
    assert to_text(linear_of(((((X, 1.0),), -1.0), ((), 3.0)), f64)) == "(3.0 - x0)"
    assert to_text(linear_of((), f64)) == "0.0"


def test_terms_have_exponentials_and_conditions():
    term = Term(1.0, indicator=(C,), exponent=((((X, 1.0),), 1.0),), shift=((((Y, 1.0),), -1.0),))
    assert to_text(term_of(term, f64)) == "select(x2, exp((x0 - x1)), 0.0)"
    assert to_text(term_of(Term(2.0, shift=((((Y, 1.0),), -1.0),)), f64)) == "(2.0 * exp(-x1))"


def test_narrow_atoms_are_widened_where_they_are_used():
    assert to_text(product_of(((Argument(0, bf16), 2.0),), f32)) == "(f32(x0) * f32(x0))"


def test_negation_undoes_itself():
    assert negated(negated(X)) == X
    assert negated(Literal(2.0, f64)) == Literal(-2.0, f64)


def test_conditions_are_joined():
    assert all_of(()) is None
    assert to_text(all_of((C, C)) or X) == "(x2 & x2)"


def test_sums_of_halves_are_kept_in_f32():
    assert [accumulated_in(each) for each in (f16, bf16, f32, f64, i64)] == [f32, f32, f32, f64, i64]
