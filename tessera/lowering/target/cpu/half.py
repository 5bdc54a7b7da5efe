"""Between 16-bit floats and f32, on scalars and vectors of any length.

f16 uses the conversion instructions that every processor with vectors of 256 bits has.  bf16 is converted with
integer operations: the conversion instruction of some processors flushes denormals, and others have none.
"""

from typing import Any

from tessera.core.mlir import ir
from tessera.lowering.emit import Emitter
from tessera.lowering.target.cpu.algebra import shaped


def widen(emitter: Emitter, value: Any) -> Any:
    """An f16 or bf16 value as f32, exactly; any other float passes through."""
    lanes, element = _shape(value)
    if element == "f16":
        return emitter.value("arith.extf", (value,), shaped(lanes, "f32"))
    if element != "bf16":
        return value
    bits = emitter.value("arith.bitcast", (value,), shaped(lanes, "i16"))
    wide = emitter.value("arith.extui", (bits,), shaped(lanes, "i32"))
    high = emitter.value("arith.shli", (wide, emitter.constant(16, wide.type)), wide.type)
    return emitter.value("arith.bitcast", (high,), shaped(lanes, "f32"))


def narrow(emitter: Emitter, value: Any, element: str) -> Any:
    """An f32 value as `element` (f16, bf16), to nearest even; f32 passes through."""
    lanes, _ = _shape(value)
    if element == "f16":
        return emitter.value("arith.truncf", (value,), shaped(lanes, "f16"))
    if element != "bf16":
        return value
    integer = shaped(lanes, "i32")

    def op(name: str, a: Any, constant: int) -> Any:
        return emitter.value(name, (a, emitter.constant(constant, integer)), integer)

    bits = emitter.value("arith.bitcast", (value,), integer)
    odd = op("arith.andi", op("arith.shrui", bits, 16), 1)
    rounded = emitter.value("arith.addi", (op("arith.addi", bits, 0x7FFF), odd), integer)
    nan = emitter.value("arith.cmpf", (value, value), shaped(lanes, "i1"), {"predicate": "14 : i64"})
    quiet = op("arith.ori", bits, 0x400000)
    chosen = emitter.value("arith.select", (nan, quiet, rounded), integer)
    short = emitter.value("arith.trunci", (op("arith.shrui", chosen, 16),), shaped(lanes, "i16"))
    return emitter.value("arith.bitcast", (short,), shaped(lanes, "bf16"))


def _shape(value: Any) -> tuple[int, str]:
    kind = value.type
    if isinstance(kind, ir.VectorType):
        return int(kind.shape[0]), str(kind.element_type)
    return 0, str(kind)
