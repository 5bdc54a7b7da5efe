"""The algebra of terms: products, powers, indicators, and the derivative that finds differences."""

import pytest

from support.cascades import E
from tessera.core.base.dtypes import boolean, f64
from tessera.core.graph.expr import Argument
from tessera.lowering.schedule.cascades.terms import (
    NotSeparable,
    Term,
    add_linear,
    collect,
    conditions,
    conjunction,
    multiply,
    negation,
    product,
    raised,
    rates,
    scale,
    scale_linear,
    shifted_by,
    symbol,
)

X, Y, R = (Argument(number, f64) for number in range(3))
A, B = (E(Argument(number, boolean)) for number in (3, 4))


def test_products_add_powers_and_drop_those_that_cancel():
    assert product(((Y, 1.0),), ((X, 2.0), (Y, 1.0))) == ((X, 2.0), (Y, 2.0))
    assert product(((X, 1.0),), ((X, -1.0),)) == ()
    assert raised(((X, 2.0),), 0.5) == ((X, 1.0),)
    assert raised(((X, 2.0),), 0) == ()


def test_linear_forms_add_and_cancel():
    x, one = ((X, 1.0),), ()
    assert add_linear(((x, 2.0),), ((x, -2.0), (one, 3.0))) == ((one, 3.0),)
    assert scale_linear(((x, 2.0),), -0.5) == ((x, -1.0),)
    assert scale_linear(((x, 2.0),), 0) == ()


def test_what_is_left_by_rounding_is_nothing():
    x = ((X, 1.0),)
    assert add_linear(((x, 49 * (1 / 49)),), ((x, -1.0),)) == ()
    assert collect([Term(0.1, x), Term(0.2, x), Term(-0.3, x)]) == ()


def test_terms_with_one_key_are_added():
    x = ((X, 1.0),)
    assert collect([Term(2.0, x), Term(1.0), Term(3.0, x)]) == (Term(1.0), Term(5.0, x))
    assert scale((Term(2.0, x),), 0) == ()


def test_products_of_sums_are_expanded():
    difference = (Term(1.0, ((X, 1.0),)), Term(-1.0, parameters=((R, 1.0),)))
    square = multiply(difference, difference)
    assert {(term.coefficient, term.atoms, term.parameters) for term in square} == {
        (1.0, ((X, 2.0),), ()),
        (-2.0, ((X, 1.0),), ((R, 1.0),)),
        (1.0, (), ((R, 2.0),)),
    }


def test_conditions_are_taken_apart():
    assert conditions((A & B).expr) == (A.expr, B.expr)
    assert conditions((~(A | B)).expr) == ((~A).expr, (~B).expr)
    assert conditions((~~A).expr) == (A.expr,)
    assert conditions((A | B).expr) == ((A | B).expr,)
    assert negation((~A).expr) == A.expr


def test_conditions_that_contradict_each_other_hold_nowhere():
    assert conjunction((A.expr,), (A.expr, B.expr)) == (A.expr, B.expr)
    assert conjunction((A.expr,), ((~A).expr,)) is None
    assert multiply((Term(1.0, indicator=(A.expr,)),), (Term(1.0, indicator=((~A).expr,)),)) == ()


def test_the_derivative_along_a_difference_is_0():
    difference = (*symbol(X, varies=True), Term(-1.0, parameters=((R, 1.0),)))
    cube = multiply(multiply(difference, difference), difference)
    assert shifted_by(cube, X, {R: 1.0}, {}) == ()
    assert shifted_by(cube, Y, {R: 1.0}, {}) != ()
    assert shifted_by((Term(1.0, ((X, 2.0),)),), X, {R: 1.0}, {}) == (Term(2.0, ((X, 1.0),)),)


def test_exponents_count_in_the_derivative():
    exponent, shift = ((((X, 1.0),), 1.0),), ((((R, 1.0),), -1.0),)
    assert shifted_by((Term(1.0, exponent=exponent, shift=shift),), X, {R: 1.0}, {exponent: 1.0}) == ()
    crooked = ((((R, 2.0),), -1.0),)
    assert shifted_by((Term(1.0, exponent=exponent, shift=crooked),), X, {R: 1.0}, {exponent: 1.0}) != ()


def test_refusals_hold_the_expression():
    error = NotSeparable(X, "a reason")
    assert (error.expression, error.reason, str(error)) == (X, "a reason", "x0: a reason")
    with pytest.raises(NotSeparable, match="x0: a reason"):
        raise error


def test_constants_are_constants():
    assert Term(3.0).is_constant
    assert not Term(3.0, ((X, 1.0),)).is_constant
    assert Term(3.0, ((X, 1.0),)).key == Term(1.0, ((X, 1.0),))


def test_a_multiple_of_a_result_moves_at_another_rate():
    difference = (*symbol(X, varies=True), Term(-0.125, parameters=((R, 1.0),)))
    square = multiply(difference, difference)
    assert rates(square, X, R) == (1.0, 8.0)
    assert shifted_by(square, X, {R: 1.0}, {}) != ()
    assert shifted_by(square, X, {R: 8.0}, {}) == ()
    assert rates(square, Y, R) == (1.0,)
