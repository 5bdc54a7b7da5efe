"""exp, exp2, log and log2 of f32 and f64: range reduction to one octave, a polynomial, and exponent arithmetic.

The coefficients are minimax in relative error on the reduced range (Remez exchange in 50 digits).
"""

import math
from typing import Final

from tessera.core.mlir import ir
from tessera.lowering.math.algebra import Algebra
from tessera.lowering.math.double_double import (
    Pair,
    add_pairs,
    add_to_pair,
    multiply_by,
    multiply_pair,
    product_exactly,
    sum_ordered,
)

# e^r = 1 + r + r^2 * p(r) on |r| <= ln(2) / 2.
_EXP: Final = {
    32: (0.4999999344855332775, 0.16666520288323847635, 0.04166838277967123357, 0.0083687586035372333852,
         0.0013815229982987134446),
    64: (0.5000000000000000043914773, 0.1666666666666668351833631, 0.04166666666666609535625362,
         0.00833333333331695745403209, 0.001388888888911463406673525, 0.0001984126989657904656814199,
         0.0000248015869293075142966468, 0.000002755723466237676146869161, 2.755757097e-07,
         2.511210780322908835086093e-8, 2.082764659074723940622558e-9),
}  # fmt: skip
# 2^r = 1 + r * p(r) on |r| <= 1 / 2.
_EXP2: Final = {
    32: (0.69314718070530913562, 0.24022651069202492176, 0.055504103652595828174, 0.0096180376992783109697,
         0.001333393394985972884, 0.00015466906827668843129, 0.000015196818381030012992),
    64: (0.6931471805599453094140521, 0.2402265069591007121989626, 0.05550410866482158036301399,
         0.009618129107628487694192393, 0.00133335581464283067558919, 0.0001540353039335420727378018,
         0.00001525273380424762644331816, 0.000001321548682287982938235224, 1.017808858881233466e-07,
         7.05489187138334389597574e-9, 4.445573291797965506660055e-10, 2.573698952994416611872275e-11,
         1.366375491172292511899906e-12),
}  # fmt: skip
# log(1 + f) = f - f^2 / 2 + f^3 * p(f) on sqrt(1/2) <= 1 + f <= sqrt(2).
_LOG32: Final = (
    0.33333312604290550285, -0.25000009597562700032, 0.20002118641001426425, -0.16667995925876420234,
    0.14219552745897587737, -0.12405588114432378932, 0.11888159038863626874, -0.11675654553892556513,
    0.067466497883637591889,
)  # fmt: skip
# log((1 + s) / (1 - s)) = 2 * s + s^3 * p(s^2), for f64.
_LOG64: Final = (
    0.6666666666666735, 0.3999999999941109, 0.2857142874326311, 0.22222198475955818, 0.1818356974074909,
    0.1531390323655765, 0.14797507691872633,
)  # fmt: skip
_TWO_THIRDS: Final = (2.0 / 3.0, 3.700743415417188e-17)
_LOG64_REST: Final = _LOG64[0] - 2.0 / 3.0
_LOG2_E: Final = (1.4426950408889634, 2.0355273740931033e-17)
# ln(2) in two parts; the first has so few bits that its product with an exponent is exact.
_LN2: Final = {32: (0.693359375, -2.12194440054690583e-4), 64: (6.93147180369123816490e-01, 1.90821492927058770002e-10)}


def exp(k: Algebra, x: ir.Value) -> ir.Value:
    """e^x, within 1 ulp; 0 and inf outside the range, denormals exact to half a unit."""
    low, high = (-105.0, 89.0) if k.bits == 32 else (-746.0, 710.0)
    x = _clamp(k, x, low, high)
    biased, n = _nearest(k, x, math.log2(math.e))
    ln2_high, ln2_low = _LN2[k.bits]
    r = k.fma(n, k.constant(-ln2_high), x)
    r = k.fma(n, k.constant(-ln2_low), r)
    p = k.polynomial(r, (1.0, 1.0, *_EXP[k.bits]))
    return _scale(k, p, biased)


def exp_not_positive(k: Algebra, x: ir.Value) -> ir.Value:
    """e^x for x <= 0 or NaN: the bits of `exp` with fewer operations, as one float holds every 2^n that occurs."""
    low, most = (-105.0, 65) if k.bits == 32 else (-746.0, 513)
    bottom = k.constant(low)
    x = k.select(k.compare(4, x, bottom), bottom, x)
    biased, n = _nearest(k, x, math.log2(math.e), most)
    ln2_high, ln2_low = _LN2[k.bits]
    r = k.fma(n, k.constant(-ln2_high), x)
    r = k.fma(n, k.constant(-ln2_low), r)
    p = k.polynomial(r, (1.0, 1.0, *_EXP[k.bits]))
    # 2^(n + most) has an exponent for every n here; the second product is the only one that is rounded.
    scale = k.float_of(k.shift_left(biased, 23 if k.bits == 32 else 52))
    return k.mul(k.mul(p, scale), k.constant(2.0**-most))


def exp2(k: Algebra, x: ir.Value, small: ir.Value | None = None) -> ir.Value:
    """2^(x + small), within 1 ulp; exact for integers.  `small` (or nothing) is below half a unit in x's last place."""
    low, high = (-151.0, 129.0) if k.bits == 32 else (-1076.0, 1025.0)
    x = _clamp(k, x, low, high)
    biased, n = _nearest(k, x, 1.0)
    r = k.sub(x, n)
    r = r if small is None else k.add(r, small)
    p = k.polynomial(r, (1.0, *_EXP2[k.bits]))
    return _scale(k, p, biased)


def log(k: Algebra, x: ir.Value) -> ir.Value:
    """Return the natural logarithm, within 1 ulp: NaN below zero, -inf at zero."""
    e, f = _split(k, x)
    tail = _log1p_tail(k, f)
    high, low = _LN2[k.bits]
    tail = k.fma(e, k.constant(low), tail)
    return _log_edges(k, x, k.fma(e, k.constant(high), k.add(f, tail)))


def log2(k: Algebra, x: ir.Value) -> ir.Value:
    """Return the logarithm to base 2, within 1 ulp; exact for powers of two."""
    e, f = _split(k, x)
    tail = _log1p_tail(k, f)
    # log2(e) = 1 + c: the products with c are small, so their rounding is too.
    c = k.constant(math.log2(math.e) - 1.0)
    r = k.fma(tail, c, k.mul(f, c))
    return _log_edges(k, x, k.add(k.add(k.add(r, tail), f), e))


def log2_pair(k: Algebra, x: ir.Value) -> Pair:
    """Return the logarithm to base 2 of positive finite f64 numbers, to about 2^-62 of its size."""
    e, f = _split(k, x)
    # s = f / (2 + f) with its error: the logarithm is 2 * s + s^3 * p(s^2).
    base = sum_ordered(k, k.constant(2.0), f)
    s = k.div(f, base.high)
    rest = k.fma(k.neg(s), base.low, k.fma(k.neg(s), base.high, f))
    low = k.div(rest, base.high)
    z = k.mul(s, s)
    # Of the cubic term, 2/3 * s^3, the rounding errors count too.
    square = product_exactly(k, s, s)
    square = Pair(square.high, k.fma(k.add(s, s), low, square.low))
    cubic = multiply_by(k, multiply_pair(k, square, s), _TWO_THIRDS)
    tail = k.mul(k.mul(k.mul(z, z), s), k.polynomial(z, _LOG64[1:]))
    # Coefficients after the first are fitted together with it: what it misses of 2/3 goes with them.
    tail = k.fma(k.mul(z, s), k.constant(_LOG64_REST), tail)
    total = add_pairs(k, Pair(k.add(s, s), k.add(low, low)), cubic)
    total = add_to_pair(k, total, tail)
    total = multiply_by(k, total, _LOG2_E)
    return add_pairs(k, Pair(e, k.constant(0.0)), total)


def _clamp(k: Algebra, x: ir.Value, low: float, high: float) -> ir.Value:
    """`x` within [low, high]; NaN stays."""
    bottom, top = k.constant(low), k.constant(high)
    x = k.select(k.compare(4, x, bottom), bottom, x)
    return k.select(k.compare(2, x, top), top, x)


def _nearest(k: Algebra, x: ir.Value, factor: float, offset: int | None = None) -> tuple[ir.Value, ir.Value]:
    """Return the integer n nearest to x * factor: (an integer whose low bits are n + bias + offset, n as a float).

    Adding 1.5 * 2^23 (or 2^52) leaves the integer in the low bits of the sum.  `offset` is `bias` unless it is given;
    both are odd, so that halves are rounded to even.
    """
    bias = 127 if k.bits == 32 else 1023
    magic = 1.5 * 2.0 ** (23 if k.bits == 32 else 52) + bias + (bias if offset is None else offset)
    shifted = k.fma(x, k.constant(factor), k.constant(magic)) if factor != 1.0 else k.add(x, k.constant(magic))
    return k.bits_of(shifted), k.sub(shifted, k.constant(magic))


def _scale(k: Algebra, p: ir.Value, biased: ir.Value) -> ir.Value:
    """p * 2^n in two exact steps and one rounding, so that denormals round once and overflow gives inf.

    `biased` is n + 2 * bias in its low bits: its halves are the exponent fields of the two factors.
    """
    mantissa = 23 if k.bits == 32 else 52
    half = k.shift_right(biased, 1)
    rest = k.sub_integers(biased, half)
    first = k.float_of(k.shift_left(half, mantissa))
    second = k.float_of(k.shift_left(rest, mantissa))
    return k.mul(k.mul(p, first), second)


def _split(k: Algebra, x: ir.Value) -> tuple[ir.Value, ir.Value]:
    """x = 2^e * (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2): (e as a float, f); x is positive and finite."""
    mantissa, smallest, root = (23, 2.0**-126, 0x3F3504F3) if k.bits == 32 else (52, 2.0**-1022, 0x3FE6A09E667F3BCD)
    tiny = k.less(x, k.constant(smallest))
    normal = k.select(tiny, k.mul(x, k.constant(2.0**mantissa)), x)
    offset = k.sub_integers(k.bits_of(normal), k.integer(root))
    e = _exponent(k, offset, mantissa)
    e = k.select(tiny, k.sub(e, k.constant(float(mantissa))), e)
    inside = k.both(offset, k.integer((1 << mantissa) - 1))
    m = k.float_of(k.add_integers(inside, k.integer(root)))
    return e, k.sub(m, k.constant(1.0))


def _exponent(k: Algebra, offset: ir.Value, mantissa: int) -> ir.Value:
    """Return the signed bits above the mantissa, as a float."""
    if k.bits == 32:
        return k.from_integer(k.op("arith.shrsi", offset, k.integer(mantissa)))
    # 64 bits: no vector conversion before AVX-512.  Put (e + 1024) below a mantissa of 1.5 * 2^52, subtract both.
    up = k.add_integers(offset, k.integer(1024 << mantissa))
    field = k.shift_right(up, mantissa)
    magic = 2.0**52
    wide = k.either(field, k.integer(0x4330000000000000))
    return k.sub(k.float_of(wide), k.constant(magic + 1024.0))


def _log1p_tail(k: Algebra, f: ir.Value) -> ir.Value:
    """log(1 + f) - f."""
    square = k.mul(f, f)
    if k.bits == 32:
        p = k.polynomial(f, _LOG32)
        return k.fma(k.constant(-0.5), square, k.mul(k.mul(p, f), square))
    # log(1 + f) = 2 * s + r with s = f / (2 + f), and 2 * s = f - f^2 / 2 + s * f^2 / 2.
    half = k.mul(k.constant(0.5), square)
    s = k.div(f, k.add(k.constant(2.0), f))
    z = k.mul(s, s)
    r = k.mul(z, k.polynomial(z, _LOG64))
    return k.sub(k.mul(s, k.add(half, r)), half)


def _log_edges(k: Algebra, x: ir.Value, result: ir.Value) -> ir.Value:
    """Return the result where x is finite and positive; log's limits elsewhere."""
    infinity = k.constant(math.inf)
    zero = k.constant(0.0)
    result = k.select(k.less(x, infinity), result, x)  # inf and NaN
    result = k.select(k.equal(x, zero), k.constant(-math.inf), result)
    return k.select(k.less(x, zero), k.constant(math.nan), result)
