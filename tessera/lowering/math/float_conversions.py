"""Between float types, on scalars and vectors of any length, always to nearest even in one rounding.

f16 uses the conversion instructions that every processor with vectors of 256 bits has.  bf16 is converted with
integer operations: the conversion instruction of some processors flushes denormals, and others have none.
"""

from tessera.core.mlir import ir
from tessera.lowering.base.emit import Emitter
from tessera.lowering.math.algebra import Algebra, shaped


def convert(emitter: Emitter, value: ir.Value, element: str) -> ir.Value:
    """Return a float value as another float type, rounded once."""
    lanes, source = lanes_and_element(value.type)
    if source == element:
        return value
    if source in ("f16", "bf16"):
        value, source = widen(emitter, value), "f32"
    if element in ("f16", "bf16"):
        return narrow(emitter, _to_odd(Algebra(emitter, lanes, 32), value) if source == "f64" else value, element)
    if source == element:
        return value
    return emitter.value("arith.extf" if element == "f64" else "arith.truncf", (value,), shaped(lanes, element))


def widen(emitter: Emitter, value: ir.Value) -> ir.Value:
    """Return an f16 or bf16 value as f32, exactly; anything else passes through."""
    lanes, element = lanes_and_element(value.type)
    if element == "f16":
        return emitter.value("arith.extf", (value,), shaped(lanes, "f32"))
    if element != "bf16":
        return value
    bits = emitter.value("arith.bitcast", (value,), shaped(lanes, "i16"))
    wide = emitter.value("arith.extui", (bits,), shaped(lanes, "i32"))
    high = emitter.value("arith.shli", (wide, emitter.constant(16, wide.type)), wide.type)
    return emitter.value("arith.bitcast", (high,), shaped(lanes, "f32"))


def narrow(emitter: Emitter, value: ir.Value, element: str) -> ir.Value:
    """Return an f32 value as `element` (f16, bf16), to nearest even; f32 passes through."""
    lanes, _ = lanes_and_element(value.type)
    if element == "f16":
        return emitter.value("arith.truncf", (value,), shaped(lanes, "f16"))
    if element != "bf16":
        return value
    k = Algebra(emitter, lanes, 32)
    bits = k.bits_of(value)
    odd = k.both(k.shift_right(bits, 16), k.integer(1))
    rounded = k.add_integers(k.add_integers(bits, k.integer(0x7FFF)), odd)
    chosen = k.select(k.is_nan(value), k.either(bits, k.integer(0x400000)), rounded)
    short = emitter.value("arith.trunci", (k.shift_right(chosen, 16),), shaped(lanes, "i16"))
    return emitter.value("arith.bitcast", (short,), shaped(lanes, "bf16"))


def fused(emitter: Emitter, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    """a * b + c of 16-bit floats, rounded once.

    The product is exact in a wider type: f32 for f16, f64 for bf16, whose exponents reach further.  The sum is rounded
    to odd there, by what `a + b` loses (Knuth's two-sum), so the last rounding cannot notice the one before.
    """
    lanes, element = lanes_and_element(a.type)
    k = Algebra(emitter, lanes, 32 if element == "f16" else 64)
    a, b, c = (convert(emitter, value, f"f{k.bits}") for value in (a, b, c))
    product = k.mul(a, b)
    total = k.add(product, c)
    part = k.sub(total, product)
    lost = k.add(k.sub(product, k.sub(total, part)), k.sub(c, part))
    bits, zero = k.bits_of(total), k.constant(0.0)
    even = k.compare_integers(0, k.both(bits, k.integer(1)), k.integer(0))
    inexact = k.both(k.compare(6, lost, zero), even)  # ordered and different
    differs = k.op("arith.xori", k.less(lost, zero), k.less(total, zero))
    step = k.select(differs, k.integer(-1), k.integer(1))
    return convert(emitter, k.float_of(k.select(inexact, k.add_integers(bits, step), bits)), element)


def lanes_and_element(kind: ir.Type) -> tuple[int, str]:
    """Lanes (0 for a scalar) and the element's name of a scalar or rank-1 vector type."""
    if isinstance(kind, ir.VectorType):
        return int(kind.shape[0]), str(kind.element_type)
    return 0, str(kind)


def _to_odd(k: Algebra, value: ir.Value) -> ir.Value:
    """Return an f64 value as f32, inexact ones to the neighbour with an odd last bit: rounding again is then exact."""
    emitter, double = k.emitter, value.type
    near = emitter.value("arith.truncf", (value,), k.float)
    back = emitter.value("arith.extf", (near,), double)
    wide = Algebra(emitter, k.lanes, 64)
    bits = k.bits_of(near)
    even = k.compare_integers(0, k.both(bits, k.integer(1)), k.integer(0))
    # An inexact neighbour that is even lies next to the odd one: nearer to zero if it is too large.
    too_large = wide.compare(2, wide.abs(back), wide.abs(value))
    step = k.select(too_large, k.integer(-1), k.integer(1))
    inexact = wide.compare(6, back, value)  # ordered and different
    moved = k.select(k.both(inexact, even), k.add_integers(bits, step), bits)
    return k.float_of(moved)
