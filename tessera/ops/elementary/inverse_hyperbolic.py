"""Inverse hyperbolic functions as logarithms of 1 + x, which lose no digit near 0, with derivatives in closed form."""

import math
from collections.abc import Sequence
from typing import Final

from tessera.core.arrays.array_methods import Array
from tessera.core.graph.expr import Argument, Literal, apply
from tessera.graphs import tracer
from tessera.graphs.custom import custom
from tessera.graphs.function import operator
from tessera.graphs.tracer import Tracer, apply_expr
from tessera.ops.definitions.arithmetic import hypot
from tessera.ops.definitions.exponentials import log1p_of
from tessera.ops.definitions.floats import widened
from tessera.ops.elementary.inverse_trigonometric import one_minus_square

_LARGE: Final = 2.0**30
"""From here on x^2 + 1 and x^2 - 1 are x^2 in f64, too, and the result is log(2 x)."""


def _log_of_twice(x: Tracer) -> Tracer:
    """Return log(2 x), where 2 x may be more than the dtype holds."""
    return tracer.unary("log", x) + math.log(2.0)


def _with_sign_of(size: Tracer, x: Tracer) -> Tracer:
    """Return a result for |x| with the sign of x; a zero is x itself."""
    return tracer.select(x == 0.0, x, tracer.select(x < 0.0, -size, size))


def _arcsinh_slope(inputs: Sequence[Tracer], outputs: Sequence[Tracer], cotangents: Sequence[Tracer]) -> Tracer:
    """Pull back along 1 / sqrt(1 + x^2)."""
    del outputs
    return cotangents[0] / hypot(inputs[0], 1.0)


@custom(adjoint=_arcsinh_slope, name="arcsinh")
def _arcsinh(x: Tracer) -> Tracer:
    """Return the inverse hyperbolic sine of f32 or f64, as log1p(x + x^2 / (1 + sqrt(x^2 + 1)))."""
    size = abs(x)
    cut = tracer.binary("min", size, _LARGE)
    square = cut * cut
    near = log1p_of(cut + square / (1.0 + tracer.unary("sqrt", 1.0 + square)))
    return _with_sign_of(tracer.select(size > _LARGE, _log_of_twice(size), near), x)


@operator("arcsinh")
def arcsinh(x: Array) -> Array:
    """Return the number whose hyperbolic sine is x.

    Floats of 16 bits are computed in f32 and rounded once; integers give f32.
    """
    wide, dtype = widened(x)
    return _arcsinh(wide).astype(dtype)


def _arccosh_slope(inputs: Sequence[Tracer], outputs: Sequence[Tracer], cotangents: Sequence[Tracer]) -> Tracer:
    """Pull back along 1 / sqrt(x^2 - 1), which is 1 / x of large x."""
    del outputs
    (x,) = inputs
    a = Argument(0, x.dtype)
    square = apply_expr(apply("fma", a, a, Literal(-1.0, x.dtype)), [tracer.binary("min", x, _LARGE)])
    return cotangents[0] / tracer.select(x > _LARGE, x, tracer.unary("sqrt", square))


@custom(adjoint=_arccosh_slope, name="arccosh")
def _arccosh(x: Tracer) -> Tracer:
    """Return the inverse hyperbolic cosine of f32 or f64: with t = x - 1 it is log1p(t + sqrt(t (t + 2)))."""
    above = tracer.binary("min", x, _LARGE) - 1.0
    near = log1p_of(above + tracer.unary("sqrt", above * (above + 2.0)))
    return tracer.select(x > _LARGE, _log_of_twice(x), tracer.select(x < 1.0, math.nan, near))


@operator("arccosh")
def arccosh(x: Array) -> Array:
    """Return the number that is not negative and whose hyperbolic cosine is x; NaN below 1.

    Floats of 16 bits are computed in f32 and rounded once; integers give f32.
    """
    wide, dtype = widened(x)
    return _arccosh(wide).astype(dtype)


def _arctanh_slope(inputs: Sequence[Tracer], outputs: Sequence[Tracer], cotangents: Sequence[Tracer]) -> Tracer:
    """Pull back along 1 / (1 - x^2)."""
    del outputs
    return cotangents[0] / one_minus_square(inputs[0])


@custom(adjoint=_arctanh_slope, name="arctanh")
def _arctanh(x: Tracer) -> Tracer:
    """Return the inverse hyperbolic tangent of f32 or f64: log((1 + x) / (1 - x)) / 2 as log1p(2 x / (1 - x)) / 2."""
    size = abs(x)
    return _with_sign_of(0.5 * log1p_of((size + size) / (1.0 - size)), x)


@operator("arctanh")
def arctanh(x: Array) -> Array:
    """Return the number whose hyperbolic tangent is x: infinite at 1 and -1, NaN beyond.

    Floats of 16 bits are computed in f32 and rounded once; integers give f32.
    """
    wide, dtype = widened(x)
    return _arctanh(wide).astype(dtype)
