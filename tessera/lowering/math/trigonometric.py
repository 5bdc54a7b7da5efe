"""sin and cos of f32 and f64, over the whole range of arguments.

The argument is brought to r + n * pi / 2 with |r| <= pi / 4: below a bound by subtracting parts of pi / 2, above it by
multiplying with as many bits of 2 / pi as it takes, which is left out while no lane needs it.  f32 is computed in f64
and rounded once.  Coefficients are minimax in relative error (Remez exchange in 50 digits).
"""

from dataclasses import dataclass
from typing import Final

from tessera.core.mlir import Index, ir
from tessera.lowering.base.indices import Indices
from tessera.lowering.base.structured_control import branch, for_range
from tessera.lowering.math.algebra import Algebra
from tessera.lowering.math.double_double import Pair, add_to_pair, multiply_by

_LIMIT: Final = 2.0**20
_TWO_OVER_PI: Final = 0.6366197723675814
_MAGIC: Final = 1.5 * 2.0**52
"""Added to a small number, it leaves the nearest integer in the low bits."""

# pi / 2 in f64: two parts, and four parts of which the first three have 33 bits.
_HALF_PI: Final = (1.5707963267948966, 6.123233995736766e-17)
_HALF_PI_PARTS: Final = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487111665e-21, 8.4784276603689e-32)

# The bits of 2 / pi after the binary point, 24 and 26 at a time.
_BITS32: Final = (
    0xA2F983, 0x6E4E44, 0x1529FC, 0x2757D1, 0xF534DD, 0xC0DB62, 0x95993C, 0x439041,
)  # fmt: skip
_BITS64: Final = (
    0x28BE60D, 0x2E4E441, 0x14A7F09, 0x357D1F5, 0xD37703, 0x1B62959, 0x24F10E4, 0x41FE51,
    0x18EAF7A, 0x3BC561B, 0x1C91B8E, 0x2424DD2, 0x3801924, 0x2EEA09D, 0x64873F, 0x21DEB1C,
    0x2C4A69C, 0x3EE8823, 0x17D4BAE, 0x34484E9, 0x271C09A, 0x345F7E4, 0x4E6475, 0x2398353,
    0xE7D272, 0x45F8BB, 0x37E4A0E, 0x31FF897, 0x3FF7816, 0x180FEF2, 0x3C462D6, 0x20A6D1F,
    0x1B4D9FB, 0xF27CB0, 0x26DD3D1, 0x23F669E, 0x17FA8B5, 0x3527BAC, 0x1FAF97C, 0x17B3D07,
    0xE7DE29, 0x1292EA6, 0x2FED7EC, 0x11F8D5D, 0x21580C, 0x3046FC7,
)  # fmt: skip

# sin(r) = r + r^3 * p(r^2), cos(r) = 1 - r^2 / 2 + r^4 * p(r^2).
_SIN32: Final = (
    -0.1666665490864849, 0.008332175847099388, -0.00019516977552751653,
)  # fmt: skip
_COS32: Final = (
    0.04166664561886967, -0.0013887313065578685, 2.443278537625615e-05,
)  # fmt: skip
_SIN64: Final = (
    -0.16666666666666632, 0.00833333333332237, -0.00019841269829771172, 2.755731367866806e-06,
    -2.5050755961840916e-08, 1.5896666535667279e-10,
)  # fmt: skip
_COS64: Final = (
    0.041666666666666595, -0.0013888888888872975, 2.4801587288800086e-05, -2.755731416399081e-07,
    2.0875698710128414e-09, -1.1358423585592048e-11,
)  # fmt: skip


def sin(k: Algebra, x: ir.Value) -> ir.Value:
    """Return the sine, within 1 ulp (f32) or 2 (f64); NaN at infinity."""
    return _circular(k, x, 0)


def cos(k: Algebra, x: ir.Value) -> ir.Value:
    """Return the cosine, within 1 ulp (f32) or 2 (f64); NaN at infinity."""
    return _circular(k, x, 1)


def _circular(k: Algebra, x: ir.Value, quarter: int) -> ir.Value:
    """sin(x + quarter * pi / 2)."""
    wide = Algebra(k.emitter, k.lanes, 64)
    y = x if k.bits == 64 else k.emitter.value("arith.extf", [x], wide.float)
    r, n = _reduce(wide, y, k.bits)
    n = wide.add_integers(n, wide.integer(quarter)) if quarter else n
    square = wide.mul(r.high, r.high)
    sine = _sine(wide, r, square, _SIN32 if k.bits == 32 else _SIN64)
    cosine = _cosine(wide, r, square, _COS32 if k.bits == 32 else _COS64)
    odd = wide.compare_integers(1, wide.both(n, wide.integer(1)), wide.integer(0))
    negative = wide.compare_integers(1, wide.both(n, wide.integer(2)), wide.integer(0))
    value = wide.select(odd, cosine, sine)
    value = wide.select(negative, wide.neg(value), value)
    if not quarter:  # sin(-0.0) is -0.0, which the sum with the reduced argument lost
        value = wide.select(wide.equal(y, wide.constant(0.0)), y, value)
    return value if k.bits == 64 else k.emitter.value("arith.truncf", [value], k.float)


@dataclass(frozen=True, slots=True)
class _Reduced:
    """An argument reduced to a quarter of a turn; `low` is None for f32, where one f64 is enough."""

    high: ir.Value
    low: ir.Value | None


def _sine(k: Algebra, r: _Reduced, square: ir.Value, coefficients: tuple[float, ...]) -> ir.Value:
    """sin of a pair: the low part adds itself times the cosine, which is 1 - square / 2 near enough."""
    cube, p = k.mul(square, r.high), k.polynomial(square, coefficients)
    if r.low is None:
        return k.fma(cube, p, r.high)
    correction = k.mul(r.low, k.fma(k.constant(-0.5), square, k.constant(1.0)))
    return k.add(r.high, k.fma(cube, p, correction))


def _cosine(k: Algebra, r: _Reduced, square: ir.Value, coefficients: tuple[float, ...]) -> ir.Value:
    """cos of a pair: 1 - square / 2 is split so that nothing is lost of it."""
    one = k.constant(1.0)
    half = k.mul(k.constant(0.5), square)
    head, p = k.sub(one, half), k.polynomial(square, coefficients)
    if r.low is None:
        return k.fma(k.mul(square, square), p, head)
    lost = k.sub(k.sub(one, head), half)
    quartic = k.fma(k.mul(square, square), p, k.neg(k.mul(r.high, r.low)))
    return k.add(head, k.add(lost, quartic))


def _reduce(k: Algebra, x: ir.Value, bits: int) -> tuple[_Reduced, ir.Value]:
    """x = r + n * pi / 2: (r, an integer whose low two bits are those of n)."""
    magnitude = k.abs(x)
    # NaN counts as large: nothing that way traps.
    large = k.compare(10, magnitude, k.constant(_LIMIT))
    mask = k.emitter.value("vector.reduction", [large], "i1", {"kind": "#vector.kind<or>"}) if k.lanes else large

    def near() -> list[ir.Value]:
        inner = Algebra(k.emitter, k.lanes, 64)
        r, n = _reduce_small(inner, x, bits)
        # For f32, one f64 is enough.
        return [inner.add(r.high, r.low), n] if bits == 32 else [r.high, r.low, n]

    def far() -> list[ir.Value]:
        inner = Algebra(k.emitter, k.lanes, 64)
        r, n = _reduce_large(inner, x, bits)
        values = [inner.add(r.high, r.low), n] if bits == 32 else [r.high, r.low, n]
        # Small numbers among large ones are reduced as if they were alone: lanes do not see each other.
        return [inner.select(large, a, b) for a, b in zip(values, near(), strict=True)]

    types = [k.float, k.int] if bits == 32 else [k.float, k.float, k.int]
    high, *low, n = branch(k.emitter, mask, far, near, types)
    return _Reduced(high, low[0] if low else None), n


def _reduce_small(k: Algebra, x: ir.Value, bits: int) -> tuple[Pair, ir.Value]:
    shifted = k.fma(x, k.constant(_TWO_OVER_PI), k.constant(_MAGIC))
    n = k.sub(shifted, k.constant(_MAGIC))
    if bits == 32:
        return Pair(k.fma(n, k.constant(-_HALF_PI[0]), x), k.mul(n, k.constant(-_HALF_PI[1]))), k.bits_of(shifted)
    # n has 20 bits, so its products with parts of 33 bits are exact.
    r = Pair(x, k.constant(0.0))
    for part in _HALF_PI_PARTS:
        r = add_to_pair(k, r, k.mul(n, k.constant(-part)))
    return r, k.bits_of(shifted)


def _reduce_large(k: Algebra, x: ir.Value, bits: int) -> tuple[Pair, ir.Value]:
    turns = _turns32(k, x) if bits == 32 else _turns64(k, x)
    shifted = k.add(turns.high, k.constant(_MAGIC))
    n = k.sub(shifted, k.constant(_MAGIC))
    fraction = add_to_pair(k, Pair(turns.low, k.constant(0.0)), k.sub(turns.high, n))
    return multiply_by(k, fraction, _HALF_PI), k.bits_of(shifted)


def _below_four(k: Algebra, x: ir.Value) -> ir.Value:
    """x less a multiple of 4, exactly; at most 2 in magnitude."""
    return k.fma(k.round(k.mul(x, k.constant(0.25))), k.constant(-4.0), x)


def _turns32(k: Algebra, x: ir.Value) -> Pair:
    """x * 2 / pi less a multiple of 4: x has 24 bits, so every product with 24 bits is exact."""
    total = Pair(k.constant(0.0), k.constant(0.0))
    for place, chunk in enumerate(_BITS32):
        factor = float(chunk) * 2.0 ** (-24 * (place + 1))
        total = add_to_pair(k, total, _below_four(k, k.mul(x, k.constant(factor))))
    return add_to_pair(k, Pair(total.low, k.constant(0.0)), _below_four(k, total.high))


def _turns64(k: Algebra, x: ir.Value) -> Pair:
    """x * 2 / pi less a multiple of 4 for 53 bits, in two halves; a loop over the bits, for there are many of them.

    x is made smaller by 2^200 and the bits larger, since the last of them are below the smallest f64.
    """
    emitter = k.emitter
    small = k.mul(x, k.constant(2.0**-200))
    # The upper 26 bits: adding and subtracting 2^27 + 1 times the number rounds it (Veltkamp).
    scaled = k.mul(small, k.constant(2.0**27 + 1.0))
    upper = k.sub(scaled, k.sub(scaled, small))
    halves = (upper, k.sub(small, upper))
    numbers = ", ".join(repr(float(chunk) * 2.0 ** (200 - 26 * (place + 1))) for place, chunk in enumerate(_BITS64))
    kind = f"vector<{len(_BITS64)}xf64>"
    table = emitter.value("arith.constant", (), kind, {"value": f"dense<[{numbers}]> : {kind}"})

    def step(place: Index, carried: list[ir.Value]) -> list[ir.Value]:
        inner = Algebra(emitter, k.lanes, 64)
        attributes = {"static_position": "array<i64: -9223372036854775808>"}
        position = emitter.value("arith.index_cast", [Indices(emitter).value(place)], "index")
        factor = emitter.value("vector.extract", [table, position], "f64", attributes)
        factors = emitter.value("vector.broadcast", [factor], k.float) if k.lanes else factor
        total = Pair(*carried)
        for half in halves:
            total = add_to_pair(inner, total, _below_four(inner, inner.mul(half, factors)))
        total = add_to_pair(inner, Pair(total.low, inner.constant(0.0)), _below_four(inner, total.high))
        return [total.high, total.low]

    zero = k.constant(0.0)
    return Pair(*for_range(emitter, 0, len(_BITS64), 1, step, [zero, zero]))
