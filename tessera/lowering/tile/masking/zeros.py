"""Find element-wise operations that make 0 of tiles that hold 0: no mask is needed there where 0 is wanted."""

from collections.abc import Sequence
from typing import Final

from tessera.core.mlir import AnyOp, ir
from tessera.lowering.tile.masking.index_comparisons import splat_number

_KEEP_ZERO: Final = frozenset(
    ("arith.extf", "arith.truncf", "arith.sitofp", "arith.uitofp", "arith.fptosi", "arith.fptoui", "arith.extsi",
     "arith.extui", "arith.trunci", "math.absf", "math.absi", "math.sqrt", "math.tanh", "math.sin", "math.erf")
)  # fmt: skip
"""Operations that make 0 of 0."""
_ZERO_OF_BOTH: Final = frozenset(
    ("arith.addf", "arith.addi", "arith.subf", "arith.subi", "arith.maximumf", "arith.minimumf", "arith.maxsi",
     "arith.minsi", "arith.maxui", "arith.minui", "arith.mulf", "arith.muli", "arith.andi", "arith.ori", "math.fma")
)  # fmt: skip
"""Operations that make 0 of operands that are all 0."""


def stays_zero(op: AnyOp, tiles: Sequence[ir.Value], zero: Sequence[bool]) -> bool:
    """Return whether the result of `op` is 0 where those of `tiles`, its operands, are 0 that `zero` names."""
    zero = [known or splat_number(v) == 0 for known, v in zip(zero, tiles, strict=True)]
    if all(zero):
        return op.name in _KEEP_ZERO or op.name in _ZERO_OF_BOTH
    if op.name in ("arith.muli", "arith.andi"):
        return any(zero)
    multiplier = splat_number(tiles[zero.index(False)])
    return op.name == "arith.mulf" and any(zero) and multiplier is not None and 0 < multiplier < float("inf")
