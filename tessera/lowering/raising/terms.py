"""Elements of what a kernel computes, as expressions of leaves: loads, positions, reductions and contractions.

A leaf is told by its content, so equal ones are one; all that varies is a position, and putting other axes in place of
a leaf's gives another leaf.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias
from typing import cast as cast_type

from tessera.core.base.dtypes import DType, boolean, f32, i64
from tessera.core.graph.expr import Apply, Argument, Expr, Literal, apply, arguments, fold, substitute
from tessera.core.graph.expr import cast as cast_expr
from tessera.core.graph.graph import Value
from tessera.lowering.raising.positions import AffinePosition, Axis

Conditions: TypeAlias = frozenset["AffinePosition | Expr"]
"""Positions that are not negative, and expressions that are true: all of them hold."""
ALWAYS: Conditions = frozenset()


@dataclass(frozen=True, slots=True)
class Load:
    """The element of an input at `indices`; 0 outside of it."""

    value: Value
    indices: tuple[AffinePosition, ...]


@dataclass(frozen=True, slots=True)
class PositionValue:
    """A position as a number, i64."""

    position: AffinePosition


@dataclass(frozen=True, slots=True)
class Test:
    """Test that a position is not negative."""

    position: AffinePosition


@dataclass(frozen=True, slots=True)
class GatheredLoad:
    """The element of an input at indices of which some are computed; 0 outside of it."""

    value: Value
    indices: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class ReductionLeaf:
    """`kind` of `body` over `axes`, where `conditions` hold."""

    kind: str
    body: Expr
    conditions: Conditions
    axes: tuple[Axis, ...]


@dataclass(frozen=True, slots=True)
class SumOfProducts:
    """The sum of products of two factors over `axes`, where `conditions` hold, in `dtype`."""

    factors: tuple[Expr, Expr]
    conditions: Conditions
    axes: tuple[Axis, ...]
    dtype: DType
    exact: bool
    compute: str


Leaf: TypeAlias = Load | PositionValue | Test | GatheredLoad | ReductionLeaf | SumOfProducts


@dataclass(frozen=True, slots=True)
class Element:
    """One element of a tile, or a scalar.  value: a position where it is one; exists: when it does."""

    value: AffinePosition | Expr
    exists: Conditions = ALWAYS


class Terms:
    """The leaves of one kernel, numbered: expressions refer to them as arguments."""

    def __init__(self) -> None:
        self.leaves: list[Leaf] = []
        self._numbers: dict[Leaf, int] = {}
        self._axes = 0
        self._free: dict[int, frozenset[Axis]] = {}

    def axis(self, extent: int) -> Axis:
        """Return a new axis."""
        self._axes += 1
        return Axis(self._axes, extent)

    def leaf(self, leaf: Leaf, dtype: DType) -> Expr:
        """Return the expression that is this leaf."""
        number = self._numbers.setdefault(leaf, len(self.leaves))
        if number == len(self.leaves):
            self.leaves.append(leaf)
        return Argument(number, dtype)

    def expr(self, value: AffinePosition | Expr) -> Expr:
        """Return a value as an expression; positions are i64."""
        if not isinstance(value, AffinePosition):
            return value
        number = value.number
        return Literal(number, i64) if number is not None else self.leaf(PositionValue(value), i64)

    def reduction_of(self, expr: Expr) -> ReductionLeaf | SumOfProducts | None:
        """Return the reduction that an expression is, if it is one."""
        leaf = self.leaves[expr.number] if isinstance(expr, Argument) else None
        return leaf if isinstance(leaf, ReductionLeaf | SumOfProducts) else None

    def free(self, expr: Expr) -> frozenset[Axis]:
        """Return the axes that an expression varies along."""
        return frozenset[Axis]().union(*(self.free_of(number) for number in arguments(expr)))

    def free_of_conditions(self, conditions: Conditions) -> frozenset[Axis]:
        """Return the axes that conditions vary along."""
        return frozenset[Axis]().union(*(c.axes if isinstance(c, AffinePosition) else self.free(c) for c in conditions))

    def free_of(self, number: int) -> frozenset[Axis]:
        """Return the axes that a leaf varies along."""
        if number not in self._free:
            match self.leaves[number]:
                case Load(_, indices):
                    found = frozenset[Axis]().union(*(index.axes for index in indices))
                case PositionValue(place) | Test(place):
                    found = place.axes
                case GatheredLoad(_, indices):
                    found = frozenset[Axis]().union(*map(self.free, indices))
                case ReductionLeaf(_, body, conditions, axes):
                    found = (self.free(body) | self.free_of_conditions(conditions)) - set(axes)
                case SumOfProducts(factors, conditions, axes):
                    both = self.free(factors[0]) | self.free(factors[1])
                    found = (both | self.free_of_conditions(conditions)) - set(axes)
            self._free[number] = found
        return self._free[number]

    def moved(self, expr: Expr, places: Mapping[Axis, AffinePosition]) -> Expr:
        """Return `expr` with positions in place of axes.  Raises NotAffine."""
        values: dict[int, Expr] = {}
        for number in arguments(expr):
            if not self.free_of(number).isdisjoint(places):
                values[number] = self._moved_leaf(number, places)
        if not values:
            return expr
        return simplified(substitute(expr, values))

    def moved_conditions(self, conditions: Conditions, places: Mapping[Axis, AffinePosition]) -> Conditions:
        """Return `conditions` with positions in place of axes.  Raises NotAffine."""
        return conjunction(
            c.substitute(places) if isinstance(c, AffinePosition) else self.moved(c, places) for c in conditions
        )

    def _moved_leaf(self, number: int, places: Mapping[Axis, AffinePosition]) -> Expr:
        match self.leaves[number]:
            case Load(value, indices):
                moved: Leaf = Load(value, tuple(index.substitute(places) for index in indices))
                return self.leaf(moved, value.type.dtype)
            case PositionValue(place):
                return self.expr(place.substitute(places))
            case Test(place):
                return self.truth(place.substitute(places))
            case GatheredLoad(value, indices):
                return self.leaf(GatheredLoad(value, tuple(self.moved(i, places) for i in indices)), value.type.dtype)
            case ReductionLeaf(kind, body, conditions, axes):
                inside = self.moved(body, places), self.moved_conditions(conditions, places)
                return self.leaf(ReductionLeaf(kind, *inside, axes), body.dtype)
            case SumOfProducts((a, b), conditions, axes, dtype, exact, compute):
                factors = self.moved(a, places), self.moved(b, places)
                holds = self.moved_conditions(conditions, places)
                return self.leaf(SumOfProducts(factors, holds, axes, dtype, exact, compute), dtype)

    def holds(self, conditions: Conditions) -> Expr | None:
        """Return conditions as one expression; None where they always hold."""
        made: Expr | None = None
        ordered = sorted(conditions, key=repr)
        for condition in ordered:
            each = self.truth(condition)
            made = each if made is None else apply("and", made, each)
        return made

    def truth(self, condition: AffinePosition | Expr) -> Expr:
        """Return a condition as an expression."""
        if not isinstance(condition, AffinePosition):
            return condition
        if condition.low >= 0 or condition.high < 0:
            return Literal(condition.low >= 0, boolean)
        return self.leaf(Test(condition), boolean)

    def negated(self, conditions: Conditions) -> Expr:
        """Return an expression that is true where not all of `conditions` hold."""
        test = self.holds(conditions)
        return Literal(False, boolean) if test is None else apply("not", test)

    def chosen(self, conditions: Conditions, value: Expr, other: Expr) -> Expr:
        """Return `value` where `conditions` hold, else `other`."""
        test = self.holds(conditions)
        if test is None or value == other:
            return value
        return other if test == Literal(False, boolean) else apply("select", test, value, other)


def conjunction(conditions: Iterable[AffinePosition | Expr]) -> Conditions:
    """Return those that do not always hold; where one never does, that alone."""
    kept: set[AffinePosition | Expr] = set()
    for condition in conditions:
        if isinstance(condition, AffinePosition):
            if condition.high < 0:
                return frozenset({Literal(False, boolean)})
            if condition.low >= 0:
                continue
        elif isinstance(condition, Literal):
            if condition.value:
                continue
            return frozenset({condition})
        kept.add(condition)
    return frozenset(kept)


def cut_extent(conditions: Conditions, axis: Axis) -> int:
    """Return up to where conditions let an axis go: `c - axis >= 0` means c + 1."""
    extent = axis.extent
    for condition in conditions:
        if isinstance(condition, AffinePosition) and len(condition.terms) == 1:
            digit, scale = condition.terms[0]
            if digit.axis == axis and digit.divisor == 1 and digit.modulus == 0 and scale < 0:
                extent = min(extent, max(0, condition.constant // -scale + 1))
    return extent


def computed(opcode: str, *operands: Expr, predicate: str = "") -> Expr:
    """Apply an operation as a Program does: shorter floats are computed in f32 and rounded back."""
    dtype = operands[-1].dtype
    if opcode == "select" or not (dtype.is_float and dtype.bits < f32.bits):
        return apply(opcode, *operands, predicate=predicate)
    wide = apply(opcode, *(cast_expr(operand, f32) for operand in operands), predicate=predicate)
    return wide if opcode == "cmp" else cast_expr(wide, dtype)


def simplified(expr: Expr) -> Expr:
    """Return `expr` without choices and conjunctions of which one side is known."""

    def node(each: Apply, *operands: Expr) -> Expr:
        known = {operand.value: operand for operand in operands if isinstance(operand, Literal)}
        if each.opcode == "select" and isinstance(operands[0], Literal):
            return operands[1] if operands[0].value else operands[2]
        if each.opcode == "and" and each.dtype == boolean and known:
            return (
                next((o for o in operands if not isinstance(o, Literal)), operands[0]) if all(known) else known[False]
            )
        if each.opcode == "not" and each.dtype == boolean and known:
            return Literal(not next(iter(known)), boolean)
        return Apply(each.opcode, operands, each.dtype, each.predicate)

    return cast_type("Expr", fold(expr, lambda leaf: leaf, node))


def is_zero(expr: Expr) -> bool:
    """Return whether an expression is the number 0."""
    while isinstance(expr, Apply) and expr.opcode == "cast":
        expr = expr.operands[0]
    return isinstance(expr, Literal) and expr.value == 0
