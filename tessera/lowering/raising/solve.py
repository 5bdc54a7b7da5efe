"""Solve for the axes that reach a place: a store's indices, in lanes, trips and elements."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tessera.lowering.raising.positions import AffinePosition, Axis, Digit, NotAffine
from tessera.lowering.raising.terms import Conditions, conjunction


class Overlapping(NotAffine):
    """Indices that reach one place from several points."""


@dataclass(slots=True)
class _Unknowns:
    digits: dict[Digit, AffinePosition] = field(default_factory=dict[Digit, AffinePosition])
    conditions: list[AffinePosition] = field(default_factory=list[AffinePosition])

    def equal(self, left: AffinePosition, right: AffinePosition) -> None:
        difference = left.plus(right, -1)
        self.conditions += [difference, difference.times(-1)]


def solve(
    indices: Sequence[AffinePosition], place: Sequence[AffinePosition]
) -> tuple[Mapping[Axis, AffinePosition], Conditions]:
    """Return the axes' values for which `indices` are `place`, and the conditions under which there are any.

    Axes that `indices` do not depend on have no value.  Raises Overlapping where there are several solutions, and
    NotAffine where there is no closed form.
    """
    unknowns = _Unknowns()
    for index, wanted in zip(indices, place, strict=True):
        _solve_one(index, wanted, unknowns)
    axes = sorted({digit.axis for digit in unknowns.digits})
    return {axis: _whole(axis, unknowns) for axis in axes}, conjunction(unknowns.conditions)


def _solve_one(index: AffinePosition, wanted: AffinePosition, unknowns: _Unknowns) -> None:
    """Read the digits of one index off the place that it has to be."""
    rest = wanted.add(-index.constant)
    terms = sorted(index.terms, key=lambda term: -abs(term[1]))
    for digit, scale in terms:
        if scale < 0:  # counted from the other end
            rest = rest.add(-scale * digit.highest)
    if not terms:
        unknowns.equal(rest, AffinePosition())
        return
    least = abs(terms[-1][1])
    if least > 1:  # among places `least` apart, it is one that the constant tells
        first = -rest.constant % least
        varying = rest.add(-rest.constant)
        unknowns.equal(varying.remainder(least), AffinePosition(first))
        rest = varying.quotient(least).add((first + rest.constant) // least)
    above = 0
    for digit, scale in terms:
        if scale % least:
            raise Overlapping
        size = abs(scale) // least
        if above and (above % size or digit.highest >= above // size):
            raise Overlapping
        value = rest.quotient(size)
        value = value.remainder(above // size) if above else value
        unknowns.conditions += [value, value.times(-1).add(digit.highest)]
        value = value.times(-1).add(digit.highest) if scale < 0 else value
        if digit in unknowns.digits:
            unknowns.equal(unknowns.digits[digit], value)
        unknowns.digits.setdefault(digit, value)
        above = size


def _whole(axis: Axis, unknowns: _Unknowns) -> AffinePosition:
    """Put the digits of an axis together."""
    found = [(digit, value) for digit, value in unknowns.digits.items() if digit.axis == axis]
    mine = sorted(found, key=lambda each: each[0].divisor)
    made, reached = AffinePosition(), 1
    for digit, value in mine:
        if digit.divisor != reached:
            raise Overlapping
        made = made.plus(value, digit.divisor)
        reached = digit.divisor * digit.modulus
    if reached:
        raise Overlapping
    unknowns.conditions.append(made.times(-1).add(axis.extent - 1))
    return made
