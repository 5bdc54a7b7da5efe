"""Inverse trigonometric functions, with derivatives in closed form: of arithmetic, one division and one polynomial.

The polynomial is the same on every target, so its bits are, too.
"""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from tessera.core.arrays.array_methods import Array
from tessera.core.base.dtypes import f64
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.expr import Argument, Literal, Number, apply
from tessera.graphs import tracer
from tessera.graphs.custom import custom
from tessera.graphs.function import operator
from tessera.graphs.tracer import Tracer, apply_expr
from tessera.ops.definitions.arithmetic import is_negative
from tessera.ops.definitions.arrays import broadcast_to
from tessera.ops.definitions.floats import widened, widened_pair

_NARROW: Final = math.sqrt(2.0) - 1.0
"""tan(pi / 8): up to it the polynomial is used as it is, up to its inverse around 1, beyond around infinity."""
_POLYNOMIALS: Final = {
    32: (
        -0.333333317611685199, 0.199995404836489634, -0.142639555979846392, 0.10743731490791083,
        -0.0645192820812174876,
    ),
    64: (
        -0.333333333333333302, 0.199999999999955207, -0.142857142846665429, 0.111111110152563617,
        -0.0909090457812390189, 0.0769218319082608656, -0.06664511447381948, 0.0585814891280220988,
        -0.0508544973794025986, 0.0392316582955871913, -0.019176887119062259,
    ),
}  # fmt: skip
"""By the bits of a float, lowest first: (arctan(u) / u - 1) / u^2 in u^2 up to tan(pi / 8)^2, interpolated at the nodes
of Chebyshev in 60 digits; relative to arctan they err by 2.4e-9 and 4.7e-18."""
_TAILS: Final = {32: math.pi / 2 - float(np.float32(math.pi / 2)), 64: 6.123233995736766e-17}
"""By the bits of a float: what its pi / 2 lacks."""


def _plus_angle(quarters: Tracer | float, x: Tracer) -> Tracer:
    """Return quarters * pi / 2 + x, where the product is exact but for what pi / 2 lacks, which is added first."""
    half_pi = math.pi / 2 if x.dtype == f64 else float(np.float32(math.pi / 2))
    return quarters * half_pi + (quarters * _TAILS[x.dtype.bits] + x)


def one_minus_square(x: Tracer) -> Tracer:
    """Return 1 - x^2, rounded once: near 1 the rounding of the square alone would be a large part of it."""
    a = Argument(0, x.dtype)
    return apply_expr(apply("fma", apply("neg", a), a, Literal(1.0, x.dtype)), [x])


def _arctan_slope(inputs: Sequence[Tracer], outputs: Sequence[Tracer], cotangents: Sequence[Tracer]) -> Tracer:
    """Pull back along 1 / (1 + x^2), with x cut to what has a square: beyond it is 0, and so is its derivative."""
    del outputs
    bound = 2.0**511 if inputs[0].dtype == f64 else 2.0**63
    x = tracer.binary("min", tracer.binary("max", inputs[0], -bound), bound)
    return cotangents[0] / (1.0 + x * x)


@custom(adjoint=_arctan_slope, name="arctan")
def _arctan(x: Tracer) -> Tracer:
    """Return the arctangent of f32 or f64.

    arctan(x) = pi / 4 + arctan((x - 1) / (x + 1)) = pi / 2 + arctan(-1 / x) brings every x within tan(pi / 8).
    """
    size = abs(x)
    near, far = size <= _NARROW, size > 1.0 / _NARROW
    top = tracer.select(near, size, tracer.select(far, -1.0, size - 1.0))
    bottom = tracer.select(near, 1.0, tracer.select(far, size, size + 1.0))
    u = top / bottom
    square, series = u * u, 0.0
    for coefficient in reversed(_POLYNOMIALS[x.dtype.bits]):
        series = series * square + coefficient
    small = u + u * (square * series)
    angle = tracer.select(near, small, _plus_angle(tracer.select(far, 1.0, 0.5).astype(x.dtype), small))
    return tracer.select(size == 0.0, x, tracer.select(x < 0.0, -angle, angle))


@operator("arctan")
def arctan(x: Array) -> Array:
    """Return the angle in (-pi / 2, pi / 2) whose tangent is x, up to two units in the last place.

    Floats of 16 bits are computed in f32 and rounded once; integers give f32.
    """
    wide, dtype = widened(x)
    return _arctan(wide).astype(dtype)


def _arcsin_slope(inputs: Sequence[Tracer], outputs: Sequence[Tracer], cotangents: Sequence[Tracer]) -> Tracer:
    """Pull back along 1 / sqrt(1 - x^2)."""
    del outputs
    return cotangents[0] / tracer.unary("sqrt", one_minus_square(inputs[0]))


@custom(adjoint=_arcsin_slope, name="arcsin")
def _arcsin(x: Tracer) -> Tracer:
    """Return the arcsine of f32 or f64, as 2 arctan(x / (1 + sqrt(1 - x^2))), which loses no digit near 0 and 1."""
    return 2.0 * _arctan(x / (1.0 + tracer.unary("sqrt", one_minus_square(x))))


@operator("arcsin")
def arcsin(x: Array) -> Array:
    """Return the angle in [-pi / 2, pi / 2] whose sine is x; NaN beyond 1 and -1.

    Floats of 16 bits are computed in f32 and rounded once; integers give f32.
    """
    wide, dtype = widened(x)
    return _arcsin(wide).astype(dtype)


def _arccos_slope(inputs: Sequence[Tracer], outputs: Sequence[Tracer], cotangents: Sequence[Tracer]) -> Tracer:
    """Pull back along -1 / sqrt(1 - x^2)."""
    return -_arcsin_slope(inputs, outputs, cotangents)


@custom(adjoint=_arccos_slope, name="arccos")
def _arccos(x: Tracer) -> Tracer:
    """Return the arccosine of f32 or f64, as 2 arctan(sqrt((1 - x) / (1 + x))), which loses no digit near 1."""
    return 2.0 * _arctan(tracer.unary("sqrt", (1.0 - x) / (1.0 + x)))


@operator("arccos")
def arccos(x: Array) -> Array:
    """Return the angle in [0, pi] whose cosine is x; NaN beyond 1 and -1.

    Floats of 16 bits are computed in f32 and rounded once; integers give f32.
    """
    wide, dtype = widened(x)
    return _arccos(wide).astype(dtype)


def _arctan2_slope(
    inputs: Sequence[Tracer], outputs: Sequence[Tracer], cotangents: Sequence[Tracer]
) -> tuple[Tracer, ...]:
    """Pull back along (x, -y) / (x^2 + y^2), in which no square overflows or vanishes; 0 where both are 0."""
    del outputs
    largest = float(np.finfo(inputs[0].dtype.numpy).max)
    y, x = (tracer.binary("min", tracer.binary("max", each, -largest), largest) for each in inputs)
    top = tracer.binary("max", abs(x), abs(y))
    is_zero = top == 0.0
    scale = tracer.select(is_zero, 1.0, top)
    x, y = x / scale, y / scale
    length = tracer.select(is_zero, 1.0, x * x + y * y)
    pulled = tracer.select(is_zero, 0.0, cotangents[0] / scale / length)
    return pulled * x, -pulled * y


@custom(adjoint=_arctan2_slope, name="arctan2")
def _arctan2(y: Tracer, x: Tracer) -> Tracer:
    """Return the angle of (x, y) in f32 or f64: of the lesser over the greater, in its eighth of the circle."""
    tall, wide = abs(y), abs(x)
    top, low = tracer.binary("max", tall, wide), tracer.binary("min", tall, wide)
    # Of two infinities, and of two zeros, which count as (1, 0).
    ratio = tracer.select(low == top, tracer.select(top == 0.0, 0.0, 1.0), low / top)
    angle = _arctan(ratio.astype(x.dtype))
    angle = tracer.select(tall > wide, _plus_angle(1.0, -angle), angle)
    angle = tracer.select(is_negative(x), _plus_angle(2.0, -angle), angle)
    return tracer.select(is_negative(y), -angle, angle)


@operator("arctan2")
def arctan2(y: Array | Number, x: Array | Number) -> Array:
    """Return the angle of the point (x, y) in [-pi, pi], as NumPy's: signs of zeros count, infinities are far.

    Derivatives are x / (x^2 + y^2) by y and -y / (x^2 + y^2) by x, 0 at the origin.  Integers give f32.
    Raises OperandMismatch for shapes that do not broadcast.
    """
    first, second, dtype = widened_pair(y, x)
    try:
        shape = np.broadcast_shapes(first.shape, second.shape)
    except ValueError:
        raise OperandMismatch(f"{first.shape} and {second.shape} do not broadcast together") from None
    return _arctan2(broadcast_to(first, shape), broadcast_to(second, shape)).astype(dtype)


def _in_other_units(x: Array, factor: float) -> Tracer:
    wide, dtype = widened(x)
    return (wide * factor).astype(dtype)


@operator("radians")
def radians(x: Array) -> Array:
    """Return an angle of degrees in radians, x pi / 180; integers give f32."""
    return _in_other_units(x, math.pi / 180)


@operator("degrees")
def degrees(x: Array) -> Array:
    """Return an angle of radians in degrees, x 180 / pi; integers give f32."""
    return _in_other_units(x, 180 / math.pi)
