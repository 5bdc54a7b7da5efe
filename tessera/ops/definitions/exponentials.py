"""Exponentials, logarithms and hyperbolic functions without cancellation or early overflow."""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from tessera.core.arrays.array_methods import Array
from tessera.core.graph.expr import Argument, Expr, Literal, Number, apply
from tessera.core.program.spec import IN_RANGE
from tessera.graphs import tracer
from tessera.graphs.custom import custom
from tessera.graphs.function import operator
from tessera.graphs.tracer import Tracer, apply_expr
from tessera.ops.definitions.floats import widened, widened_pair

_EXACT: Final = 2.0**60
"""From here on 1 + x is x in f32 and f64, and nothing is lost by adding 1."""


def below(x: Tracer) -> Tracer:
    """Return -|x|, whose derivative at 0 is that of x: beside `max(0, x)`, whose own is 0 there."""
    return tracer.binary("min", x, -x)


def reciprocal_in_range(x: Tracer) -> Tracer:
    """Return one over numbers from 2^-100 to 2^100, for which no target has to look for anything else."""
    return apply_expr(apply("div", Literal(1.0, x.dtype), Argument(0, x.dtype), predicate=IN_RANGE), [x])


def log1p_of_fraction(x: Tracer) -> Tracer:
    """Return log(1 + x) for x in [0, 1] with all digits of a small x: what 1 + x loses is added at first order.

    Compensated as by Kahan: with u = 1 + x rounded, x - (u - 1) is exact, and log(1 + x) = log(u) + (x - (u - 1)) / u
    up to its square.
    """
    rounded = 1.0 + x
    return tracer.unary("log", rounded) + (x - (rounded - 1.0)) * reciprocal_in_range(rounded)


def log1p_of(x: Tracer) -> Tracer:
    """Return log(1 + x) of f32 or f64: compensated as in `log1p_of_fraction` where 1 + x is rounded at all.

    It is subtracted twice, so that a zero keeps its sign.
    """
    # Below -1/2 and from 2^60 on the sum is exact: there the compensation is 0, and nothing is infinite.
    near = tracer.binary("min", tracer.binary("max", x, -0.5), _EXACT)
    rounded = 1.0 + near
    lost = (near - (rounded - 1.0)) * reciprocal_in_range(rounded)
    return -(-tracer.unary("log", 1.0 + x) - lost)


def expm1_expr(x: Expr) -> Expr:
    """Return exp(x) - 1 of f32 or f64: near 0 it is 2 t / (1 - t) with t = tanh(x / 2), which loses no digit.

    One expression, so that its choice between the two encloses both derivatives; beyond 1 that is exp(x) itself.
    """
    one, half = Literal(1.0, x.dtype), Literal(0.5, x.dtype)
    t = apply("tanh", apply("mul", half, cut_expr(x, 1.0)))
    # 1 - t is about 1: dividing by it looks for nothing, where a quotient of any t would look for denormal ones.
    inverse = apply("div", one, apply("sub", one, t), predicate=IN_RANGE)
    small = apply("mul", apply("add", t, t), inverse)
    is_near = apply("cmp", apply("abs", x), one, predicate="lt")
    return apply("select", is_near, small, apply("sub", apply("exp", x), one))


def cut_expr(x: Expr, bound: float) -> Expr:
    """Return x between -bound and bound, where it has the derivative 1, and at both."""
    above = apply("max", x, Literal(-bound, x.dtype))
    return apply("min", above, Literal(bound, x.dtype))


def softplus_of(x: Tracer) -> Tracer:
    """Return log(1 + exp(x)) of f32 or f64 as max(x, 0) + log1p(exp(-|x|))."""
    return tracer.binary("max", 0.0, x) + log1p_of_fraction(tracer.unary("exp", below(x)))


@operator("log1p")
def log1p(x: Array) -> Array:
    """Return log(1 + x) with all digits of a small x (Kahan's compensation); below -1 NaN, integers give f32."""
    wide, dtype = widened(x)
    return log1p_of(wide).astype(dtype)


@operator("expm1")
def expm1(x: Array) -> Array:
    """Return exp(x) - 1 with all digits of a small x, from tanh(x / 2) there; integers give f32."""
    wide, dtype = widened(x)
    return apply_expr(expm1_expr(Argument(0, wide.dtype)), [wide]).astype(dtype)


@operator("log10")
def log10(x: Array) -> Array:
    """Return the logarithm to base 10, log(x) / log(10), up to two units in the last place; integers give f32."""
    wide, dtype = widened(x)
    return (tracer.unary("log", wide) * (1.0 / math.log(10.0))).astype(dtype)


@operator("sinh")
def sinh(x: Array) -> Array:
    """Return (exp(x) - exp(-x)) / 2: near 0 as 2 t / (1 - t^2), t = tanh(x / 2), and finite as far as the dtype goes.

    Floats of 16 bits are computed in f32 and rounded once; integers give f32.
    """
    wide, dtype = widened(x)
    t, scale = _half_angle(Argument(0, wide.dtype))
    return _hyperbolic(wide, apply("mul", apply("add", t, t), scale), "sub").astype(dtype)


@operator("cosh")
def cosh(x: Array) -> Array:
    """Return (exp(x) + exp(-x)) / 2: near 0 as (1 + t^2) / (1 - t^2), t = tanh(x / 2), whose derivatives keep digits.

    Finite as far as the dtype goes.  Floats of 16 bits are computed in f32 and rounded once; integers give f32.
    """
    wide, dtype = widened(x)
    t, scale = _half_angle(Argument(0, wide.dtype))
    return _hyperbolic(wide, apply("mul", apply("fma", t, t, Literal(1.0, wide.dtype)), scale), "add").astype(dtype)


def _half_angle(x: Expr) -> tuple[Expr, Expr]:
    """Return t = tanh(x / 2) and 1 / (1 - t^2) of x within [-1, 1], to which others are cut."""
    one = Literal(1.0, x.dtype)
    t = apply("tanh", apply("mul", Literal(0.5, x.dtype), cut_expr(x, 1.0)))
    return t, apply("div", one, apply("sub", one, apply("mul", t, t)))


def _hyperbolic(x: Tracer, small: Expr, opcode: str) -> Tracer:
    """Return `small` within [-1, 1], and elsewhere the sum or difference of exp(x) / 2 and exp(-x) / 2."""
    a, half = Argument(0, x.dtype), Literal(0.5, x.dtype)
    # Squares of exp(x / 2) and exp(-x / 2) overflow no earlier than the result.
    roots = [apply("exp", apply("mul", Literal(sign * 0.5, x.dtype), a)) for sign in (1.0, -1.0)]
    grown, decayed = (apply("mul", apply("mul", half, root), root) for root in roots)
    is_near = apply("cmp", apply("abs", a), Literal(1.0, x.dtype), predicate="lt")
    return apply_expr(apply("select", is_near, small, apply(opcode, grown, decayed)), [x])


@operator("logaddexp")
def logaddexp(a: Array | Number, b: Array | Number) -> Array:
    """Return log(exp(a) + exp(b)), element by element, relative to the greater: max(a, b) + log1p(exp(-|a - b|)).

    Infinities are NumPy's: of two alike the result is that infinity.  Derivatives by a and b are their shares
    exp(a) / (exp(a) + exp(b)) and the other; of two alike infinities a has all.  Integers give f32.
    Raises OperandMismatch for shapes that do not broadcast.
    """
    x, y, dtype = widened_pair(a, b)
    # The largest float stands for an infinity in the difference: inf - inf is NaN.
    largest = float(np.finfo(x.dtype.numpy).max)
    first, second = (tracer.binary("min", tracer.binary("max", v, -largest), largest) for v in (x, y))
    # Of equal operands `max` has the derivative of its first one, so the difference counts as that of a greater a.
    distance = tracer.binary("min", second - first, first - second)
    return (tracer.binary("max", x, y) + log1p_of_fraction(tracer.unary("exp", distance))).astype(dtype)


@operator("logaddexp2")
def logaddexp2(a: Array | Number, b: Array | Number) -> Array:
    """Return log2(2^a + 2^b), element by element, as `logaddexp` of the same in other units; integers give f32."""
    x, y, dtype = widened_pair(a, b)
    return (logaddexp(x * math.log(2.0), y * math.log(2.0)) * (1.0 / math.log(2.0))).astype(dtype)


def _cbrt_curve(inputs: Sequence[Tracer], outputs: Sequence[Tracer], cotangents: Sequence[Tracer]) -> Tracer:
    """Pull back along -2 / (9 cbrt(x)^5), which is infinite at 0, as a product of quotients is not."""
    del outputs
    root = _cbrt(inputs[0])
    square = root * root
    return cotangents[0] * (-2.0 / 9.0) / (square * square * root)


@custom(adjoint=_cbrt_curve, name="cbrt_slope")
def _slope_of_cbrt(x: Tracer) -> Tracer:
    """Return 1 / (3 cbrt(x)^2)."""
    root = _cbrt(x)
    return (1.0 / 3.0) / (root * root)


def _cbrt_slope(inputs: Sequence[Tracer], outputs: Sequence[Tracer], cotangents: Sequence[Tracer]) -> Tracer:
    """Pull back along 1 / (3 cbrt(x)^2)."""
    del outputs
    return cotangents[0] * _slope_of_cbrt(inputs[0])


@custom(adjoint=_cbrt_slope, name="cbrt")
def _cbrt(x: Tracer) -> Tracer:
    """Return the cube root of f32 or f64: 2^(log2(x) / 3), and a step of Newton's iteration."""
    size = abs(x)
    is_itself = (size == 0.0) | (size == math.inf)
    finite = tracer.select(is_itself, 1.0, size)
    guess = tracer.unary("exp2", tracer.unary("log2", finite) * (1.0 / 3.0))
    root = guess - (guess - finite / (guess * guess)) * (1.0 / 3.0)
    return tracer.select(is_itself, x, tracer.select(x < 0.0, -root, root))


@operator("cbrt")
def cbrt(x: Array) -> Array:
    """Return the cube root, negative of negative numbers; its derivative at 0 is infinite.

    Floats of 16 bits are computed in f32 and rounded once; integers give f32.
    """
    wide, dtype = widened(x)
    return _cbrt(wide).astype(dtype)
