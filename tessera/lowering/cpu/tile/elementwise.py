"""Upstream arithmetic of Tile IR (`arith`, `math`) on scalars and vectors of any number of lanes.

Each operation rounds once: 16-bit floats are widened to f32, computed and rounded back.  Mathematical functions are
our own (`vector_math`).
"""

from collections.abc import Sequence
from typing import Final

from tessera.core.mlir import AnyOp, ir
from tessera.lowering.base.emit import Emitter
from tessera.lowering.math.algebra import Algebra, shaped
from tessera.lowering.math.float_conversions import convert, fused, narrow, widen
from tessera.lowering.math.vector_math import NAMES, emit_math

_HALF: Final = ("f16", "bf16")
_UNORDERED: Final = 14
_MATH: Final = {"math.absf": "abs", "math.powf": "pow", **{f"math.{name}": name for name in NAMES}}
_SIGNED: Final = ("arith.divsi", "arith.remsi")
_DIVISIONS: Final = (*_SIGNED, "arith.divui", "arith.remui")
_CONVERSIONS: Final = ("arith.extf", "arith.truncf")
# By operation: the order that makes the second operand the result, and what makes the right zero of two.
_EXTREMES: Final = {"arith.maximumf": (2, "arith.andi"), "arith.minimumf": (4, "arith.ori")}


def emit_elementwise(emitter: Emitter, op: AnyOp, operands: Sequence[ir.Value], lanes: int) -> ir.Value:
    """Emit the element-wise Tile IR operation `op` on `operands`: its value on `lanes` lanes (0: a scalar).

    `operands` are target values, scalars of the operation's element types or vectors of them.
    """
    name, element = op.name, str(element_type(op.results[0].type))
    if name in _CONVERSIONS:
        return convert(emitter, operands[0], element)
    if name == "math.fma" and element in _HALF:
        return fused(emitter, *operands)
    if name in _MATH:
        return emit_math(emitter, _MATH[name], operands, operands[0].type)
    attributes = {n: op.attributes[n] for n in op.attributes if not n.startswith("tessera.")}
    kind = shaped(lanes, element)
    if name == "arith.bitcast":
        return emitter.value(name, operands, kind, attributes)
    if name == "arith.select":
        return _select(emitter, operands, lanes, element)
    wide = [widen(emitter, value) for value in operands]
    if name in _EXTREMES and not lanes:
        return narrow(emitter, _extreme(emitter, name, *wide), element)
    if element not in _HALF:
        return emitter.value(name, wide, kind, attributes)
    return narrow(emitter, emitter.value(name, wide, shaped(lanes, "f32"), attributes), element)


def without_traps(emitter: Emitter, op: AnyOp, operands: Sequence[ir.Value], lanes: int) -> Sequence[ir.Value]:
    """Read the operands of `op` as vectors; an integer division has a divisor of 1 where there is no quotient.

    Tile IR guards its divisions, but lanes past the end of a row hold anything, a guard that does not belong to its
    divisor too: both may have been kept in memory, each on its own.
    """
    name = op.name
    if name not in _DIVISIONS or not lanes:
        return operands
    a, b = operands
    element = str(element_type(b.type))
    kind = shaped(lanes, element)
    zero, one = emitter.constant(0, kind), emitter.constant(1, kind)
    condition = shaped(lanes, "i1")

    def equal(x: ir.Value, y: ir.Value) -> ir.Value:
        return emitter.value("arith.cmpi", [x, y], condition, {"predicate": "0 : i64"})

    none = equal(b, zero)
    if name in _SIGNED:
        least, minus = emitter.constant(-1 << (int(element[1:]) - 1), kind), emitter.constant(-1, kind)
        overflows = emitter.value("arith.andi", [equal(a, least), equal(b, minus)], condition)
        none = emitter.value("arith.ori", [none, overflows], condition)
    return a, emitter.value("arith.select", [none, one, b], kind)


def _extreme(emitter: Emitter, name: str, a: ir.Value, b: ir.Value) -> ir.Value:
    """Return the larger or smaller of two scalars; NaN wins, and -0 is less than +0.

    LLVM's own code for AVX-512 (`vfpclass`) takes a signalling NaN for a number where it knows the other operand for
    one; that for vectors does not.
    """
    order, zeros = _EXTREMES[name]
    k = Algebra(emitter, 0, int(str(a.type)[1:]))
    beyond = k.select(k.compare(order, b, a), b, a)
    equal = k.float_of(k.op(zeros, k.bits_of(a), k.bits_of(b)))
    number = k.select(k.equal(a, b), equal, beyond)
    return k.select(k.compare(_UNORDERED, a, b), k.add(a, b), number)


def _select(emitter: Emitter, operands: Sequence[ir.Value], lanes: int, element: str) -> ir.Value:
    """Choose between two values; 16-bit floats as integers, for which every processor has vectors."""
    condition, yes, no = operands
    if element not in _HALF:
        return emitter.value("arith.select", operands, yes.type)
    bits = shaped(lanes, "i16")
    yes, no = (emitter.value("arith.bitcast", [value], bits) for value in (yes, no))
    chosen = emitter.value("arith.select", [condition, yes, no], bits)
    return emitter.value("arith.bitcast", [chosen], shaped(lanes, element))


def element_type(kind: ir.Type) -> ir.Type:
    """Return the element type of a tile's type; a scalar's own type."""
    return ir.ShapedType(kind).element_type if isinstance(kind, ir.ShapedType) else kind
