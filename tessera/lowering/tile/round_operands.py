"""Factors of products that are rounded to tf32 before they are multiplied, where no hardware does it on the way."""

from dataclasses import dataclass
from typing import ClassVar, Final

from tessera.core.mlir import AnyOp, Index, ir
from tessera.core.tile.dialect import COMPUTE
from tessera.lowering.base.attributes import integer
from tessera.lowering.base.emit import Emitter
from tessera.lowering.base.ir_walk import operations
from tessera.lowering.base.passes import Pass

_LOST: Final = 13
"""Bits of f32's mantissa that tf32 has not."""
_HALF: Final = (1 << _LOST - 1) - 1
_KEPT: Final = -1 << _LOST
_LESS: Final = 4  # ordered, of floats, as `arith.cmpf` numbers its predicates


@dataclass(frozen=True, slots=True)
class RoundOperands(Pass):
    """Round factors of `compute = "tf32"` with integers, and multiply what comes out as it is.

    before: `%c = tessera.dot %a, %b tf32 : tile<16x16xf32>`
    after:  `%c = tessera.dot %x, %y : tile<16x16xf32>`, `%x` and `%y` made of `%a` and `%b` by ten operations each
    """

    name: ClassVar[str] = "tile-round-operands"

    def run(self, module: ir.Module) -> None:
        """Rewrite `module`; one without such products stays as it is."""
        for dot in operations(module, "tessera.dot"):
            round_dot_operands(dot)


def round_dot_operands(dot: AnyOp) -> None:
    """Give a product on tf32 rounded factors, and the rounding no more; others stay as they are."""
    if COMPUTE not in dot.attributes:
        return
    emit = Emitter.before(dot)
    for number in (0, 1):
        dot.operands[number] = rounded_to_tf32(emit, dot.operands[number])
    del dot.attributes[COMPUTE]


def rounded_to_tf32(emit: Emitter, value: ir.Value) -> ir.Value:
    """Round an f32, or a tile of them, to 10 bits of mantissa, to nearest even; infinities and NaN stay."""
    words, flags = (_like(value.type, ir.IntegerType.get_signless(bits)) for bits in (32, 1))

    def op(name: str, a: ir.Value, b: Index) -> ir.Value:
        return emit.value(f"arith.{name}", [a, emit.constant(b, words) if isinstance(b, int) else b], words)

    bits = emit.value("arith.bitcast", [value], words)
    odd = op("andi", op("shrui", bits, _LOST), 1)
    rounded = op("andi", op("addi", op("addi", bits, _HALF), odd), _KEPT)
    limits = [emit.value("math.absf", [value], value.type), emit.constant(float("inf"), value.type)]
    finite = emit.value("arith.cmpf", limits, flags, {"predicate": integer(_LESS)})
    chosen = emit.value("arith.select", [finite, rounded, bits], words)
    return emit.value("arith.bitcast", [chosen], value.type)


def _like(kind: ir.Type, element: ir.Type) -> ir.Type:
    """Return the type of a scalar or tile with another element type."""
    shaped = isinstance(kind, ir.RankedTensorType)
    return ir.RankedTensorType.get(list(kind.shape), element) if shaped else element
