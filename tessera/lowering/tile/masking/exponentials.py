"""Exponentials of tiles less their own maximum, as a softmax written by hand has them: exp(s - max(s)).

Where elements of `s` are replaced by -inf for the maximum, the same replaced tile serves the difference: its
exponential is 0 there, which is what sums and products of it want, and no second mask is needed.
"""

from typing import Final

from tessera.core.mlir import AnyOp, ir
from tessera.lowering.analysis.integers import IntegerRanges
from tessera.lowering.analysis.valid_elements import WHOLE, Item, Limit, ValidElements
from tessera.lowering.base.attributes import named_axis
from tessera.lowering.base.ir_walk import defining

EXPONENTIALS: Final = ("math.exp", "math.exp2")
_REPEATED: Final = ("tessera.broadcast", "tessera.reshape", "tensor.splat")


def maximum_of_difference(op: AnyOp) -> AnyOp | None:
    """Return the `tessera.reduce max` over s that is part of m in exp(s - m), where m is at least that maximum.

    before: `%m = arith.maximumf %top, (tessera.reduce max %s)`, `%d = arith.subf %s, (broadcast %m)`, `math.exp2 %d`
    op: an operation; None where it is anything else
    """
    difference = defining(op.operands[0]) if op.name in EXPONENTIALS else None
    if difference is None or difference.name != "arith.subf":
        return None
    tile, shift = difference.operands
    source = defining(shift)
    while source is not None and source.name in _REPEATED:
        source = defining(source.operands[0])
    found = _maximum(source, tile)
    return found if found is not None and _is_repeated_along(reduced_axis(found), shift) else None


def reduced_axis(op: AnyOp) -> int:
    """Return the axis of a `tessera.reduce`, of a tile of one axis that one where none is named, else WHOLE."""
    axis = named_axis(op)
    if axis is not None:
        return axis
    return 0 if len(ir.RankedTensorType(op.operands[0].type).shape) == 1 else WHOLE


def _maximum(op: AnyOp | None, tile: ir.Value) -> AnyOp | None:
    """Return the maximum of `tile` among the operands of nested maximums."""
    if op is None:
        return None
    if op.name == "arith.maximumf":
        sides = (_maximum(defining(value), tile) for value in op.operands)
        return next((side for side in sides if side is not None), None)
    is_maximum = op.name == "tessera.reduce" and str(ir.StringAttr(op.attributes["kind"]).value) == "max"
    return op if is_maximum and op.operands[0] == tile else None


def _is_repeated_along(axis: int, shift: ir.Value) -> bool:
    """Return whether a tile repeats its operand along `axis` alone: a square tile might do so along the other."""
    op = defining(shift)
    if op is None or op.name == "tensor.splat":
        return op is not None and axis == 0
    before, after = (list(ir.RankedTensorType(v.type).shape) for v in (op.operands[0], shift))
    return op.name == "tessera.broadcast" and before == [1 if i == axis else n for i, n in enumerate(after)]


def vanishes(found: ValidElements, item: Item, axis: int, known: IntegerRanges) -> bool:
    """Return whether exp(s - m) is 0 beyond `item`, where s, of which `found` exists, is -inf, and m >= max(s).

    It is where m is not -inf, too, or some element that exists makes the result NaN anyway: so one must exist in each
    row, which the index 0 does where it keeps every limit along the axis, and nothing else says what exists.
    """
    place, _ = item
    return place == axis and all(where >= 0 for where, _ in found.items) and all(
        isinstance(part, Limit) and part.upper and not part.guards and _begins_inside(part, known)
        for part in found.at(axis)
    )  # fmt: skip


def _begins_inside(part: Limit, known: IntegerRanges) -> bool:
    bounds = None if part.start is None else known.bounds(part.start)
    return bounds is not None and isinstance(part.end, int | str) and bounds.below(part.end)
