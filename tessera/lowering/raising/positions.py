"""Positions: integers as quasi-affine functions of axes, in a form in which equal ones are equal.

The lanes of a launch, the trips of loops and the elements of tiles are axes; an index of a memory is a position.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import permutations


class NotAffine(ValueError):
    """A quotient or remainder that mixes axes."""


@dataclass(frozen=True, slots=True, order=True)
class Axis:
    """Numbers from 0 to `extent - 1`; `number` tells it from others."""

    number: int
    extent: int


@dataclass(frozen=True, slots=True, order=True)
class Digit:
    """`axis // divisor % modulus`; modulus 0: none is taken."""

    axis: Axis
    divisor: int = 1
    modulus: int = 0

    @property
    def highest(self) -> int:
        """The greatest value."""
        most = max(self.axis.extent - 1, 0) // self.divisor
        return min(most, self.modulus - 1) if self.modulus else most


@dataclass(frozen=True, slots=True)
class AffinePosition:
    """`constant` plus the sum of `scale * digit`; made by `position`, which orders and merges the digits."""

    constant: int = 0
    terms: tuple[tuple[Digit, int], ...] = ()

    @property
    def low(self) -> int:
        """The least value."""
        return self.constant + sum(min(0, scale * digit.highest) for digit, scale in self.terms)

    @property
    def high(self) -> int:
        """The greatest value."""
        return self.constant + sum(max(0, scale * digit.highest) for digit, scale in self.terms)

    @property
    def axes(self) -> frozenset[Axis]:
        """The axes that it depends on."""
        return frozenset(digit.axis for digit, _ in self.terms)

    @property
    def number(self) -> int | None:
        """Its value, where it depends on nothing."""
        return None if self.terms else self.constant

    @property
    def axis(self) -> Axis | None:
        """The axis that it is, unchanged; None where it is anything else."""
        if self.constant == 0 and len(self.terms) == 1:
            digit, scale = self.terms[0]
            if scale == 1 and digit == Digit(digit.axis):
                return digit.axis
        return None

    def plus(self, other: "AffinePosition", scale: int = 1) -> "AffinePosition":
        """Return `self + scale * other`."""
        scaled = [(digit, scale * factor) for digit, factor in other.terms]
        return position(self.constant + scale * other.constant, [*self.terms, *scaled])

    def add(self, number: int) -> "AffinePosition":
        """Return `self + number`."""
        return AffinePosition(self.constant + number, self.terms)

    def times(self, number: int) -> "AffinePosition":
        """Return `self * number`."""
        return AffinePosition().plus(self, number)

    def quotient(self, divisor: int) -> "AffinePosition":
        """Return `self // divisor`, for a positive divisor.  Raises NotAffine."""
        whole = [(digit, scale // divisor) for digit, scale in self.terms if scale % divisor == 0]
        rest = AffinePosition(self.constant % divisor, tuple(each for each in self.terms if each[1] % divisor))
        outside = position(self.constant // divisor, whole)
        if rest.low >= 0 and rest.high < divisor:
            return outside
        digit, scale = rest.only()
        if divisor % scale or rest.constant >= scale:
            raise NotAffine
        step = divisor // scale
        if digit.modulus % step:
            raise NotAffine
        deeper = Digit(digit.axis, digit.divisor * step, digit.modulus // step)
        return outside.plus(position(0, [(deeper, 1)]))

    def remainder(self, divisor: int) -> "AffinePosition":
        """Return `self % divisor`, for a positive divisor.  Raises NotAffine."""
        rest = AffinePosition(self.constant % divisor, tuple(each for each in self.terms if each[1] % divisor))
        if rest.low >= 0 and rest.high < divisor:
            return rest
        digit, scale = rest.only()
        if divisor % scale or rest.constant >= scale:
            raise NotAffine
        step = divisor // scale
        if digit.modulus % step and step % digit.modulus:
            raise NotAffine
        cut = Digit(digit.axis, digit.divisor, step if digit.modulus % step == 0 else digit.modulus)
        return position(rest.constant, [(cut, scale)])

    def only(self) -> tuple[Digit, int]:
        """Return the only term, of positive scale.  Raises NotAffine."""
        if len(self.terms) != 1 or self.terms[0][1] <= 0:
            raise NotAffine
        return self.terms[0]

    def substitute(self, values: Mapping[Axis, "AffinePosition"]) -> "AffinePosition":
        """Return it with positions in place of axes.  Raises NotAffine."""
        if self.axes.isdisjoint(values):
            return self
        made = AffinePosition(self.constant)
        for digit, scale in self.terms:
            value = values.get(digit.axis)
            if value is None:
                made = made.plus(position(0, [(digit, 1)]), scale)
                continue
            value = value.quotient(digit.divisor)
            made = made.plus(value.remainder(digit.modulus) if digit.modulus else value, scale)
        return made


def position(constant: int, terms: Iterable[tuple[Digit, int]]) -> AffinePosition:
    """Return the sum: equal digits collected, digits of one number put together, what is always 0 left out."""
    scales: dict[Digit, int] = {}
    for digit, scale in terms:
        each = _plain(digit)
        scales[each] = scales.get(each, 0) + scale
    kept = {digit: scale for digit, scale in scales.items() if scale and digit.highest}
    while (pair := _joined(kept)) is not None:
        high, low = pair
        scale = kept.pop(low)
        kept.pop(high)
        merged = _plain(Digit(low.axis, low.divisor, high.modulus * low.modulus))
        kept[merged] = kept.get(merged, 0) + scale
        kept = {digit: scale for digit, scale in kept.items() if scale}
    return AffinePosition(constant, tuple(sorted(kept.items())))


def _plain(digit: Digit) -> Digit:
    """Return `digit` without a modulus that changes nothing."""
    if digit.modulus and max(digit.axis.extent - 1, 0) // digit.divisor < digit.modulus:
        return Digit(digit.axis, digit.divisor)
    return digit


def _joined(scales: Mapping[Digit, int]) -> tuple[Digit, Digit] | None:
    """Return two digits that follow each other, the higher one first: `m * (x // m) + x % m` is x."""
    for high, low in permutations(scales, 2):
        follows = high.axis == low.axis and low.modulus and high.divisor == low.divisor * low.modulus
        if follows and scales[high] == scales[low] * low.modulus:
            return high, low
    return None


def along(axis: Axis) -> AffinePosition:
    """Return the position that an axis is."""
    return position(0, [(Digit(axis), 1)])
