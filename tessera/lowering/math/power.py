"""pow of f32 and f64 as 2^(y * log2|x|), with the special cases of the C standard.

f32 is computed in f64 and rounded once; f64 with a logarithm in twice its precision.
"""

from typing import Final

from tessera.core.mlir import ir
from tessera.lowering.math.algebra import Algebra
from tessera.lowering.math.double_double import multiply_pair
from tessera.lowering.math.exponential import exp2, log2, log2_pair

_MODERATE: Final = 1100.0
"""Exponents of 2 below it in magnitude may give a finite number above zero."""


def power(k: Algebra, x: ir.Value, y: ir.Value) -> ir.Value:
    """x^y, within 1 ulp; a negative x takes integers y only."""
    if k.bits == 64:
        return _power(k, x, y)
    wide = Algebra(k.emitter, k.lanes, 64)
    operands = [k.emitter.value("arith.extf", [value], wide.float) for value in (x, y)]
    return k.emitter.value("arith.truncf", [_power(wide, *operands, exact=False)], k.float)


def _power(k: Algebra, x: ir.Value, y: ir.Value, *, exact: bool = True) -> ir.Value:
    magnitude = k.abs(x)
    zero, one = k.constant(0.0), k.constant(1.0)
    result = _magnitude(k, magnitude, y) if exact else exp2(k, k.mul(y, log2(k, magnitude)))
    # 1^y and x^0 are 1 even with NaN, and (-1)^inf is 1.
    result = k.select(k.equal(magnitude, one), one, result)
    half = k.mul(y, k.constant(0.5))
    whole = k.equal(k.op("math.floor", y), y)
    odd = k.both(whole, k.compare(6, k.op("math.floor", half), half))
    # A negative x: odd powers are negative, and there are none between integers, except of infinity.
    signed = k.with_sign(result, x)
    result = k.select(odd, signed, result)
    negative = k.both(k.less(x, zero), k.compare(6, magnitude, k.constant(float("inf"))))
    defined = k.select(whole, result, k.constant(float("nan")))
    result = k.select(negative, defined, result)
    return k.select(k.either(k.equal(y, zero), k.equal(x, one)), one, result)


def _magnitude(k: Algebra, x: ir.Value, y: ir.Value) -> ir.Value:
    """x^y for x >= 0 in f64."""
    logarithm = log2_pair(k, x)
    product = multiply_pair(k, logarithm, y)
    precise = exp2(k, product.high, product.low)
    # Far outside the range the low part is no longer small, and with infinities it is NaN.
    rough = exp2(k, k.mul(y, log2(k, x)))
    inside = k.both(k.less(x, k.constant(float("inf"))), k.less(k.constant(0.0), x))
    moderate = k.less(k.abs(product.high), k.constant(_MODERATE))
    return k.select(k.both(moderate, inside), precise, rough)
