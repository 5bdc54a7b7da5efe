"""Find rescalings of an accumulator by factors that are mostly one (online softmax); `mma.lazy_rescale` emits them."""

from collections.abc import Iterable, Sequence
from typing import Final

from tessera.core.mlir import AnyOp, ir
from tessera.lowering.base.ir_walk import defining

_POWERS: Final = ("math.exp", "math.exp2")


def find_rescalings(operations: Iterable[AnyOp]) -> set[AnyOp]:
    """Return the multiplications of accumulators by powers of differences, which are one where the maximum stays."""
    return {op for op in operations if op.name == "arith.mulf" and _is_sum(op.results[0]) and _is_power(op.operands[1])}


def _is_sum(value: ir.Value) -> bool:
    """Return whether a value is the accumulator of a product, and nothing else."""
    uses = [(use.owner.operation.name, use.operand_number) for use in value.uses]
    return uses == [("tessera.dot", 2)]


def _is_power(value: ir.Value) -> bool:
    """Return whether a tile repeats, for each row, a power whose exponent is a difference."""
    repeated = _owner(value, ("tessera.broadcast",))
    reshaped = _owner(repeated, ("tessera.reshape",))
    return _owner(_owner(reshaped, _POWERS), ("arith.subf",)) is not None


def _owner(value: ir.Value | None, names: Sequence[str]) -> ir.Value | None:
    """Return the first operand of the operation that defines `value`, if that is one of `names`."""
    op = None if value is None else defining(value)
    return op.operands[0] if op is not None and op.name in names else None
