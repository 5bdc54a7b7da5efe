"""Bounds of scalar expressions: an exponent that is bounded needs no running maximum."""

import math
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, cast

from tessera.core.graph.expr import Apply, Argument, Expr, Literal, fold

Interval: TypeAlias = tuple[float, float]

EVERYTHING: Final = (-math.inf, math.inf)
SAFE_WIDTH: Final = {16: 8.0, 32: 80.0, 64: 700.0}
"""How wide an exponent's interval may be for a constant anchor, by the bits of the type that sums are kept in."""


def interval(expr: Expr, ranges: Mapping[int, Interval]) -> Interval:
    """Return the least and the greatest value of `expr`; ranges: of arguments, those it lacks are unbounded.

    Operands are taken as independent.  Rounding is left out: bounds are for choosing an anchor, any anchor is correct.
    """

    def leaf(each: Argument | Literal) -> Interval:
        if isinstance(each, Argument):
            return ranges.get(each.number, EVERYTHING)
        return float(each.value), float(each.value)

    def node(each: Apply, *operands: Interval) -> Interval:
        return _clean(_apply(each, operands))

    return cast(Interval, fold(expr, leaf, node))


def _clean(bounds: Interval) -> Interval:
    low, high = bounds
    return (-math.inf if math.isnan(low) else low), (math.inf if math.isnan(high) else high)


def _apply(expr: Apply, operands: tuple[Interval, ...]) -> Interval:
    opcode = expr.opcode
    if opcode in _MONOTONIC:
        low, high = operands[0]
        rise, least, greatest = _MONOTONIC[opcode]
        bounds = (_at(opcode, low, least), _at(opcode, high, greatest))
        return bounds if rise else (bounds[1], bounds[0])
    if opcode in _BOUNDED:
        return _BOUNDED[opcode]
    if opcode == "fma":
        return _sum(_product(operands[0], operands[1], expr.operands[0] == expr.operands[1]), operands[2])
    if opcode == "mul":
        return _product(operands[0], operands[1], expr.operands[0] == expr.operands[1])
    if opcode == "pow":
        return _power(operands[0], operands[1])
    if opcode == "select":
        return _hull(operands[1], operands[2])
    rule = _SIMPLE.get(opcode)
    return EVERYTHING if rule is None else rule(operands)


_MONOTONIC: Final = {
    "exp": (True, 0.0, math.inf), "exp2": (True, 0.0, math.inf), "log": (True, -math.inf, math.inf),
    "log2": (True, -math.inf, math.inf), "sqrt": (True, 0.0, math.inf), "tanh": (True, -1.0, 1.0),
    "erf": (True, -1.0, 1.0), "floor": (True, -math.inf, math.inf), "ceil": (True, -math.inf, math.inf),
}  # fmt: skip
"""Functions that rise: their least and greatest values."""
_BOUNDED: Final = {"sin": (-1.0, 1.0), "cos": (-1.0, 1.0), "rsqrt": (0.0, math.inf), "cmp": (0.0, 1.0)}


def _exp2(value: float) -> float:
    return 2.0**value


_FUNCTIONS: Final[dict[str, Callable[[float], float]]] = {
    "exp": math.exp, "exp2": _exp2, "log": math.log, "log2": math.log2, "sqrt": math.sqrt,
    "tanh": math.tanh, "erf": math.erf, "floor": math.floor, "ceil": math.ceil,
}  # fmt: skip


def _at(opcode: str, value: float, otherwise: float) -> float:
    if not math.isfinite(value):
        return otherwise
    try:
        return float(_FUNCTIONS[opcode](value))
    except (OverflowError, ValueError):
        return otherwise  # beyond the largest float, or outside of the domain


def _sum(a: Interval, b: Interval) -> Interval:
    return a[0] + b[0], a[1] + b[1]


def _difference(operands: tuple[Interval, ...]) -> Interval:
    a, b = operands
    return a[0] - b[1], a[1] - b[0]


def _times(a: float, b: float) -> float:
    return 0.0 if a == 0 or b == 0 else a * b  # 0 times a bound that is not reached is 0


def _product(a: Interval, b: Interval, same: bool) -> Interval:
    corners = [_times(x, y) for x in a for y in b]
    if same:
        ends = [_times(x, x) for x in a]
        return (0.0 if a[0] <= 0 <= a[1] else min(ends)), max(ends)
    return min(corners), max(corners)


def _quotient(operands: tuple[Interval, ...]) -> Interval:
    a, b = operands
    if b[0] < 0 < b[1] or b == (0.0, 0.0):
        return EVERYTHING
    ends = (
        0.0 if math.isinf(b[1]) else (-math.inf if b[1] == 0 else 1 / b[1]),
        0.0 if math.isinf(b[0]) else (math.inf if b[0] == 0 else 1 / b[0]),
    )
    return _product(a, ends, same=False)


def _power(base: Interval, exponent: Interval) -> Interval:
    n = exponent[0]
    if exponent[1] != n or not float(n).is_integer() or not 0 < n <= 64:
        return EVERYTHING
    result = base
    for place in range(int(n) - 1):
        result = _product(result, base, same=place == 0)
    return (max(0.0, result[0]), result[1]) if n % 2 == 0 else result


def _absolute(operands: tuple[Interval, ...]) -> Interval:
    low, high = operands[0]
    return (0.0 if low <= 0 <= high else min(abs(low), abs(high))), max(abs(low), abs(high))


def _hull(a: Interval, b: Interval) -> Interval:
    return min(a[0], b[0]), max(a[1], b[1])


def _rule_sum(operands: tuple[Interval, ...]) -> Interval:
    return _sum(operands[0], operands[1])


def _negative(operands: tuple[Interval, ...]) -> Interval:
    return -operands[0][1], -operands[0][0]


def _greater(operands: tuple[Interval, ...]) -> Interval:
    (a, b), (c, d) = operands
    return max(a, c), max(b, d)


def _less(operands: tuple[Interval, ...]) -> Interval:
    (a, b), (c, d) = operands
    return min(a, c), min(b, d)


def _same(operands: tuple[Interval, ...]) -> Interval:
    return operands[0]


_SIMPLE: Final[dict[str, Callable[[tuple[Interval, ...]], Interval]]] = {
    "add": _rule_sum, "sub": _difference, "neg": _negative, "div": _quotient, "abs": _absolute, "max": _greater,
    "min": _less, "cast": _same,
}  # fmt: skip
