"""Analyse the range of a tile's elements from the operations that compute them."""

from typing import Final

from tessera.core.mlir import ir

_PASSING: Final = ("tessera.broadcast", "tessera.reshape", "tensor.splat")
_DEPTH: Final = 8


def not_positive(value: ir.Value) -> bool:
    """Return whether every element is certainly at most 0, or NaN: `x - max(x)`, or minus something still larger."""
    op = _owner(value)
    return op is not None and op.name == "arith.subf" and _at_least(op.operands[1], op.operands[0], _DEPTH)


def _at_least(bound: ir.Value, x: ir.Value, depth: int) -> bool:
    """Return whether `bound` is at least every element of `x` (or NaN): the maximum of `x`, or of that and others."""
    op = _owner(bound)
    if op is None or depth == 0:
        return False
    if op.name == "tessera.reduce":
        return ir.StringAttr(op.attributes["kind"]).value == "max" and op.operands[0] == x
    if op.name == "arith.maximumf":
        return any(_at_least(operand, x, depth - 1) for operand in op.operands)
    return op.name in _PASSING and _at_least(op.operands[0], x, depth - 1)


def _owner(value: ir.Value) -> ir.Operation | None:
    return None if isinstance(value.owner, ir.Block) else value.owner.operation
