"""Normally distributed numbers of random bits: the inverse of the normal distribution function, the same everywhere.

Wichura, "Algorithm AS 241: The Percentage Points of the Normal Distribution", Applied Statistics 37, 1988: quotients of
polynomials, of the distance to the median near it, and of sqrt(-log p) in the tails.  The logarithm is computed here of
the bits themselves, so that nothing but additions, products, quotients and square roots is needed, which every target
rounds alike.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tessera.core.base.dtypes import DType, f32, f64, u32, u64
from tessera.core.graph.expr import Argument, Expr, Literal, apply
from tessera.core.graph.expr import cast as cast_expr
from tessera.graphs.tracer import Tracer, apply_expr

Quotient = tuple[Sequence[float], Sequence[float]]


@dataclass(frozen=True, slots=True)
class Precision:
    """The constants for one dtype.

    words: the dtype of the bits; middle, near, far: numerator and denominator, lowest power first; logarithm: terms of
    the series of the logarithm
    """

    dtype: DType
    words: DType
    middle: Quotient
    near: Quotient
    far: Quotient
    logarithm: int


SINGLE: Final = Precision(
    f32, u32,
    ((3.3871327179, 50.434271938, 159.29113202, 59.109374720), (1.0, 17.895169469, 78.757757664, 67.187563600)),
    ((1.4234372777, 2.7568153900, 1.3067284816, 0.17023821103), (1.0, 0.73700164250, 0.12021132975)),
    ((6.6579051150, 3.0812263860, 0.42868294337, 0.017337203997), (1.0, 0.24197894225, 0.012258202635)),
    5,
)  # fmt: skip
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


def normal(bits: Tracer, precision: Precision) -> Tracer:
    """Return a normally distributed number for each word of random bits: one bit is the sign, the others the place.

    The probability of a tail beyond it is (2 q + 1) / 2^(n + 1) for the other n - 1 bits q.
    """
    kind, words = precision.dtype, precision.words
    x = Argument(0, words)
    one = Literal(1, words)
    odd = apply_expr(apply("or", apply("shl", x, one), one), [bits])
    distance = apply("sub", Literal(0, words), x)  # to the median
    scale = Literal(2.0 ** -(words.bits + 1), kind)
    middle = apply_expr(_middle(apply("mul", cast_expr(distance, kind), scale), precision), [odd])
    tail = _tail(odd, precision)
    limit = Literal(int(0.425 * 2.0 ** (words.bits + 1)), words)
    picked = apply("select", apply("cmp", apply("sub", Literal(0, words), x), limit, predicate="le"),
                   Argument(1, kind), Argument(2, kind))  # fmt: skip
    size = apply_expr(picked, [odd, middle, tail])
    sign = apply("cmp", apply("shr", x, Literal(words.bits - 1, words)), one, predicate="eq")
    signed = apply("select", sign, apply("neg", Argument(1, kind)), Argument(1, kind))
    return apply_expr(signed, [bits, size])


def _middle(distance: Expr, precision: Precision) -> Expr:
    square = apply("sub", Literal(0.180625, precision.dtype), apply("mul", distance, distance))
    return apply("mul", distance, _quotient(precision.middle, square))


def _tail(odd: Tracer, precision: Precision) -> Tracer:
    """Return the number whose upper tail is `odd` of 2^(n + 1)."""
    kind = precision.dtype
    shifted, count = _normalized(odd, precision)
    root = apply_expr(apply("sqrt", _minus_logarithm(precision)), [shifted, count])
    r = Argument(0, kind)
    near = _quotient(precision.near, apply("sub", r, Literal(1.6, kind)))
    far = _quotient(precision.far, apply("sub", r, Literal(5.0, kind)))
    return apply_expr(apply("select", apply("cmp", r, Literal(5.0, kind), predicate="le"), near, far), [root])


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
    digits = 24 if kind == f32 else 53
    kept = apply("shr", Argument(0, words), Literal(words.bits - digits, words))
    fraction = apply("mul", cast_expr(kept, kind), Literal(2.0**-digits, kind))
    small = apply("cmp", fraction, Literal(math.sqrt(0.5), kind), predicate="lt")
    fraction = apply("select", small, apply("add", fraction, fraction), fraction)
    one, zero = Literal(1.0, kind), Literal(0.0, kind)
    powers = apply("add", cast_expr(Argument(1, words), kind), apply("select", small, Literal(2.0, kind), one))
    t = apply("div", apply("sub", fraction, one), apply("add", fraction, one))
    square = apply("mul", t, t)
    series = _polynomial([2.0 / (2 * n + 1) for n in range(precision.logarithm)], square)
    logarithm = apply("mul", t, series)
    total = apply("sub", apply("mul", powers, Literal(math.log(2), kind)), logarithm)
    return apply("max", total, zero)


def _quotient(quotient: Quotient, x: Expr) -> Expr:
    return apply("div", *(_polynomial(each, x) for each in quotient))


def _polynomial(coefficients: Sequence[float], x: Expr) -> Expr:
    """Return a polynomial by Horner's rule; coefficients: of the lowest power first."""
    *rest, total = (Literal(each, x.dtype) for each in coefficients)
    made: Expr = total
    for each in reversed(rest):
        made = apply("add", apply("mul", made, x), each)
    return made
