"""Symbolic extents: integers that know what they are made of, and note what is decided by them.

    n, m = Symbols(("n", "m"), (512, 300)).extents
    n * 64 // 64 is n;  n * m + 1 prints as "m*n + 1";  n % 128 == 0 is True, and noted: it holds for some n alone

An extent is an `int`, of a sample, so that every pass works with it as with any other.  Sums and products are kept as
polynomials; quotients and remainders that do not come out even are unknowns of their own.  What a pass decides by a
comparison is a condition: the passes do the same for all values that fulfil the conditions.  What leaves the integers,
such as a division of floats, makes the value itself a condition.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd, prod
from typing import Final, Self

from tessera.core.graph.polynomials import Polynomial, evaluated, plus, quotient, scaled, times

SMALLEST: Final = 2
"""Least value of a symbol: an extent of 0 or 1 is a case of its own, as it is broadcast."""

_RELATIONS: Final[Mapping[str, Callable[[int], bool]]] = {
    "==": lambda value: value == 0, "<": lambda value: value < 0, "<=": lambda value: value <= 0,
}  # fmt: skip
_OPERATIONS: Final[Mapping[str, Callable[[int, int], int]]] = {
    "//": lambda one, other: one // other, "%": lambda one, other: one % other,
    "max": lambda one, other: max(other, one),
}  # fmt: skip
_NEARBY: Final[tuple[Callable[[int], int], ...]] = (
    lambda value: value + 1, lambda value: 2 * value, lambda value: value - 1, lambda value: 3 * value,
)  # fmt: skip
_OPPOSITES: Final = {"==": "!=", "<": ">=", "<=": ">"}
_TURNED: Final = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Condition:
    """A difference that is, or is not, 0, less than 0, or not more."""

    difference: Polynomial
    relation: str
    outcome: bool


@dataclass(frozen=True, slots=True)
class _Unknown:
    """A symbol, or the quotient, the remainder or the larger one of two polynomials."""

    name: str
    operands: tuple[Polynomial, Polynomial] | None = None


@dataclass(eq=False)
class Symbols:
    """The symbols of one graph, with a sample of their values, and the conditions that were noted for it.

    closed: whether comparisons are noted no more
    """

    names: tuple[str, ...]
    sample: tuple[int, ...]
    closed: bool = False
    _unknowns: list[_Unknown] = field(default_factory=list[_Unknown])
    _values: list[int] = field(default_factory=list[int])
    _natural: list[bool] = field(default_factory=list[bool])
    _numbers: dict[_Unknown, int] = field(default_factory=dict[_Unknown, int])
    _conditions: dict[Condition, None] = field(default_factory=dict[Condition, None])

    def __post_init__(self) -> None:
        for name, value in zip(self.names, self.sample, strict=True):
            self._unknown(_Unknown(name), value)

    @property
    def extents(self) -> tuple["Extent", ...]:
        """The symbols themselves."""
        return tuple(Extent(value, self, (((n,), 1),)) for n, value in enumerate(self.sample))

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """The decided conditions."""
        return tuple(self._conditions)

    def close(self) -> None:
        """Note no more comparisons."""
        self.closed = True

    def note(self, difference: Polynomial, relation: str) -> bool:
        """Return whether a difference has a relation to 0, and note it where that is not so for all values."""
        value = evaluated(difference, self._values)
        outcome = _RELATIONS[relation](value)
        if not self.closed and not self._is_certain(difference, relation):
            common = gcd(*(coefficient for _, coefficient in difference))
            smaller = tuple((monomial, coefficient // common) for monomial, coefficient in difference)
            self._conditions[Condition(smaller, relation, outcome)] = None
        return outcome

    def _is_certain(self, difference: Polynomial, relation: str) -> bool:
        """Return whether a relation to 0 is the same for all values, by the signs of the coefficients."""
        signs = {coefficient > 0 for monomial, coefficient in difference if monomial}
        if not all(self._natural[number] for monomial, _ in difference for number in monomial):
            return False
        if len(signs) != 1:
            return not signs
        positive = signs.pop()
        edge = 0  # the value that is nearest to 0 or beyond it
        for monomial, coefficient in difference:
            least = [SMALLEST if number < len(self.names) else 0 for number in monomial]
            edge += coefficient * prod(least)
        return (edge > 0 if positive else edge < 0) or (edge == 0 and relation == ("<" if positive else "<="))

    def _is_natural(self, polynomial: Polynomial) -> bool:
        """Return whether the value is never less than 0."""
        return all(c > 0 and all(self._natural[number] for number in monomial) for monomial, c in polynomial)

    def made(self, polynomial: Polynomial) -> int:
        """Return an extent; a number where it has no unknowns."""
        value = evaluated(polynomial, self._values)
        return Extent(value, self, polynomial) if any(monomial for monomial, _ in polynomial) else value

    def divided(self, left: Polynomial, right: Polynomial, kind: str) -> int:
        """Return a quotient, `//`, or a remainder, `%`."""
        whole = quotient(left, right)
        if whole is not None and (kind == "%" or evaluated(right, self._values)):
            return 0 if kind == "%" else self.made(whole)
        if kind == "//":
            common = gcd(*(coefficient for _, coefficient in (*left, *right)))
            left, right = (tuple((m, c // common) for m, c in each) for each in (left, right))
        return self._operation(kind, left, right)

    def larger(self, left: Polynomial, right: Polynomial) -> int:
        """Return the larger one, without a condition for which it is."""
        return self._operation("max", left, right)

    def another(self) -> tuple[int, ...] | None:
        """Return other values that fulfil the conditions, where some are found nearby."""
        for change in _NEARBY:
            values = tuple(change(value) for value in self.sample)
            if self.values(values) is not None:
                return values
        return None

    def _operation(self, kind: str, left: Polynomial, right: Polynomial) -> int:
        value = _OPERATIONS[kind](evaluated(left, self._values), evaluated(right, self._values))
        return self.made((((self._unknown(_Unknown(kind, (left, right)), value),), 1),))

    def _unknown(self, unknown: _Unknown, value: int) -> int:
        number = self._numbers.get(unknown)
        if number is None:
            number = self._numbers[unknown] = len(self._unknowns)
            self._unknowns.append(unknown)
            self._natural.append(all(map(self._is_natural, unknown.operands or ())))
            self._values.append(value)
        return number

    def values(self, given: Sequence[int]) -> tuple[int, ...] | None:
        """Return the values of all unknowns for values of the symbols that fulfil the conditions; None for others."""
        if any(value < SMALLEST for value in given):
            return None
        found = list(given)
        for unknown in self._unknowns[len(given) :]:
            assert unknown.operands is not None
            one, other = (evaluated(each, found) for each in unknown.operands)
            if other == 0 and unknown.name != "max":
                return None
            found.append(_OPERATIONS[unknown.name](one, other))
        for each in self._conditions:
            if _RELATIONS[each.relation](evaluated(each.difference, found)) != each.outcome:
                return None
        return tuple(found)

    @staticmethod
    def value_of(each: int, unknowns: Sequence[int]) -> int:
        """Return an extent's value, or a number, for values of all unknowns."""
        return evaluated(each.polynomial, unknowns) if isinstance(each, Extent) else each

    def text(self, polynomial: Polynomial) -> str:
        """Return a polynomial as people write it."""
        parts: list[str] = []
        for monomial, coefficient in sorted(polynomial, key=lambda each: (not each[0], each)):
            product = [self._name(number) for number in monomial]
            if coefficient != 1 or not product:
                product.insert(0, str(coefficient))
            parts.append("*".join(product))
        return " + ".join(parts).replace("+ -", "- ") or "0"

    def _name(self, number: int) -> str:
        unknown = self._unknowns[number]
        if unknown.operands is None:
            return unknown.name
        one, other = (self.text(each) for each in unknown.operands)
        if unknown.name == "max":
            return f"max({one}, {other})"
        one, other = (f"({each})" if not each.isidentifier() and not each.isdigit() else each for each in (one, other))
        return f"({one} {unknown.name} {other})"

    def condition_text(self, condition: Condition) -> str:
        """Return a condition with what is added on one side, and what is taken away on the other."""
        kept = tuple((m, c) for m, c in condition.difference if c > 0)
        gone = tuple((m, -c) for m, c in condition.difference if c < 0)
        relation = condition.relation if condition.outcome else _OPPOSITES[condition.relation]
        if not any(monomial for monomial, _ in kept):
            kept, gone, relation = gone, kept, _TURNED.get(relation, relation)
        return f"{self.text(kept)} {relation} {self.text(gone)}"


class Extent(int):
    """An integer that is a polynomial of symbols; see the module."""

    symbols: Symbols
    polynomial: Polynomial

    def __new__(cls, value: int, symbols: Symbols, polynomial: Polynomial) -> Self:
        """Make one of its value for the sample."""
        made = super().__new__(cls, value)
        made.symbols, made.polynomial = symbols, polynomial
        return made

    def _other(self, other: object) -> Polynomial | None:
        if isinstance(other, Extent):
            assert other.symbols is self.symbols, "extents of two graphs meet"
            return other.polynomial
        if isinstance(other, int):
            return (((), int(other)),) if other else ()
        return None

    def _pinned(self) -> int:
        """Return the value as a number, which becomes a condition."""
        value = int.__int__(self)
        self.symbols.note(plus(self.polynomial, (((), -value),)), "==")
        return value

    # Arithmetic

    def __add__(self, other: int) -> int:
        """Return the sum."""
        polynomial = self._other(other)
        return NotImplemented if polynomial is None else self.symbols.made(plus(self.polynomial, polynomial))

    def __sub__(self, other: int) -> int:
        """Return the difference."""
        polynomial = self._other(other)
        if polynomial is None:
            return NotImplemented
        return self.symbols.made(plus(self.polynomial, scaled(polynomial, -1)))

    def __rsub__(self, other: int) -> int:
        """Return the difference of a number and this."""
        return -self + other

    def __mul__(self, other: int) -> int:
        """Return the product."""
        polynomial = self._other(other)
        return NotImplemented if polynomial is None else self.symbols.made(times(self.polynomial, polynomial))

    __radd__ = __add__
    __rmul__ = __mul__

    def __neg__(self) -> int:
        """Return the opposite."""
        return self.symbols.made(scaled(self.polynomial, -1))

    def __pos__(self) -> int:
        """Return this."""
        return self

    def __abs__(self) -> int:
        """Return the absolute value."""
        return -self if self < 0 else self

    def __floordiv__(self, other: int) -> int:
        """Return the quotient, rounded down."""
        polynomial = self._other(other)
        return NotImplemented if polynomial is None else self.symbols.divided(self.polynomial, polynomial, "//")

    def __rfloordiv__(self, other: int) -> int:
        """Return the quotient of a number and this."""
        polynomial = self._other(other)
        return NotImplemented if polynomial is None else self.symbols.divided(polynomial, self.polynomial, "//")

    def __mod__(self, other: int) -> int:
        """Return the remainder."""
        polynomial = self._other(other)
        return NotImplemented if polynomial is None else self.symbols.divided(self.polynomial, polynomial, "%")

    def __rmod__(self, other: int) -> int:
        """Return the remainder of a number and this."""
        polynomial = self._other(other)
        return NotImplemented if polynomial is None else self.symbols.divided(polynomial, self.polynomial, "%")

    def __divmod__(self, other: int) -> tuple[int, int]:
        """Return quotient and remainder."""
        return self // other, self % other

    def larger(self, other: int) -> int:
        """Return the larger of both."""
        polynomial = self._other(other)
        assert polynomial is not None
        return self.symbols.larger(self.polynomial, polynomial)

    # Decisions

    def _compared(self, other: object, relation: str, *, swapped: bool = False) -> bool:
        polynomial = self._other(other)
        if polynomial is None:
            return NotImplemented
        one, two = (polynomial, self.polynomial) if swapped else (self.polynomial, polynomial)
        return self.symbols.note(plus(one, scaled(two, -1)), relation)

    def __eq__(self, other: object) -> bool:
        """Return whether both are equal, and note it."""
        return self._compared(other, "==")

    def __ne__(self, other: object) -> bool:
        """Return whether both differ, and note it."""
        found = self._compared(other, "==")
        return found if found is NotImplemented else not found

    def __lt__(self, other: int) -> bool:
        """Compare, and note it."""
        return self._compared(other, "<")

    def __le__(self, other: int) -> bool:
        """Compare, and note it."""
        return self._compared(other, "<=")

    def __gt__(self, other: int) -> bool:
        """Compare, and note it."""
        return self._compared(other, "<", swapped=True)

    def __ge__(self, other: int) -> bool:
        """Compare, and note it."""
        return self._compared(other, "<=", swapped=True)

    def __bool__(self) -> bool:
        """Return whether it is not 0, and note it."""
        return not self.symbols.note(self.polynomial, "==")

    def __hash__(self) -> int:
        """Return a number that no other graph's extents have: what is remembered of these has other conditions."""
        return hash((id(self.symbols), self.polynomial))

    # What leaves the integers

    def __int__(self) -> int:
        """Return the value, which becomes a condition."""
        return self._pinned()

    __trunc__ = __floor__ = __ceil__ = __pos__

    def __float__(self) -> float:
        """Return the value, which becomes a condition."""
        return float(self._pinned())

    def __truediv__(self, other: float) -> float:
        """Divide the value, which becomes a condition."""
        return self._pinned() / other

    def __rtruediv__(self, other: float) -> float:
        """Divide by the value, which becomes a condition."""
        return other / self._pinned()

    def bit_length(self) -> int:
        """Return the bits of the value, which becomes a condition."""
        return self._pinned().bit_length()

    def __lshift__(self, other: int) -> int:
        """Shift the value, which becomes a condition."""
        return self._pinned() << int(other)

    def __rshift__(self, other: int) -> int:
        """Shift the value, which becomes a condition."""
        return self._pinned() >> int(other)

    def __and__(self, other: int) -> int:
        """Take bits of the value, which becomes a condition."""
        return self._pinned() & int(other)

    def __rand__(self, other: int) -> int:
        """Take bits of the value, which becomes a condition."""
        return other & self._pinned()

    def __pow__(self, other: int, modulo: int | None = None) -> int:  # type: ignore[override]  # int's overloads say more
        """Raise the value, which becomes a condition."""
        return pow(self._pinned(), other, modulo)

    def __repr__(self) -> str:
        """Return the polynomial."""
        return self.symbols.text(self.polynomial)

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        """Return the polynomial; a number's format says nothing about it."""
        return repr(self)


def larger(one: int, other: int) -> int:
    """Return the larger of two extents, or of numbers that are made of them: no condition for which it is."""
    if isinstance(one, Extent):
        return one.larger(other)
    return other.larger(one) if isinstance(other, Extent) else max(one, other)
