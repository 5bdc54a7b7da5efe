"""Arithmetic of polynomials is that of their values."""

from hypothesis import given
from hypothesis import strategies as st

from tessera.core.graph.polynomials import Polynomial, evaluated, ordered, plus, quotient, scaled, times

MONOMIALS = st.lists(st.integers(0, 2), max_size=3).map(lambda each: tuple(sorted(each)))
POLYNOMIALS = st.dictionaries(MONOMIALS, st.integers(-9, 9), max_size=4).map(ordered)
VALUES = st.tuples(*[st.integers(-20, 20)] * 3)


@given(POLYNOMIALS, POLYNOMIALS, VALUES)
def test_sums_and_products(one: Polynomial, other: Polynomial, values: tuple[int, ...]):
    a, b = evaluated(one, values), evaluated(other, values)
    assert evaluated(plus(one, other), values) == a + b
    assert evaluated(times(one, other), values) == a * b
    assert evaluated(scaled(one, -3), values) == -3 * a
    assert plus(one, scaled(one, -1)) == ()


@given(POLYNOMIALS, MONOMIALS, st.integers(1, 5))
def test_what_comes_out_even_is_divided(one: Polynomial, monomial: tuple[int, ...], factor: int):
    divisor = ((monomial, factor),)
    assert quotient(times(one, divisor), divisor) == one


@given(POLYNOMIALS, POLYNOMIALS, VALUES)
def test_quotients_are_exact(one: Polynomial, other: Polynomial, values: tuple[int, ...]):
    found = quotient(one, other)
    if found is not None:
        assert evaluated(found, values) * evaluated(other, values) == evaluated(one, values)
