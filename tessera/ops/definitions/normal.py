"""Normally distributed numbers of random bits: the inverse of the normal distribution function, the same everywhere.

In f32 the place is x Q(r) with x = 1 - 2p and r = (1 - x^2)^(1/4), p the probability of the tail beyond it: one
quotient of polynomials serves the whole range, because two square roots bring 2^-31 to 1 into 2^-8 to 1.  In f64 it is
Wichura's, "Algorithm AS 241: The Percentage Points of the Normal Distribution", Applied Statistics 37, 1988: quotients
of polynomials, of the distance to the median near it, and of sqrt(-log p) in the tails, whose logarithm is computed
here of the bits themselves.  So nothing but additions, products, quotients and square roots is needed, which every
target rounds alike.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Final

from tessera.core.base.dtypes import DType, f32, f64, u32, u64
from tessera.core.graph.expr import Argument, Expr, Literal, apply
from tessera.core.graph.expr import cast as cast_expr
from tessera.core.program.spec import IN_RANGE
from tessera.graphs.tracer import Tracer, apply_expr

Quotient = tuple[Sequence[float], Sequence[float]]
FAR: Final = 5.0
"""The root from which on the third quotient holds."""


ROOTS: Final[Quotient] = (
    (8.055435002566615, 7553.260358356752, 1042212.2703360689, 31601523.142199654, 208522983.49643123,
     159297251.1273944, 44153282.02172363, -5295831.004609726),
    (1.0, 1124.710346682946, 182610.88748989228, 6750291.742080495, 61317847.27564951, 118677466.4678212,
     77307836.50295067, 86296612.53274822),
)  # fmt: skip
"""Q in f32, at most 6.5e-8 from the place over x: least squares whose weights were moved to the largest errors."""


@dataclass(frozen=True, slots=True)
class Precision:
    """The constants of AS 241 for one dtype.

    words: the dtype of the bits; middle, near, far: numerator and denominator, lowest power first; logarithm: terms of
    the series of the logarithm
    """

    dtype: DType
    words: DType
    middle: Quotient
    near: Quotient
    far: Quotient
    logarithm: int


DOUBLE: Final = Precision(
    f64, u64,
    ((3.3871328727963666080, 1.3314166789178437745e2, 1.9715909503065514427e3, 1.3731693765509461125e4,
      4.5921953931549871457e4, 6.7265770927008700853e4, 3.3430575583588128105e4, 2.5090809287301226727e3),
     (1.0, 4.2313330701600911252e1, 6.8718700749205790830e2, 5.3941960214247511077e3, 2.1213794301586595867e4,
      3.9307895800092710610e4, 2.8729085735721942674e4, 5.2264952788528545610e3)),
    ((1.42343711074968357734, 4.63033784615654529590, 5.76949722146069140550, 3.64784832476320460504,
      1.27045825245236838258, 2.41780725177450611770e-1, 2.27238449892691845833e-2, 7.74545014278341407640e-4),
     (1.0, 2.05319162663775882187, 1.67638483018380384940, 6.89767334985100004550e-1, 1.48103976427480074590e-1,
      1.51986665636164571966e-2, 5.47593808499534494600e-4, 1.05075007164441684324e-9)),
    ((6.65790464350110377720, 5.46378491116411436990, 1.78482653991729133580, 2.96560571828504891230e-1,
      2.65321895265761230930e-2, 1.24266094738807843860e-3, 2.71155556874348757815e-5, 2.01033439929228813265e-7),
     (1.0, 5.99832206555887937690e-1, 1.36929880922735805310e-1, 1.48753612908506148525e-2,
      7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7, 2.04426310338993978564e-15)),
    12,
)  # fmt: skip


def normal(bits: Tracer) -> Tracer:
    """Return a normally distributed number for each word of random bits, in f32 of 32 bits and in f64 of 64.

    One bit is the sign, the others the place: the probability of a tail beyond it is (2 q + 1) / 2^(n + 1) for the
    other n - 1 bits q.
    """
    return _by_roots(bits) if bits.dtype == u32 else _by_logarithm(bits, DOUBLE)


def _by_roots(bits: Tracer) -> Tracer:
    """Return the places in f32; x and 1 - x are made of the bits, neither of the other, so both keep their digits."""
    word, least = Argument(0, u32), Literal(2.0**-32, f32)

    def share(bits_of: Expr) -> Expr:
        return apply("fma", cast_expr(bits_of, f32), Literal(2.0**-31, f32), least)

    rest = apply("and", word, Literal(0x7FFFFFFF, u32))
    tail, x = share(rest), share(apply("xor", rest, Literal(0x7FFFFFFF, u32)))
    root = apply("fma", x, tail, tail)  # 1 - x^2
    for _ in range(2):
        root = apply("sqrt", root, predicate=IN_RANGE)
    given = apply_expr(root, [bits])
    above, below = (_horner(side, Argument(1, f32)) for side in ROOTS)
    size = apply("div", apply("mul", x, above), below, predicate=IN_RANGE)
    negative = apply("cmp", word, Literal(0x80000000, u32), predicate="ge")
    return apply_expr(apply("select", negative, apply("neg", size), size), [bits, given])


def _horner(coefficients: Sequence[float], x: Expr) -> Expr:
    """Return a polynomial in f32, rounded once a step; coefficients: of the lowest power first."""
    *rest, total = (Literal(each, f32) for each in coefficients)
    for each in reversed(rest):
        total = apply("fma", total, x, each)
    return total


def _by_logarithm(bits: Tracer, precision: Precision) -> Tracer:
    """Return the places by AS 241."""
    kind, words = precision.dtype, precision.words
    x = Argument(0, words)
    one = Literal(1, words)
    odd = apply_expr(apply("or", apply("shl", x, one), one), [bits])
    distance = apply("sub", Literal(0, words), x)  # to the median
    scale = Literal(2.0 ** -(words.bits + 1), kind)
    limit = Literal(int(0.425 * 2.0 ** (words.bits + 1)), words)
    size = apply_expr(_size(distance, scale, limit, precision), [odd, _root(odd, precision)])
    sign = apply("cmp", apply("shr", x, Literal(words.bits - 1, words)), one, predicate="eq")
    signed = apply("select", sign, apply("neg", Argument(1, kind)), Argument(1, kind))
    return apply_expr(signed, [bits, size])


def _size(distance: Expr, scale: Expr, limit: Expr, precision: Precision) -> Expr:
    """Return the place without its sign, of the distance to the median and of the root in argument 1.

    All quotients are polynomials of like degrees, so one division does for them: coefficients are chosen, not results.
    """
    kind = precision.dtype
    near_median = apply("cmp", distance, limit, predicate="le")
    offset = apply("mul", cast_expr(distance, kind), scale)
    square = apply("sub", Literal(0.180625, kind), apply("mul", offset, offset))
    root = Argument(1, kind)
    x = apply("sub", root, Literal(1.6, kind))
    tail = [[Literal(each, kind) for each in side] for side in precision.near]
    beyond = apply("cmp", root, Literal(FAR, kind), predicate="gt")
    x = apply("select", beyond, apply("sub", root, Literal(FAR, kind)), x)
    tail = [_chosen(beyond, far, near) for far, near in zip(precision.far, tail, strict=True)]
    sides = [_chosen(near_median, middle, side) for middle, side in zip(precision.middle, tail, strict=True)]
    x = apply("select", near_median, square, x)
    quotient = apply("div", *(_polynomial(side, x) for side in sides), predicate=IN_RANGE)
    return apply("select", near_median, apply("mul", offset, quotient), quotient)


def _chosen(condition: Expr, numbers: Sequence[float], others: Sequence[Expr]) -> list[Expr]:
    """Return the coefficients of one of two polynomials; the shorter one has zeros for what it lacks."""
    zero = Literal(0.0, others[0].dtype)
    pairs = zip_longest((Literal(each, zero.dtype) for each in numbers), others, fillvalue=zero)
    return [one if one == other else apply("select", condition, one, other) for one, other in pairs]


def _root(odd: Tracer, precision: Precision) -> Tracer:
    """Return sqrt(-log p) of the upper tail p, which is `odd` of 2^(n + 1)."""
    shifted, count = _normalized(odd, precision)
    return apply_expr(apply("sqrt", _minus_logarithm(precision), predicate=IN_RANGE), [shifted, count])


def _normalized(odd: Tracer, precision: Precision) -> tuple[Tracer, Tracer]:
    """Return words shifted to the left until their highest bit is set, and by how many places."""
    words = precision.words
    value, count = odd, None
    step = words.bits // 2
    x, n = Argument(0, words), Argument(1, words)
    while step:
        low = apply("cmp", x, Literal(1 << (words.bits - step), words), predicate="lt")
        known = Literal(0, words) if count is None else n
        operands = [value] if count is None else [value, count]
        added = apply("select", low, apply("add", known, Literal(step, words)), known)
        moved = apply("select", low, apply("shl", x, Literal(step, words)), x)
        value, count = apply_expr(moved, [value]), apply_expr(added, operands)
        step //= 2
    assert count is not None
    return value, count


def _minus_logarithm(precision: Precision) -> Expr:
    """Return -log(p) where p is 2^-(1 + count) times the shifted word as a fraction, by the series of artanh."""
    kind, words = precision.dtype, precision.words
    digits = 53
    kept = apply("shr", Argument(0, words), Literal(words.bits - digits, words))
    fraction = apply("mul", cast_expr(kept, kind), Literal(2.0**-digits, kind))
    small = apply("cmp", fraction, Literal(math.sqrt(0.5), kind), predicate="lt")
    fraction = apply("select", small, apply("add", fraction, fraction), fraction)
    one, zero = Literal(1.0, kind), Literal(0.0, kind)
    powers = apply("add", cast_expr(Argument(1, words), kind), apply("select", small, Literal(2.0, kind), one))
    t = apply("div", apply("sub", fraction, one), apply("add", fraction, one), predicate=IN_RANGE)
    square = apply("mul", t, t)
    series = _polynomial([Literal(2.0 / (2 * n + 1), kind) for n in range(precision.logarithm)], square)
    logarithm = apply("mul", t, series)
    total = apply("sub", apply("mul", powers, Literal(math.log(2), kind)), logarithm)
    return apply("max", total, zero)


def _polynomial(coefficients: Sequence[Expr], x: Expr) -> Expr:
    """Return a polynomial by Horner's rule; coefficients: of the lowest power first."""
    *rest, total = coefficients
    for each in reversed(rest):
        total = apply("add", apply("mul", total, x), each)
    return total
