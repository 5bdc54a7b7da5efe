"""Linear forms of a Program's integers, and what bounds them: where an index lies, as a function of a loop's.

`rows - 1 - r` is the form {rows: 1, r: -1} - 1.  The index of an inner loop over `range(m, min(rows, m + 32))` has
no form of its own, but bounds: `m` below, and above both `rows - 1` and `m + 31`.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Final

from tessera.core.base.dtypes import i64
from tessera.core.program.expressions import OPERATIONS, Expression, can_translate, make
from tessera.core.program.program import Attribute, Block, Op, Program, Value
from tessera.core.program.types import Scalar

_MOST_BOUNDS: Final = 4
_MOST_TERMS: Final = 8
_LARGEST_EXPRESSION: Final = 32
_LINEAR: Final = ("add", "sub", "mul")
_IDENTIFIED: Final = (*_LINEAR, "floordiv", "mod", "min", "max", "cast", "const", "dim")
"""Operations that give the same number wherever they have the same operands."""


@dataclass(frozen=True, slots=True)
class Linear:
    """`sum(factor * term) + constant`; a term is whatever can be told apart, no factor is 0."""

    terms: frozenset[tuple[Hashable, int]]
    constant: int

    def plus(self, other: "Linear", scale: int = 1) -> "Linear":
        """`self + factor * other`."""
        terms = dict(self.terms)
        for term, number in other.terms:
            terms[term] = terms.get(term, 0) + scale * number
        kept = frozenset((term, number) for term, number in terms.items() if number)
        return Linear(kept, self.constant + scale * other.constant)

    def add(self, number: int) -> "Linear":
        """`self + number`."""
        return Linear(self.terms, self.constant + number)

    def coefficient(self, term: Hashable) -> int:
        """The factor of `term`."""
        return dict(self.terms).get(term, 0)


ZERO: Final = Linear(frozenset(), 0)


@dataclass(frozen=True, slots=True)
class Between:
    """No less than any of `low`, no more than any of `high`; empty: not known."""

    low: tuple[Linear, ...] = ()
    high: tuple[Linear, ...] = ()

    @property
    def exact(self) -> Linear | None:
        """The form that this is the value of, where there is one."""
        same = [form for form in self.low if form in self.high]
        return same[0] if same else None


UNKNOWN: Final = Between()


def exactly(form: Linear) -> Between:
    """Return what has the value of `form`."""
    return Between((form,), (form,))


class Definitions:
    """The definition of each value of a Program, an operation or the loop whose index it is, and equal integers.

    order: every operation, outer before inner; identities: of integers that have the same number wherever they are made
    """

    def __init__(self, program: Program) -> None:
        self.order = tuple(program.body.walk())
        self.makers: dict[Value, Op] = {}
        self.indices: dict[Value, Op] = {}
        self.identities: dict[Value, Hashable] = {}
        self._expressions: dict[Value, tuple[Expression, int]] = {}
        numbers: dict[Hashable, int] = {}
        for op in self.order:
            self.makers.update(dict.fromkeys(op.results, op))
            if op.opcode == "for":
                self.indices[op.regions[0].arguments[0]] = op
            if op.opcode in _IDENTIFIED and isinstance(op.result.type, Scalar):
                parts = tuple(self.identity(operand) for operand in op.operands)
                made = (op.opcode, tuple(op.attributes.items()), op.result.type, parts)
                self.identities[op.result] = numbers.setdefault(made, len(numbers))
                self._express(op)

    def constant(self, value: Value) -> int | None:
        """The integer that `value` is, or None."""
        op = self.makers.get(value)
        number = op.attributes["value"] if op is not None and op.opcode == "const" else None
        return number if isinstance(number, int) and not isinstance(number, bool) else None

    def identity(self, value: Value) -> Hashable:
        """Return what tells `value` from others: how it is made, where that says it all, else itself."""
        return self.identities.get(value, value)

    def expression(self, value: Value) -> Expression | None:
        """`value` as an expression of shape symbols, or None where it is made of anything else."""
        found = self._expressions.get(value)
        return None if found is None else found[0]

    def _express(self, op: Op) -> None:
        if op.opcode in ("const", "dim"):
            leaf: Attribute = op.attributes["value" if op.opcode == "const" else "symbol"]
            if isinstance(leaf, int | str) and not isinstance(leaf, bool):
                self._expressions[op.result] = (leaf, 1)
        elif op.opcode in OPERATIONS and all(v in self._expressions for v in op.operands):
            (a, n), (b, m) = (self._expressions[v] for v in op.operands)
            if n + m <= _LARGEST_EXPRESSION and can_translate(op.opcode, b):
                self._expressions[op.result] = (make(op.opcode, a, b), n + m)


class Bounds:
    """Bounds of the integers of a Program, in terms of one loop's index and of what that loop does not change."""

    def __init__(self, loop: Op, definitions: Definitions) -> None:
        self._definitions = definitions
        self.index = loop.regions[0].arguments[0]
        self._varying = _defined(loop.regions[0])
        self._known = {self.index: exactly(Linear(frozenset({(self.index, 1)}), 0))}
        for op in definitions.order:
            if op.opcode == "for" and op is not loop:
                self._counted(op)
            elif len(op.results) == 1 and op.result.type == Scalar(i64):  # narrower ones may wrap
                self._learn(op)

    def varies(self, value: Value) -> bool:
        """Return whether `value` may differ between trips of the loop."""
        return value in self._varying

    def of(self, value: Value) -> Between:
        """The bounds of an i64 scalar."""
        found = self._known.get(value)
        if found is not None or value in self._varying:
            return found or UNKNOWN
        return exactly(Linear(frozenset({(self._definitions.identity(value), 1)}), 0))

    def _learn(self, op: Op) -> None:
        value = op.result
        number = self._definitions.constant(value)
        if number is not None:
            self._known[value] = exactly(Linear(frozenset(), number))
            self._varying.discard(value)
            return
        if op.opcode in _IDENTIFIED and self._varying.isdisjoint(op.operands):
            self._varying.discard(value)
        if op.opcode in _LINEAR or (value in self._varying and op.opcode in _RULES):
            found = _RULES[op.opcode](*(self.of(v) for v in op.operands[-2:]))
            if found != UNKNOWN and all(len(form.terms) <= _MOST_TERMS for form in (*found.low, *found.high)):
                self._known[value] = found

    def _counted(self, loop: Op) -> None:
        """The index of another loop: from its lower bound to the last step below its upper one."""
        index = loop.regions[0].arguments[0]
        step = self._definitions.constant(loop.operands[2])
        if index not in self._varying or step is None or step < 1:
            return
        lower, upper = (self.of(v) for v in loop.operands[:2])
        high = [form.add(-1) for form in upper.high]
        first = lower.exact
        for place, form in enumerate(high):
            if first is not None and form.terms == first.terms and form.constant >= first.constant:
                length = form.constant - first.constant
                high[place] = first.add(length // step * step)
        self._known[index] = Between(lower.low, tuple(high))


def _defined(block: Block) -> set[Value]:
    found = set(block.arguments)
    for op in block.walk():
        found.update(op.results)
        for region in op.regions:
            found.update(region.arguments)
    return found


# -- rules: bounds of operands to bounds of the result ---------------------------------------------------------


def _add(a: Between, b: Between) -> Between:
    return Between(_combined(a.low, b.low, 1), _combined(a.high, b.high, 1))


def _subtract(a: Between, b: Between) -> Between:
    return Between(_combined(a.low, b.high, -1), _combined(a.high, b.low, -1))


def _combined(a: tuple[Linear, ...], b: tuple[Linear, ...], scale: int) -> tuple[Linear, ...]:
    return tuple(dict.fromkeys(x.plus(y, scale) for x in a for y in b))[:_MOST_BOUNDS]


def _multiply(a: Between, b: Between) -> Between:
    if (number := _number(b)) is None:
        a, b = b, a
        if (number := _number(b)) is None:
            return UNKNOWN
    low, high = (tuple(ZERO.plus(form, number) for form in forms) for forms in (a.low, a.high))
    return Between(low, high) if number >= 0 else Between(high, low)


def _minimum(a: Between, b: Between) -> Between:
    return Between(_either(a.low, b.low, min), (*a.high, *b.high)[:_MOST_BOUNDS])


def _maximum(a: Between, b: Between) -> Between:
    return Between((*a.low, *b.low)[:_MOST_BOUNDS], _either(a.high, b.high, max))


def _choice(a: Between, b: Between) -> Between:
    return Between(_either(a.low, b.low, min), _either(a.high, b.high, max))


def _either(
    a: tuple[Linear, ...], b: tuple[Linear, ...], choose: Callable[[int, int], int]
) -> tuple[Linear, ...]:  # fmt: skip
    """Return what bounds both: forms of the same terms, with the farther constant."""
    return tuple(Linear(x.terms, choose(x.constant, y.constant)) for x in a for y in b if x.terms == y.terms)


def _remainder(_: Between, b: Between) -> Between:
    number = _number(b)
    if number is None or number < 1:
        return UNKNOWN
    return Between((ZERO,), (ZERO.add(number - 1),))


def _divide(a: Between, b: Between) -> Between:
    number = _number(b)
    if number is None or number < 1:
        return UNKNOWN
    low = tuple(ZERO.add(form.constant // number) for form in a.low if not form.terms)
    return Between(low, tuple(ZERO.add(form.constant // number) for form in a.high if not form.terms))


def _number(a: Between) -> int | None:
    form = a.exact
    return form.constant if form is not None and not form.terms else None


_RULES: Final[Mapping[str, Callable[[Between, Between], Between]]] = {
    "add": _add,
    "sub": _subtract,
    "mul": _multiply,
    "min": _minimum,
    "max": _maximum,
    "select": _choice,
    "mod": _remainder,
    "floordiv": _divide,
}
