"""Fourier transforms as contractions: the mixed-radix algorithm of Cooley and Tukey, "four-step", on pairs of reals.

A complex array is a pair of real ones, `Complex(real, imag)`.  A transform of length n = p q is p x q: transforms of
length p along columns, which are products with a matrix, a twiddle factor for each element, and transforms of length q
along rows.

    X[k2 p + k1] = sum over m2 of w(n)^(k1 m2) w(q)^(m2 k2) sum over m1 of w(p)^(m1 k1) x[m1 q + m2]

Everything is a contraction or a map: fused with its neighbours, differentiated, the same on every target.
"""

import math
from typing import Any, Final, NamedTuple, cast

from tessera.core.base.dtypes import DType, i64
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.expr import Argument, Expr, Literal, apply
from tessera.core.graph.expr import cast as cast_expr
from tessera.graphs import tracer
from tessera.graphs.function import operator
from tessera.graphs.shapes import axes_of
from tessera.graphs.tracer import Tracer, apply_expr, as_tracer, contraction, trace_of
from tessera.ops.definitions.arrays import arange, stack
from tessera.ops.definitions.floats import widened

Array = Any  # an array of NumPy, PyTorch, CuPy or JAX, or a value of the graph that is being captured

MOST_FACTOR: Final = 64
"""The longest transform that is one product, where its length has factors."""


class Complex(NamedTuple):
    """A complex array: its real and its imaginary part, of one shape."""

    real: Array
    imag: Array


@operator("fft")
def fft(x: Array | Complex, axis: int = -1) -> Complex:
    """Return the discrete Fourier transform along an axis: sum over m of x[m] exp(-2 pi i k m / n), not scaled.

    x: a real array, or a pair (real, imag) of one shape; floats of 16 bits are computed in f32, integers become f32.
    The products of a length with prime factors p cost n times the sum of these: lengths with small factors are fast.
    Raises OperandMismatch for an axis that is not there or has no elements, and for parts that differ.
    """
    return _transformed(x, (axis,), inverse=False)


@operator("ifft")
def ifft(x: Array | Complex, axis: int = -1) -> Complex:
    """Return the inverse of `fft`: sum over k of x[k] exp(2 pi i k m / n) / n.  Raises as `fft` does."""
    return _transformed(x, (axis,), inverse=True)


@operator("fft2d")
def fft2d(x: Array | Complex) -> Complex:
    """Return the transform along the last two axes; see `fft`.  Raises OperandMismatch below two axes."""
    return _transformed(x, (-1, -2), inverse=False)


@operator("ifft2d")
def ifft2d(x: Array | Complex) -> Complex:
    """Return the inverse of `fft2d`, divided by the number of elements of the last two axes."""
    return _transformed(x, (-1, -2), inverse=True)


@operator("rfft")
def rfft(x: Array, axis: int = -1) -> Complex:
    """Return the first n // 2 + 1 elements of the transform of a real array: the others are their conjugates."""
    if isinstance(x, tuple):
        raise OperandMismatch("rfft takes a real array", hint="use op.fft for a pair (real, imag)")
    whole = _transformed(x, (axis,), inverse=False)
    place = axes_of(whole.real.ndim, axis)[0]
    kept = (*(slice(None),) * place, slice(0, whole.real.shape[place] // 2 + 1))
    return Complex(whole.real[kept], whole.imag[kept])


def _transformed(x: Array | Complex, axes: tuple[int, ...], *, inverse: bool) -> Complex:
    real, imag, dtype = _parts(x)
    rank = real.ndim
    places = [axes_of(rank, axis)[0] for axis in axes]
    scale = 1.0
    for place in places:
        if not real.shape[place]:
            raise OperandMismatch(f"axis {place} of {real.shape} has no elements to transform")
        scale /= real.shape[place] if inverse else 1
    state, first = (real, 0) if imag is None else (stack([real, imag]), 1)
    for place in places:
        order = [*(axis for axis in range(first + rank) if axis != first + place), first + place]
        moved = _along_last(state.transpose(*order), first == 1, inverse)
        order = [0, *(axis + 1 - first for axis in order if axis or not first)]
        state, first = moved.transpose(*(order.index(axis) for axis in range(rank + 1))), 1
    if scale != 1.0:
        state = state * scale
    return Complex(state[0].astype(dtype), state[1].astype(dtype))


def _parts(x: Array | Complex) -> tuple[Tracer, Tracer | None, DType]:
    """Return the parts in the dtype that they are computed in, None for an imaginary part of 0."""
    if not isinstance(x, tuple):
        wide, dtype = widened(as_tracer(x))
        return wide, None, dtype
    given = cast("tuple[Array, ...]", x)
    if len(given) != 2:
        raise OperandMismatch(f"a complex array is a pair, not {len(given)} arrays", hint="give (real, imag)")
    trace = trace_of(*given)
    (real, dtype), (imag, other) = widened(given[0], trace), widened(given[1], trace)
    if real.shape != imag.shape or dtype != other:
        found = f"{dtype} {real.shape} and {other} {imag.shape}"
        raise OperandMismatch(f"the parts of a complex array are alike, not {found}", hint="give one shape and dtype")
    return real, imag, dtype


def _along_last(state: Tracer, paired: bool, inverse: bool) -> Tracer:
    """Transform the last axis of [2, ..., n], the parts side by side, or of a real array; return [2, ..., n]."""
    *batch, length = state.shape
    first = _factor(length)
    if first == length:
        return _product(state, paired, inverse)
    second = length // first
    columns = state.reshape(*batch, first, second).T  # [..., m1 q + m2] as [..., m2, m1]
    rows = _twiddled(_product(columns, paired, inverse), length, inverse).T  # [2, ..., k1, m2]
    made = _along_last(rows, True, inverse).T  # [2, ..., k2, k1]
    return made.reshape(*made.shape[:-2], length)


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
    """Transform the last axis by a product with the matrix of its roots of unity, [part, m, part', k]."""
    length, rank = state.shape[-1], state.ndim
    index = arange(length)
    cosine, sine = _roots(index[:, None], index, length, state.dtype, inverse)
    straight, crossed = cosine[:, None, :], sine[:, None, :]
    made = arange(2)[:, None]  # the part that is made
    from_real = tracer.select(made == 0, straight, crossed)
    if not paired:
        labels = (*range(rank - 1), rank), (rank, rank + 1, rank + 2)
        return contraction(state, from_real, labels, (rank + 1, *range(rank - 1), rank + 2))
    from_imag = tracer.select(made == 0, -crossed, straight)
    part = arange(2)[:, None, None, None]
    matrix = tracer.select(part == 0, from_real, from_imag)
    labels = (0, *range(1, rank - 1), rank), (0, rank, rank + 1, rank + 2)
    return contraction(state, matrix, labels, (rank + 1, *range(1, rank - 1), rank + 2))


def _twiddled(state: Tracer, length: int, inverse: bool) -> Tracer:
    """Multiply the element [..., m2, k1] by the root of unity of number m2 k1."""
    rows, columns = arange(state.shape[-2])[:, None], arange(state.shape[-1])
    cosine, sine = _roots(rows, columns, length, state.dtype, inverse)
    part = arange(2).reshape(2, *(1,) * (state.ndim - 1))
    return state * cosine + state[::-1] * tracer.select(part == 0, -sine, sine)


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
