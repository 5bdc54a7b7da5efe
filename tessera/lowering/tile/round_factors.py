"""Factors of products that are rounded to tf32 before they are multiplied, for machines without such products."""

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from tessera.core.mlir import ir
from tessera.core.tile.dialect import COMPUTE
from tessera.lowering.emit import Emitter
from tessera.lowering.passes import Pass
from tessera.lowering.tile.attributes import integer
from tessera.lowering.tile.walk import operations

_LOST: Final = 13
"""Bits of f32's mantissa that tf32 has not."""
_HALF: Final = (1 << _LOST - 1) - 1
_KEPT: Final = -1 << _LOST
_MAGNITUDE: Final = 0x7FFFFFFF
_INFINITY: Final = 0x7F800000
_LESS: Final = 2  # of signed integers, as `arith.cmpi` numbers its predicates


@dataclass(frozen=True, slots=True)
class RoundFactors(Pass):
    """Round factors of `compute = "tf32"` with integers, and multiply what comes out as it is.

    before: `%c = tessera.dot %a, %b tf32 : tile<16x16xf32>`
    after:  `%c = tessera.dot %x, %y : tile<16x16xf32>`, `%x` and `%y` made of `%a` and `%b` by eight operations each
    """

    name: ClassVar[str] = "tile-round-factors"

    def run(self, module: Any) -> None:
        """Rewrite `module`; one without such products stays as it is."""
        for dot in operations(module, "tessera.dot"):
            if COMPUTE not in dot.attributes:
                continue
            emit = Emitter.before(dot)
            for number in (0, 1):
                dot.operands[number] = _rounded(emit, dot.operands[number])
            del dot.attributes[COMPUTE]


def _rounded(emit: Emitter, value: Any) -> Any:
    """A tile of f32 with 10 bits of mantissa, to nearest even; infinities and NaN stay."""
    shape = list(value.type.shape)
    words = ir.RankedTensorType.get(shape, ir.IntegerType.get_signless(32))
    flags = ir.RankedTensorType.get(shape, ir.IntegerType.get_signless(1))

    def op(name: str, a: Any, b: Any) -> Any:
        return emit.value(f"arith.{name}", [a, emit.constant(b, words) if isinstance(b, int) else b], words)

    bits = emit.value("arith.bitcast", [value], words)
    odd = op("andi", op("shrui", bits, _LOST), 1)
    rounded = op("andi", op("addi", op("addi", bits, _HALF), odd), _KEPT)
    magnitude = op("andi", bits, _MAGNITUDE)
    finite = emit.value(
        "arith.cmpi", [magnitude, emit.constant(_INFINITY, words)], flags, {"predicate": integer(_LESS)}
    )
    chosen = emit.value("arith.select", [finite, rounded, bits], words)
    return emit.value("arith.bitcast", [chosen], value.type)
