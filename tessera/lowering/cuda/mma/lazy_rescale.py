"""Skip rescaling accumulators by one, as the online softmax mostly does (lazy rescaling).

before: `%acc_1 = arith.mulf %acc, broadcast(exp2(%a - %b))`, whose result is the accumulator of an MMA
after:  the same, in a branch that a warp takes if one of its lanes has a scale other than one
"""

from collections.abc import Sequence
from typing import Final

from tessera.core.mlir import ir
from tessera.lowering.cuda.base.index_builder import IndexBuilder

_NOT_EQUAL: Final = "13 : i64"
"""`arith.cmpf une`: also where one is NaN."""


def rescaled(build: IndexBuilder, values: Sequence[ir.Value], scales: Sequence[ir.Value]) -> tuple[ir.Value, ...]:
    """Multiply f32 values by scales, many of which are the same value; the result has the bits of a multiplication."""
    one = build.constant(1.0, "f32")
    changes = [
        build.value("arith.cmpf", [scale, one], "i1", {"predicate": _NOT_EQUAL}) for scale in dict.fromkeys(scales)
    ]
    changed = changes[0]
    for other in changes[1:]:
        changed = build.value("arith.ori", [changed, other], "i1")
    anywhere = build.value("nvvm.vote.sync", [build.word(-1), changed], "i1", {"kind": "#nvvm<vote_sync_kind any>"})
    op = build.create("scf.if", [anywhere], ["f32"] * len(values), regions=2)
    with build.at(op.regions[0].blocks.append()):
        pairs = zip(values, scales, strict=True)
        build.create("scf.yield", [build.value("arith.mulf", list(pair), "f32") for pair in pairs])
    with build.at(op.regions[1].blocks.append()):
        build.create("scf.yield", list(values))
    return tuple(op.results)
