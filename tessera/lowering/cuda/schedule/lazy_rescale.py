"""Find the factors of a product's sums that are mostly one, as the online softmax has them; `rescaling` emits them."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from tessera.core.mlir import ir

_POWERS: Final = ("math.exp", "math.exp2")


def find_rescalings(operations: Iterable[Any]) -> set[Any]:
    """The multiplications of sums of products by powers of differences: those are one where nothing has changed."""
    return {op for op in operations if op.name == "arith.mulf" and _is_sum(op.results[0]) and _is_power(op.operands[1])}


def _is_sum(value: Any) -> bool:
    """Whether a value is what a product adds to, and nothing else."""
    uses = [(use.owner.operation.name, use.operand_number) for use in value.uses]
    return uses == [("tessera.dot", 2)]


def _is_power(value: Any) -> bool:
    """Whether a tile repeats, for each row, a power whose exponent is a difference."""
    repeated = _owner(value, ("tessera.broadcast",))
    reshaped = _owner(repeated, ("tessera.reshape",))
    return _owner(_owner(reshaped, _POWERS), ("arith.subf",)) is not None


def _owner(value: Any, names: Sequence[str]) -> Any | None:
    """The first operand of the operation that gives `value`, if it is one of `names`."""
    if value is None or isinstance(value.owner, ir.Block) or value.owner.operation.name not in names:
        return None
    return value.owner.operation.operands[0]
