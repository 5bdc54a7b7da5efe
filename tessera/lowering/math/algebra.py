"""Short names for arithmetic on one floating vector type, its integers of the same width and its booleans.

What the mathematical functions are written with: `Algebra` fixes the shape (a number of lanes, or a scalar) and the
width (32 or 64 bits), keeps each constant once, and emits one upstream operation a call.
"""

from collections.abc import Sequence

from tessera.core.mlir import ir
from tessera.lowering.base.emit import Emitter


def shaped(lanes: int, element: str) -> str:
    """Return the type of `lanes` elements: `vector<16xf32>`, or the bare element for 0 lanes."""
    return f"vector<{lanes}x{element}>" if lanes else element


class Algebra:
    """Arithmetic on `lanes` (0: a scalar) floats of `bits` bits; values are MLIR values.

    Constants are kept and reused, so one instance serves one straight stretch of code.
    """

    def __init__(self, emitter: Emitter, lanes: int, bits: int) -> None:
        self.emitter = emitter
        self.lanes = lanes
        self.bits = bits
        self.float = shaped(lanes, f"f{bits}")
        self.int = shaped(lanes, f"i{bits}")
        self.bool = shaped(lanes, "i1")
        self._constants: dict[tuple[float | str, str], ir.Value] = {}

    def constant(self, value: float) -> ir.Value:
        """`value` in every lane."""
        return self._keep(value, self.float)

    def integer(self, value: int) -> ir.Value:
        """Return the integer `value` in every lane."""
        return self._keep(value, self.int)

    def _keep(self, value: float, kind: str) -> ir.Value:
        key = (repr(value), kind)  # repr tells -0.0 from 0.0
        if key not in self._constants:
            self._constants[key] = self.emitter.constant(value, kind)
        return self._constants[key]

    def op(self, name: str, *operands: ir.Value) -> ir.Value:
        """Operation `name` on values of one type, which is the result's."""
        return self.emitter.value(name, operands, operands[0].type)

    def add(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """a + b."""
        return self.op("arith.addf", a, b)

    def sub(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """a - b."""
        return self.op("arith.subf", a, b)

    def mul(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """a * b."""
        return self.op("arith.mulf", a, b)

    def div(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """a / b."""
        return self.op("arith.divf", a, b)

    def neg(self, a: ir.Value) -> ir.Value:
        """-a."""
        return self.op("arith.negf", a)

    def fma(self, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        """a * b + c, rounded once."""
        return self.op("math.fma", a, b, c)

    def abs(self, a: ir.Value) -> ir.Value:
        """Return the magnitude of `a`."""
        return self.op("math.absf", a)

    def round(self, a: ir.Value) -> ir.Value:
        """Return the nearest integer, halves to even, as a float."""
        return self.op("math.roundeven", a)

    def with_sign(self, magnitude: ir.Value, sign: ir.Value) -> ir.Value:
        """`magnitude` with the sign of `sign`."""
        return self.op("math.copysign", magnitude, sign)

    def polynomial(self, x: ir.Value, coefficients: Sequence[float]) -> ir.Value:
        """Horner's rule with fused steps; the constant term comes first."""
        result = self.constant(coefficients[-1])
        for coefficient in reversed(coefficients[:-1]):
            result = self.fma(result, x, self.constant(coefficient))
        return result

    def less(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """a < b, false for NaN."""
        return self.compare(4, a, b)

    def equal(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """a == b, false for NaN."""
        return self.compare(1, a, b)

    def is_nan(self, a: ir.Value) -> ir.Value:
        """True where `a` is NaN."""
        return self.compare(14, a, a)

    def compare(self, predicate: int, a: ir.Value, b: ir.Value) -> ir.Value:
        """`arith.cmpf` with MLIR's numbering: 1 oeq, 2 ogt, 4 olt, 5 ole, 11 ult, 14 uno."""
        return self.emitter.value("arith.cmpf", (a, b), self.bool, {"predicate": f"{predicate} : i64"})

    def compare_integers(self, predicate: int, a: ir.Value, b: ir.Value) -> ir.Value:
        """`arith.cmpi` with MLIR's numbering: 0 eq, 1 ne, 2 slt, 3 sle, 4 sgt, 5 sge."""
        return self.emitter.value("arith.cmpi", (a, b), self.bool, {"predicate": f"{predicate} : i64"})

    def select(self, condition: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
        """`a` where the condition holds, else `b`."""
        return self.emitter.value("arith.select", (condition, a, b), a.type)

    def either(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """Bitwise or; of conditions too."""
        return self.op("arith.ori", a, b)

    def both(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """Bitwise and; of conditions too."""
        return self.op("arith.andi", a, b)

    def add_integers(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """a + b of integers."""
        return self.op("arith.addi", a, b)

    def sub_integers(self, a: ir.Value, b: ir.Value) -> ir.Value:
        """a - b of integers."""
        return self.op("arith.subi", a, b)

    def shift_left(self, a: ir.Value, count: int) -> ir.Value:
        """a << count."""
        return self.op("arith.shli", a, self.integer(count))

    def shift_right(self, a: ir.Value, count: int) -> ir.Value:
        """a >> count, shifting zeros in."""
        return self.op("arith.shrui", a, self.integer(count))

    def bits_of(self, a: ir.Value) -> ir.Value:
        """Return the float's bits as an integer."""
        return self.emitter.value("arith.bitcast", (a,), self.int)

    def float_of(self, a: ir.Value) -> ir.Value:
        """Return the float that has these bits."""
        return self.emitter.value("arith.bitcast", (a,), self.float)

    def from_integer(self, a: ir.Value) -> ir.Value:
        """Return a signed integer as the nearest float."""
        return self.emitter.value("arith.sitofp", (a,), self.float)
