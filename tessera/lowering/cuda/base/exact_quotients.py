"""Emit quotients and square roots of f32 that are rounded once, where what they are computed of is in range.

    r = rcp.approx(b);  r += r (1 - b r);  q = a r;  q += r (a - b q);  q += r (a - b q);  q has the sign of a r
    y = rsqrt.approx(x);  s = x y;  s += y / 2 (x - s s)

These are the steps that `div.rn` and `sqrt.rn` take themselves (Markstein, "IA-64 and Elementary Functions", 2000), but
for what comes first there: a test of the exponents, and a branch to a slow path, which keeps a lane from computing
several of them at a time.  In range are operands and results between 2^-100 and 2^100, and zeros above the line.
"""

from collections.abc import Sequence

from tessera.core.mlir import ir
from tessera.lowering.base.emit import Emitter
from tessera.lowering.cuda.base.fast_math import approximate


def exact_in_range(emit: Emitter, name: str, operands: Sequence[ir.Value]) -> ir.Value:
    """Return `arith.divf` or `math.sqrt` of operands in range."""
    return _quotient(emit, *operands) if name == "arith.divf" else _root(emit, *operands)


def _quotient(emit: Emitter, a: ir.Value, b: ir.Value) -> ir.Value:
    negative = emit.value("arith.negf", [b], "f32")
    near = approximate(emit, "rcp.approx.ftz.f32", b)
    reciprocal = _fma(emit, near, _fma(emit, negative, near, emit.constant(1.0, "f32")), near)
    first = quotient = emit.value("arith.mulf", [a, reciprocal], "f32")
    for _ in range(2):
        quotient = _fma(emit, _fma(emit, negative, quotient, a), reciprocal, quotient)
    # What is left of -0 is +0, and -0 + 0 is +0: a correction would lose the sign of a zero.
    return emit.value("math.copysign", [quotient, first], "f32")


def _root(emit: Emitter, x: ir.Value) -> ir.Value:
    near = approximate(emit, "rsqrt.approx.ftz.f32", x)
    root = emit.value("arith.mulf", [x, near], "f32")
    half = emit.value("arith.mulf", [near, emit.constant(0.5, "f32")], "f32")
    rest = _fma(emit, emit.value("arith.negf", [root], "f32"), root, x)
    return _fma(emit, rest, half, root)


def _fma(emit: Emitter, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
    return emit.value("math.fma", [a, b, c], "f32")
