"""Add, multiply, divide and evaluate polynomials with integer coefficients: n*m + 2*n is (((0,), 2), ((0, 1), 1))."""

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import TypeAlias

Monomial: TypeAlias = tuple[int, ...]
"""Numbers of unknowns, in order; () for what has none."""
Polynomial: TypeAlias = tuple[tuple[Monomial, int], ...]
"""Monomials in order, each with a coefficient that is not 0."""


def evaluated(polynomial: Polynomial, values: Sequence[int]) -> int:
    """Return the value of a polynomial for values of its unknowns."""
    total = 0
    for monomial, coefficient in polynomial:
        for number in monomial:
            coefficient *= values[number]  # noqa: PLW2901 - the product so far
        total += coefficient
    return total


def plus(one: Polynomial, other: Polynomial) -> Polynomial:
    """Return the sum."""
    found: dict[Monomial, int] = {}
    for monomial, coefficient in chain(one, other):
        found[monomial] = found.get(monomial, 0) + coefficient
    return ordered(found)


def scaled(polynomial: Polynomial, number: int) -> Polynomial:
    """Return the product with a number that is not 0."""
    return tuple((monomial, coefficient * number) for monomial, coefficient in polynomial)


def times(one: Polynomial, other: Polynomial) -> Polynomial:
    """Return the product."""
    found: dict[Monomial, int] = {}
    for first, a in one:
        for second, b in other:
            monomial = tuple(sorted((*first, *second)))
            found[monomial] = found.get(monomial, 0) + a * b
    return ordered(found)


def ordered(terms: Mapping[Monomial, int]) -> Polynomial:
    """Return monomials in order, without those that count 0 times."""
    return tuple(sorted((monomial, coefficient) for monomial, coefficient in terms.items() if coefficient))


def quotient(left: Polynomial, right: Polynomial) -> Polynomial | None:
    """Return a polynomial divided by one of a single term, where that comes out even."""
    if len(right) != 1:
        return (((), 1),) if left == right and left else None
    ((divisor, least),) = right
    found: dict[Monomial, int] = {}
    for monomial, coefficient in left:
        rest = list(monomial)
        for number in divisor:
            if number not in rest:
                return None
            rest.remove(number)
        if coefficient % least:
            return None
        found[tuple(rest)] = coefficient // least
    return ordered(found)
