"""Fourier transforms as contractions: the mixed-radix algorithm of Cooley and Tukey, "four-step".

A transform of length n = p q is p x q: transforms of length p along columns, which are products with a matrix, a
twiddle factor for each element, and transforms of length q along rows.

    X[k2 p + k1] = sum over m2 of w(n)^(k1 m2) w(q)^(m2 k2) sum over m1 of w(p)^(m1 k1) x[m1 q + m2]

Everything is a contraction or a map: fused with its neighbours, the same on every target.
"""

import math
from typing import Final

from tessera.core.base.dtypes import DType, i64
from tessera.core.graph.expr import Argument, Expr, Literal, apply
from tessera.core.graph.expr import cast as cast_expr
from tessera.graphs import tracer
from tessera.graphs.tracer import Tracer, apply_expr, contraction
from tessera.ops.definitions.arrays import arange

MOST_FACTOR: Final = 64
"""The longest transform that is one product, where its length has factors."""


def along_last(state: Tracer, paired: bool, inverse: bool) -> Tracer:
    """Transform the last axis before the parts, [..., n, 2], or the last one of a real array; return [..., n, 2]."""
    *batch, length = state.shape[:-1] if paired else state.shape
    first = _factor(length)
    if first == length:
        return _product(state, paired, inverse)
    second = length // first
    split = state.reshape(*batch, first, second, *((2,) if paired else ()))
    columns = _turned(split, paired)  # [..., m1 q + m2] as [..., m2, m1]
    rows = _turned(_twiddled(_product(columns, paired, inverse), length, inverse), True)  # [..., k1, m2, 2]
    made = _turned(along_last(rows, True, inverse), True)  # [..., k2, k1, 2]
    return made.reshape(*batch, length, 2)


def _turned(state: Tracer, paired: bool) -> Tracer:
    """Swap the last two axes before the parts."""
    if not paired:
        return state.T
    rank = state.ndim
    return state.transpose(*range(rank - 3), rank - 2, rank - 3, rank - 1)


def _factor(length: int) -> int:
    """Return the factor of a length that is transformed first: the greatest up to 64, its least one beyond."""
    if length <= MOST_FACTOR:
        return length
    small = [each for each in range(2, MOST_FACTOR + 1) if length % each == 0]
    if not small:
        return next((each for each in range(MOST_FACTOR + 1, math.isqrt(length) + 1) if length % each == 0), length)
    balanced = [each for each in small if each * each >= length]
    return min(balanced) if balanced else max(small)


def _product(state: Tracer, paired: bool, inverse: bool) -> Tracer:
    """Transform by a product with the matrix of the roots of unity, [m, part, k, part']."""
    rank = state.ndim - 1 if paired else state.ndim
    length = state.shape[rank - 1]
    index = arange(length)
    cosine, sine = _roots(index[:, None], index, length, state.dtype, inverse)
    straight, crossed = cosine[..., None], sine[..., None]
    made = arange(2)  # the part that is made
    from_real = tracer.select(made == 0, straight, crossed)  # [m, k, part']
    kept, m, part, k, new = range(rank - 1), rank, rank + 1, rank + 2, rank + 3
    if not paired:
        return contraction(state, from_real, ((*kept, m), (m, k, new)), (*kept, k, new))
    from_imag = tracer.select(made == 0, -crossed, straight)
    parts = arange(2)[:, None, None]
    matrix = tracer.select(parts == 0, from_real[:, None], from_imag[:, None])
    return contraction(state, matrix, ((*kept, m, part), (m, part, k, new)), (*kept, k, new))


def _twiddled(state: Tracer, length: int, inverse: bool) -> Tracer:
    """Multiply the element [..., m2, k1] by the root of unity of number m2 k1."""
    rows, columns = arange(state.shape[-3])[:, None], arange(state.shape[-2])
    cosine, sine = _roots(rows, columns, length, state.dtype, inverse)
    crossed = tracer.select(arange(2) == 0, -sine[..., None], sine[..., None])
    return state * cosine[..., None] + state[..., ::-1] * crossed


def _roots(rows: Tracer, columns: Tracer, length: int, dtype: DType, inverse: bool) -> tuple[Tracer, Tracer]:
    """Return cos and sin of -2 pi r c / length (of 2 pi r c / length for the inverse).

    The angle is brought into one eighth of the circle in integers, so that only small ones are rounded.
    """
    cosine, sine = (apply_expr(_root(part, length, dtype, inverse), [rows, columns]) for part in ("cos", "sin"))
    return cosine, sine


def _root(part: str, length: int, dtype: DType, inverse: bool) -> Expr:
    """Return the cosine or the sine: k is r c mod n, in units of a turn over 8 n."""
    turn = 8 * length

    def number(value: int) -> Expr:
        return Literal(value, i64)

    product = apply("mul", Argument(0, i64), Argument(1, i64))
    k = apply("mul", apply("mod", product, number(length)), number(8))
    lower = apply("cmp", k, number(turn // 2), predicate="gt")  # the lower half of the circle: mirrored
    k = apply("select", lower, apply("sub", number(turn), k), k)
    left = apply("cmp", k, number(turn // 4), predicate="gt")
    k = apply("select", left, apply("sub", number(turn // 2), k), k)
    steep = apply("cmp", k, number(turn // 8), predicate="gt")
    k = apply("select", steep, apply("sub", number(turn // 4), k), k)
    angle = apply("mul", cast_expr(k, dtype), Literal(2 * math.pi / turn, dtype))
    same, other = ("cos", "sin") if part == "cos" else ("sin", "cos")
    value = apply("select", steep, apply(other, angle), apply(same, angle))
    negative = left if part == "cos" else lower
    value = apply("select", negative, apply("neg", value), value)
    return apply("neg", value) if part == "sin" and not inverse else value
