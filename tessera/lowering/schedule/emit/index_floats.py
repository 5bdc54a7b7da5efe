"""Convert indices to floats before they are combined, where that is exact: a row and a column instead of a matrix.

    before: f32(j - i)
    after:  f32(j) - f32(i)

Integers of so many bits as a float has in its significand are floats, and their sums and differences too, so that not
a bit changes.  Hardware converts integers of 64 bits slowly.
"""

from collections.abc import Mapping
from typing import TypeAlias, cast

import ml_dtypes

from tessera.core.base.dtypes import DType
from tessera.core.graph.expr import Apply, Argument, Expr, Literal, apply, fold, walk
from tessera.core.graph.expr import cast as cast_expr

Range: TypeAlias = tuple[int, int]


def convert_first(body: Expr, ranges: Mapping[int, Range]) -> Expr:
    """Return an expression with conversions of sums and differences done on what these are made of.

    ranges: the least and the greatest value of the arguments that are indices
    """
    done: dict[Expr, Expr] = {}
    for each in walk(body):
        if not isinstance(each, Apply):
            done[each] = each
        elif each.opcode == "cast" and each.dtype.is_float and _exact(each.operands[0], ranges, each.dtype):
            done[each] = _in_floats(each.operands[0], each.dtype)
        else:
            operands = tuple([done[operand] for operand in each.operands])
            done[each] = Apply(each.opcode, operands, each.dtype, each.predicate)
    return done[body]


def _in_floats(body: Expr, dtype: DType) -> Expr:
    def leaf(each: Argument | Literal) -> Expr:
        return cast_expr(each, dtype) if isinstance(each, Argument) else Literal(float(each.value), dtype)

    def node(each: Apply, *operands: Expr) -> Expr:
        return apply(each.opcode, *operands)

    return cast("Expr", fold(body, leaf, node))


def _exact(body: Expr, ranges: Mapping[int, Range], dtype: DType) -> bool:
    """Return whether every integer in an expression is a float too; sums of them are never -0."""
    # The bits of the significand in memory, and the one that is not there.
    kept = cast("int", ml_dtypes.finfo(dtype.numpy).nmant)  # pyright: ignore[reportUnknownMemberType]
    for each in walk(body):
        found = _range(each, ranges)
        if found is None or max(-found[0], found[1]) > 1 << (kept + 1):
            return False
    return True


def _range(body: Expr, ranges: Mapping[int, Range]) -> Range | None:
    """Return the least and the greatest integer that an expression is; None where that is not known."""

    def leaf(each: Argument | Literal) -> Range | None:
        if isinstance(each, Argument):
            return ranges.get(each.number)
        return (int(each.value), int(each.value)) if each.dtype.is_integer else None

    def node(each: Apply, *operands: Range | None) -> Range | None:
        given = [operand for operand in operands if operand is not None]
        if len(given) < len(operands) or not each.dtype.is_integer:
            return None
        found = _combine(each.opcode, given)
        most = 1 << (each.dtype.bits - 1)
        return found if found is not None and -most <= found[0] and found[1] < most else None

    return cast("Range | None", fold(body, leaf, node))


def _combine(opcode: str, operands: list[Range]) -> Range | None:
    match opcode, operands:
        case "add", [(low, high), (least, most)]:
            return low + least, high + most
        case "sub", [(low, high), (least, most)]:
            return low - most, high - least
        case "min" | "max", [(low, high), (least, most)]:
            choose = min if opcode == "min" else max
            return choose(low, least), choose(high, most)
        case _:
            return None
