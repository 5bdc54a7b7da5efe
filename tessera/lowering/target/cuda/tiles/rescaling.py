"""Factors of a product's sums that are mostly one, as the online softmax has them: then nothing is multiplied.

before: `%acc_1 = arith.mulf %acc, broadcast(exp2(%a - %b))`, whose result is the sum that a product adds to
after:  the same, in a branch that a warp takes where one of its lanes has a factor other than one
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from tessera.core.mlir import ir
from tessera.lowering.target.cuda.build import Build

_POWERS: Final = ("math.exp", "math.exp2")
_NOT_EQUAL: Final = "13 : i64"
"""`arith.cmpf une`: also where one is NaN."""


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


def rescaled(build: Build, values: Sequence[Any], factors: Sequence[Any]) -> tuple[Any, ...]:
    """Products of f32 values and factors, of which many are the same value: the bits of a multiplication."""
    one = build.constant(1.0, "f32")
    changes = [
        build.value("arith.cmpf", [factor, one], "i1", {"predicate": _NOT_EQUAL}) for factor in dict.fromkeys(factors)
    ]
    changed = changes[0]
    for other in changes[1:]:
        changed = build.value("arith.ori", [changed, other], "i1")
    anywhere = build.value("nvvm.vote.sync", [build.word(-1), changed], "i1", {"kind": "#nvvm<vote_sync_kind any>"})
    op = build.create("scf.if", [anywhere], ["f32"] * len(values), regions=2)
    with build.at(op.regions[0].blocks.append()):
        pairs = zip(values, factors, strict=True)
        build.create("scf.yield", [build.value("arith.mulf", list(pair), "f32") for pair in pairs])
    with build.at(op.regions[1].blocks.append()):
        build.create("scf.yield", list(values))
    return tuple(op.results)
