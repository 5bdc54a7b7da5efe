"""Factors of a product's sums that are mostly one, as the online softmax has them: then nothing is multiplied.

before: `%acc_1 = arith.mulf %acc, broadcast(exp2(%a - %b))`, whose result is the sum that a product adds to
after:  the same, in a branch that a warp takes where one of its lanes has a factor other than one
"""

from collections.abc import Sequence
from typing import Any, Final

from tessera.lowering.cuda.base.index_builder import IndexBuilder

_NOT_EQUAL: Final = "13 : i64"
"""`arith.cmpf une`: also where one is NaN."""


def rescaled(build: IndexBuilder, values: Sequence[Any], factors: Sequence[Any]) -> tuple[Any, ...]:
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
