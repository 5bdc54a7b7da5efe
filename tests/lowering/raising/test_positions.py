"""Integers as quasi-affine functions of axes, against Python's own arithmetic."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera.lowering.raising.positions import AffinePosition, Axis, NotAffine, along

A, B = Axis(1, 12), Axis(2, 7)


def value(place: AffinePosition, a: int, b: int) -> int:
    numbers = {A: a, B: b}
    total = place.constant
    for digit, scale in place.terms:
        part = numbers[digit.axis] // digit.divisor
        total += scale * (part % digit.modulus if digit.modulus else part)
    return total


@given(*(st.integers(-6, 6) for _ in range(3)), st.integers(1, 30))
def test_arithmetic_is_that_of_the_numbers(x: int, y: int, c: int, divisor: int):
    place = along(A).times(x).plus(along(B), y).add(c)
    made: list[AffinePosition | None] = []
    for each in (AffinePosition.quotient, AffinePosition.remainder):
        try:
            made.append(each(place, divisor))
        except NotAffine:
            made.append(None)
    for a, b in itertools.product(range(12), range(7)):
        number = x * a + y * b + c
        assert value(place, a, b) == number
        assert place.low <= number <= place.high
        assert made[0] is None or value(made[0], a, b) == number // divisor
        assert made[1] is None or value(made[1], a, b) == number % divisor


@pytest.mark.parametrize("block", [1, 2, 5, 12, 40])
def test_blocks_and_what_is_in_them_are_the_axis_again(block: int):
    whole = along(A)
    assert whole.quotient(block).times(block).plus(whole.remainder(block)) == whole
    deeper = whole.quotient(2).remainder(3).times(2).plus(whole.remainder(2))
    assert deeper == whole.remainder(6)


def test_positions_take_the_place_of_axes():
    linear = along(A).times(7).plus(along(B))
    assert linear.quotient(7) == along(A)
    assert linear.remainder(7) == along(B)
    whole = Axis(3, 84)
    places = {A: along(whole).quotient(7), B: along(whole).remainder(7)}
    assert linear.substitute(places) == along(whole)
    assert along(whole).axis == whole
    assert linear.axis is None
    assert AffinePosition(3).number == 3


def test_what_mixes_axes_has_no_quotient():
    with pytest.raises(NotAffine):
        along(A).plus(along(B)).quotient(5)
    with pytest.raises(NotAffine):
        along(A).plus(along(B)).remainder(5)
