"""Numbers as codes and back, in the operations of expressions: the same bits on every target.

A float of few bits is sign and magnitude, and its magnitudes are numbered in their order.  In binade n, counted from 0
with the subnormals in it, neighbours are 2^(e + n) apart, and the magnitude t * 2^(e + n) has the number
n * 2^mantissa + t.  So a code is found by one multiplication by a power of two and a rounding to an integer, both exact
or of one rounding; no bit is looked at.
"""

import math
from typing import Final

from tessera.core.base.dtypes import boolean, f32, i32, u8, u32
from tessera.core.graph.expr import Expr, Literal, Number, apply
from tessera.core.graph.expr import cast as cast_expr
from tessera.core.graph.numerics import Format

_LARGEST: Final = 2.0**127 * (2 - 2.0**-23)
_E8M0_BIAS: Final = 127
_E8M0_NAN: Final = 255
_DOUBLINGS: Final = (64, 32, 16, 8, 4, 2, 1)


def encoded(x: Expr, target: Format, rounding: str = "nearest", bits: Expr | None = None) -> Expr:
    """Return the code of an f32 in a format of at most 8 bits, of `target.dtype`; too large ones become the largest.

    rounding: one of ROUNDINGS; bits: 32 random ones for "stochastic", of which 24 are used.  NaN is NaN where the
    format has it, else -0; 0 for integers.  A packed format's code is in the low bits of its byte.
    """
    limit = Literal(target.largest, f32)
    if rounding == "nearest" and not target.is_packed and not target.is_integer:
        return cast_expr(apply("max", apply("min", x, limit), Literal(-target.largest, f32)), target.dtype)
    magnitude = apply("min", apply("abs", x), limit)
    first = target.binades[0]
    inverse, base, step = _number(2.0**-first), _number(0.0), _number(2.0**first)
    for place, exponent in enumerate(target.binades[1:], 1):
        inside = _compare("ge", magnitude, _number(2.0 ** (exponent + target.mantissa)))
        inverse = apply("select", inside, _number(2.0**-exponent), inverse)
        base = apply("select", inside, _number(float(place << target.mantissa)), base)
        step = apply("select", inside, _number(2.0**exponent), step)
    count = _rounded(apply("mul", magnitude, inverse), rounding, bits)
    below = _compare("lt", x, _number(0.0))
    if target.is_integer:
        signed = cast_expr(apply("select", below, apply("neg", count), count), i32)
        if target.is_packed:
            signed = apply("and", signed, Literal((1 << target.bits) - 1, i32))
        return cast_expr(signed, target.dtype)
    if not target.is_packed:
        value = apply("mul", count, step)
        signed = apply("select", _negative(x, below), apply("neg", value), value)
        return cast_expr(apply("select", _compare("ne", x, x), x, signed), target.dtype)
    sign = float(1 << (target.bits - 1))
    code = apply("add", base, count)
    code = apply("select", _negative(x, below), apply("add", code, _number(sign)), code)
    return cast_expr(apply("select", _compare("ne", x, x), _number(sign), code), u8)


def decoded(code: Expr, source: Format) -> Expr:
    """Return the number of a code, exactly, as f32; of a packed format from the low bits, and the others may be set."""
    if not source.is_packed:
        return cast_expr(code, f32)
    wide = apply("and", cast_expr(code, i32), Literal((1 << source.bits) - 1, i32))
    sign = Literal(1 << (source.bits - 1), i32)
    if source.is_integer:
        return cast_expr(apply("sub", apply("xor", wide, sign), sign), f32)
    zero, one, hidden = (Literal(n, i32) for n in (0, 1, 1 << source.mantissa))
    magnitude = apply("and", wide, Literal((1 << (source.bits - 1)) - 1, i32))
    exponent = apply("shr", magnitude, Literal(source.mantissa, i32))
    fraction = apply("and", magnitude, Literal((1 << source.mantissa) - 1, i32))
    digits = apply("select", _compare("eq", exponent, zero), fraction, apply("add", fraction, hidden))
    shifted = apply("shl", digits, apply("max", apply("sub", exponent, one), zero))
    value = apply("mul", cast_expr(shifted, f32), _number(2.0 ** source.binades[0]))
    return apply("select", _compare("ge", wide, sign), apply("neg", value), value)


def packed_word(codes: list[Expr], bits: int) -> Expr:
    """Return codes side by side in one u32, the first in the lowest bits."""
    word: Expr = cast_expr(codes[0], u32)
    for place, code in enumerate(codes[1:], 1):
        word = apply("or", word, apply("shl", cast_expr(code, u32), Literal(place * bits, u32)))
    return word


def byte_of(word: Expr, place: Expr) -> Expr:
    """Return the byte number `place`, an i64, of a u32, as u8; 0 is the lowest."""
    return field_of(word, place, 8)


def field_of(word: Expr, place: Expr, bits: int) -> Expr:
    """Return the code number `place`, an i64, of those in a u32, as u8; bits beyond the code are cleared."""
    shift = apply("mul", cast_expr(place, u32), Literal(bits, u32))
    return cast_expr(apply("and", apply("shr", word, shift), Literal((1 << bits) - 1, u32)), u8)


def scale_code(largest: Expr, target: Format, dtype: str) -> Expr:
    """Return the scale of a block by its greatest magnitude, an f32: as f32, or as the code of e8m0, a u8.

    f32: what makes the greatest magnitude the format's greatest number, 1 where all are 0.  e8m0: 2 to the difference
    of their exponents, as the MX formats have it: what is up to twice too large becomes the largest number.
    """
    zero = _number(0.0)
    if dtype == "f32":
        quotient = apply("div", largest, _number(target.largest))
        return apply("select", _compare("eq", quotient, zero), _number(1.0), quotient)
    most = math.frexp(target.largest)[1] - 1
    exponent = apply("sub", _exponent(largest), Literal(most, i32))
    code = apply("add", exponent, Literal(_E8M0_BIAS, i32))
    code = apply("max", apply("min", code, Literal(_E8M0_NAN - 1, i32)), Literal(0, i32))
    code = apply("select", _compare("eq", largest, zero), Literal(0, i32), code)
    finite = _compare("lt", largest, _number(math.inf))
    return cast_expr(apply("select", finite, code, Literal(_E8M0_NAN, i32)), u8)


def scale_value(code: Expr) -> Expr:
    """Return the power of two that a code of e8m0 is, as f32; NaN for 255."""
    wide = cast_expr(code, i32)
    value: Expr = _number(2.0**-_E8M0_BIAS)
    for doublings, bit in ((64, 7), (64, 7), *((each, each.bit_length() - 1) for each in _DOUBLINGS)):
        there = _compare("ne", apply("and", wide, Literal(1 << bit, i32)), Literal(0, i32))
        value = apply("select", there, apply("mul", value, _number(2.0**doublings)), value)
    return apply("select", _compare("eq", wide, Literal(_E8M0_NAN, i32)), _number(math.nan), value)


def within(x: Expr, target: Format) -> Expr:
    """Return whether an f32 is rounded to the format's numbers, and not cut to the greatest."""
    bound = min(target.largest + 2.0 ** (target.binades[-1] - 1), _LARGEST)
    return _compare("le", apply("abs", x), _number(bound))


def _rounded(count: Expr, rounding: str, bits: Expr | None) -> Expr:
    """Return a number of at least 0 as an integer, all f32."""
    whole = apply("floor", count)
    if rounding == "toward_zero":
        return whole
    rest = apply("sub", count, whole)
    if rounding == "stochastic":
        assert bits is not None
        drawn = cast_expr(apply("shr", bits, Literal(8, u32)), f32)
        up = _compare("lt", apply("mul", drawn, _number(2.0**-24)), rest)
    else:
        half = _number(0.5)
        odd = _compare("ne", apply("mul", apply("floor", apply("mul", whole, half)), _number(2.0)), whole)
        tie = apply("and", _compare("eq", rest, half), odd)
        up = apply("or", _compare("gt", rest, half), tie)
    return apply("select", up, apply("add", whole, _number(1.0)), whole)


def _negative(x: Expr, below: Expr) -> Expr:
    """Return whether a number has a sign, that of -0 included."""
    minus_zero = _compare("eq", apply("div", _number(1.0), x), _number(-math.inf))
    assert below.dtype == boolean
    return apply("or", below, minus_zero)


def _exponent(x: Expr) -> Expr:
    """Return the exponent of a positive f32, subnormals included, as i32: floor(log2 x), exactly."""
    exponent: Expr = Literal(0, i32)
    for bound, up in ((-64, 96), (0, 64)):  # at least 1 from here on
        low = _compare("lt", x, _number(2.0**bound))
        x = apply("select", low, apply("mul", x, _number(2.0**up)), x)
        exponent = apply("sub", exponent, apply("select", low, Literal(up, i32), Literal(0, i32)))
    for down in _DOUBLINGS:
        high = _compare("ge", x, _number(2.0**down))
        x = apply("select", high, apply("mul", x, _number(2.0**-down)), x)
        exponent = apply("add", exponent, apply("select", high, Literal(down, i32), Literal(0, i32)))
    return exponent


def _compare(predicate: str, left: Expr, right: Expr) -> Expr:
    return apply("cmp", left, right, predicate=predicate)


def _number(value: Number) -> Expr:
    return Literal(value, f32)
