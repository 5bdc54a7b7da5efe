"""Analyse the range and the sign of integers where they are used.

A bound above is a number, or a shape symbol plus a number (`i < n` gives `i <= n - 1`).  Loops give bounds of their
index, branches give bounds of what they compare.  Extents and ids are taken to be below 2**47, so that arithmetic on
them is known not to wrap; whatever might leave 62 bits is unknown.  `divisibility.py` says what divides an integer.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from tessera.core.mlir import AnyOp, ir
from tessera.lowering.analysis.divisibility import multiple_of
from tessera.lowering.base.ir_walk import ancestors, constant, defining

LARGEST_EXTENT: Final = 1 << 47
"""More elements or lanes than any machine addresses: what ids and extents stay below."""
_SAFE: Final = 1 << 62
_WARP: Final = 32
_MAX_DEPTH: Final = 16
# numbers of arith.cmpi's predicates, as (negation, and what they say of the operands)
_NEGATED: Final = {0: 1, 1: 0, 2: 5, 3: 4, 4: 3, 5: 2, 6: 9, 7: 8, 8: 7, 9: 6}
_MIRRORED: Final = {4: 2, 5: 3, 8: 6, 9: 7}  # a > b is b < a, and so on
_EQ, _SLT, _SLE, _ULT, _ULE = 0, 2, 3, 6, 7
_SIGN_DEPTH: Final = 8
_KEEP_SIGN: Final = frozenset(f"arith.{name}" for name in
    ("addi", "muli", "minsi", "maxsi", "divsi", "divui", "remsi", "remui"))  # fmt: skip
"""Made of numbers that are not negative, they are not negative either."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """`low <= value`, and `value <= symbol + above[symbol]` for each symbol; the symbol None stands for 0."""

    low: int
    above: Mapping[str | None, int]

    @property
    def high(self) -> int:
        """Return the largest number the value can be."""
        return self.above[None]

    def below(self, extent: int | str) -> bool:
        """Return whether the value is certainly less than `extent`."""
        if isinstance(extent, int):
            return self.high < extent
        return self.above.get(extent, 0) < 0


@dataclass(frozen=True, slots=True)
class Fact:
    """`smaller + gap <= larger`, as signed numbers (gap 0 or 1)."""

    smaller: ir.Value
    larger: ir.Value
    gap: int


@dataclass(slots=True)
class IntegerRanges:
    """The facts that hold at one operation: of the branches around it, and the group's shape; answers are cached."""

    facts: tuple[Fact, ...] = ()
    group: tuple[int, ...] | None = None
    known: dict[ir.Value, Bounds | None] = field(default_factory=dict[ir.Value, Bounds | None])

    def bounds(self, value: ir.Value, depth: int = 0) -> Bounds | None:
        """Return the bounds of an i64 scalar, or None where nothing is known."""
        if value not in self.known:
            self.known[value] = None  # a loop through the facts finds nothing new
            self.known[value] = self._narrowed(value, self._made(value, depth), depth)
        return self.known[value]

    def least(self, value: ir.Value) -> int | None:
        """Return a number that `value` is never below, or None.

        Where the bounds are unknown, its sign may be known: products and sums of ids and extents are taken not to wrap.
        """
        found = self.bounds(value)
        if found is not None:
            return found.low
        return 0 if self._not_negative(value, _SIGN_DEPTH) else None

    def _not_negative(self, value: ir.Value, depth: int) -> bool:
        known = self.bounds(value)
        if known is not None or depth == 0:
            return known is not None and known.low >= 0
        op = defining(value)
        if op is not None:
            return op.name in _KEEP_SIGN and all(self._not_negative(v, depth - 1) for v in op.operands)
        loop = ir.BlockArgument(value).owner.owner.operation
        index = loop.name == "scf.for" and ir.BlockArgument(value).arg_number == 0
        return index and self._not_negative(loop.operands[0], depth - 1)

    # -- from the operation that makes the value ---------------------------------------------------------------

    def _made(self, value: ir.Value, depth: int) -> Bounds | None:
        number = constant(value)
        if number is not None:
            return _checked(number, {None: number})
        if depth > _MAX_DEPTH:
            return None
        op = defining(value)
        if op is None:
            return self._index(value, depth)
        if op.name == "tessera.dim":
            symbol = str(ir.StringAttr(op.attributes["symbol"]).value)
            return Bounds(0, {symbol: 0, None: LARGEST_EXTENT})
        if op.name == "tessera.id":
            return self._identifier(op)
        values = list(op.operands)[1:] if op.name == "arith.select" else list(op.operands)
        operands = [self.bounds(v, depth + 1) for v in values]
        if any(b is None for b in operands) or op.name not in _RULES:
            return None
        return _RULES[op.name](*operands)

    def _identifier(self, op: AnyOp) -> Bounds:
        of = str(ir.StringAttr(op.attributes["of"]).value)
        if of == "lane_in_warp":
            return Bounds(0, {None: _WARP - 1})
        if of in ("lane", "group_lanes", "warp") and self.group is not None:
            lanes = 1
            for axis, extent in enumerate(self.group):
                lanes *= (
                    extent if "axis" not in op.attributes or ir.IntegerAttr(op.attributes["axis"]).value == axis else 1
                )
            if of == "group_lanes":
                return Bounds(lanes, {None: lanes})
            return Bounds(0, {None: (lanes - 1) // (_WARP if of == "warp" else 1)})
        return Bounds(1 if of in ("group_lanes", "grid_groups") else 0, {None: LARGEST_EXTENT})

    def _index(self, value: ir.Value, depth: int) -> Bounds | None:
        """Return the bounds of a loop's index: from the lower bound to just below the upper one."""
        owner = ir.BlockArgument(value).owner.owner
        if owner.operation.name != "scf.for" or ir.BlockArgument(value).arg_number != 0:
            return None
        first, last, step = list(owner.operation.operands)[:3]
        low, up = self.bounds(first, depth + 1), self.bounds(last, depth + 1)
        if low is None or up is None:
            return None
        above = {symbol: number - 1 for symbol, number in up.above.items()}
        start, stride = constant(first), constant(step)
        if start is not None and stride is not None and above[None] >= start:
            above[None] = start + (above[None] - start) // stride * stride
        elif stride is not None and above[None] >= 0:
            divisor = math.gcd(multiple_of(first), stride)
            # Powers of two divide what arithmetic that wraps makes, too.
            above[None] -= above[None] % (divisor & -divisor)
        return _checked(low.low, above)

    # -- from the branches around it ---------------------------------------------------------------------------

    def _narrowed(self, value: ir.Value, found: Bounds | None, depth: int) -> Bounds | None:
        if not self.facts or depth > _MAX_DEPTH:
            return found
        low, above = (found.low, dict(found.above)) if found is not None else (None, {})
        for fact in self.facts:
            if fact.smaller == value and (other := self.bounds(fact.larger, depth + 1)) is not None:
                for symbol, number in other.above.items():
                    above[symbol] = min(above.get(symbol, number), number - fact.gap)
            if fact.larger == value and (other := self.bounds(fact.smaller, depth + 1)) is not None:
                low = other.low + fact.gap if low is None else max(low, other.low + fact.gap)
        return Bounds(low, above) if low is not None and None in above else found


def integer_ranges(op: AnyOp, group: tuple[int, ...] | None = None) -> IntegerRanges:
    """Return the facts at `op`: the conditions of the branches around it; `group` is the kernel's `tile[...]`."""
    facts: list[Fact] = []
    inner = op
    for outer in ancestors(op):
        if outer.name == "scf.if":
            facts += _facts(outer.operands[0], _inside(inner, outer.regions[0]), 0)
        inner = outer
    return IntegerRanges(tuple(facts), group)


def _inside(op: AnyOp, region: ir.Region) -> bool:
    return op.operation.block == region.blocks[0]


def _facts(condition: ir.Value, holds: bool, depth: int) -> list[Fact]:
    """Return the facts that follow from `condition` being true (`holds`) or false."""
    op = defining(condition)
    if op is None or depth > _MAX_DEPTH:
        return []
    if op.name == ("arith.andi" if holds else "arith.ori"):
        return [fact for v in op.operands for fact in _facts(v, holds, depth + 1)]
    if op.name == "arith.xori" and constant(op.operands[1]) not in (None, 0):
        return _facts(op.operands[0], not holds, depth + 1)
    if op.name != "arith.cmpi":
        return []
    predicate = int(ir.IntegerAttr(op.attributes["predicate"]).value)
    return _comparison(predicate if holds else _NEGATED[predicate], *op.operands)


def _comparison(predicate: int, a: ir.Value, b: ir.Value) -> list[Fact]:
    if predicate in _MIRRORED:
        predicate, a, b = _MIRRORED[predicate], b, a
    if predicate == _EQ:
        return [Fact(a, b, 0), Fact(b, a, 0)]
    if predicate in (_SLT, _SLE):
        return [Fact(a, b, int(predicate == _SLT))]
    return []  # "different" says nothing of order; unsigned orders do not come from the language's i64


# -- rules: bounds of operands to bounds of the result ---------------------------------------------------------


def _checked(low: int, above: Mapping[str | None, int]) -> Bounds | None:
    return Bounds(low, above) if low > -_SAFE and above[None] < _SAFE else None


def _add(a: Bounds, b: Bounds) -> Bounds | None:
    above = {symbol: number + b.high for symbol, number in a.above.items()}
    for symbol, number in b.above.items():
        above[symbol] = min(above.get(symbol, _SAFE), number + a.high)
    return _checked(a.low + b.low, above)


def _subtract(a: Bounds, b: Bounds) -> Bounds | None:
    return _checked(a.low - b.high, {symbol: number - b.low for symbol, number in a.above.items()})


def _multiply(a: Bounds, b: Bounds) -> Bounds | None:
    ends = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    return _checked(min(ends), {None: max(ends)})


def _minimum(a: Bounds, b: Bounds) -> Bounds | None:
    above = {s: min(a.above.get(s, _SAFE), b.above.get(s, _SAFE)) for s in {*a.above, *b.above}}
    return _checked(min(a.low, b.low), above)


def _maximum(a: Bounds, b: Bounds) -> Bounds | None:
    return _checked(max(a.low, b.low), _either(a, b))


def _select(a: Bounds, b: Bounds) -> Bounds | None:
    return _checked(min(a.low, b.low), _either(a, b))


def _extend(a: Bounds) -> Bounds:
    return a


def _either(a: Bounds, b: Bounds) -> dict[str | None, int]:
    return {s: max(a.above[s], b.above[s]) for s in a.above if s in b.above}


def _divide(a: Bounds, b: Bounds) -> Bounds | None:
    if a.low < 0 or b.low < 0:
        return None
    above = {s: n for s, n in a.above.items() if s is not None}  # the quotient is no more than the dividend
    return _checked(a.low // max(1, b.high), {**above, None: a.high // max(1, b.low)})  # nothing is divided by 0


def _remainder(a: Bounds, b: Bounds) -> Bounds | None:
    if a.low < 0 or b.low < 0:
        return None
    return _minimum(Bounds(0, a.above), Bounds(0, {s: n - 1 for s, n in b.above.items()}))


_RULES: Final[dict[str, Callable[..., Bounds | None]]] = {
    "arith.addi": _add,
    "arith.subi": _subtract,
    "arith.muli": _multiply,
    "arith.minsi": _minimum,
    "arith.maxsi": _maximum,
    "arith.divsi": _divide,
    "arith.divui": _divide,
    "arith.remsi": _remainder,
    "arith.remui": _remainder,
    "arith.extsi": _extend,
    "arith.select": _select,
}
