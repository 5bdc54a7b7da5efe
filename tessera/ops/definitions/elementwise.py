"""Operators that work element by element."""

from collections.abc import Sequence
from typing import Final

from tessera.core.arrays.array_methods import Array
from tessera.core.base.dtypes import DType
from tessera.core.graph.expr import Number
from tessera.graphs import tracer
from tessera.graphs.custom import custom
from tessera.graphs.function import GraphFunction, operator
from tessera.graphs.operands.numbers import clipped_bounds
from tessera.graphs.tracer import Tracer, as_tracer
from tessera.ops.definitions.floats import widened

ERF_BOUND: Final = 30.0
"""Beyond it exp(-x^2) is 0 in f64."""


def _unary(name: str, opcode: str, summary: str) -> GraphFunction[[Array], Array]:
    def definition(x: Array) -> Array:
        return tracer.unary(opcode, x)

    definition.__name__ = name
    definition.__doc__ = f"""Return {summary}, element by element; integers give f32."""
    return operator(name)(definition)


exp = _unary("exp", "exp", "e to the power of x")
exp2 = _unary("exp2", "exp2", "2 to the power of x")
log = _unary("log", "log", "the natural logarithm")
log2 = _unary("log2", "log2", "the logarithm to base 2")
sqrt = _unary("sqrt", "sqrt", "the square root")
rsqrt = _unary("rsqrt", "rsqrt", "one over the square root")
sin = _unary("sin", "sin", "the sine")
cos = _unary("cos", "cos", "the cosine")
tanh = _unary("tanh", "tanh", "the hyperbolic tangent")


@operator("erf")
def erf(x: Array) -> Array:
    """Return the error function, element by element; integers give f32."""
    # From 6 on it is 1 and its slope 0; an infinity would meet that 0 in the second derivative, x exp(-x^2).
    cut = tracer.binary("min", tracer.binary("max", x, -ERF_BOUND), ERF_BOUND)
    return tracer.unary("erf", cut)


@operator("floor")
def floor(x: Array) -> Array:
    """Return the largest whole number that is not above x; integers stay.  Its derivative is 0."""
    return tracer.unary("floor", x)


@operator("ceil")
def ceil(x: Array) -> Array:
    """Return the least whole number that is not below x; integers stay.  Its derivative is 0."""
    return tracer.unary("ceil", x)


@operator("trunc")
def trunc(x: Array) -> Array:
    """Return x without its fraction: the whole number next to it towards 0; integers stay.  Its derivative is 0."""
    value = as_tracer(x)
    if not value.dtype.is_float:
        return value
    wide, dtype = widened(value)
    return _signed_zero(tracer.select(wide < 0.0, tracer.unary("ceil", wide), tracer.unary("floor", wide)), wide, dtype)


@operator("round")
def round_(x: Array) -> Array:
    """Return the whole number nearest to x, the even one of two, as NumPy's `rint`; integers stay.

    Its derivative is 0: `x + op.stop_gradient(op.round(x) - x)` has that of x (Bengio et al. 2013, "straight-through").
    """
    value = as_tracer(x)
    if not value.dtype.is_float:
        return value
    wide, dtype = widened(value)
    below = tracer.unary("floor", wide)
    fraction = wide - below
    odd = tracer.unary("floor", below * 0.5) * 2.0 != below
    up = (fraction > 0.5) | ((fraction == 0.5) & odd)
    return _signed_zero(below + tracer.select(up, 1.0, 0.0), wide, dtype)


def _signed_zero(rounded: Tracer, x: Tracer, dtype: DType) -> Tracer:
    """Return a rounded x whose zeros have the sign of x."""
    return tracer.select(rounded == 0.0, x * 0.0, rounded).astype(dtype)


@operator("sign")
def sign(x: Array) -> Array:
    """Return -1, 0 or 1, in the dtype of x; NaN stays NaN.  Its derivative is 0."""
    value = as_tracer(x)
    zero = abs(value) * 0 if value.dtype.is_float else 0  # NaN for NaN
    return tracer.select(value > 0, 1, tracer.select(value < 0, -1, zero)).astype(value.dtype)


@operator("abs")
def absolute(x: Array) -> Array:
    """Return the absolute value."""
    return abs(as_tracer(x))


@operator("maximum")
def maximum(a: Array | Number, b: Array | Number) -> Array:
    """Return the greater of two, element by element; NaN wins."""
    return tracer.binary("max", a, b)


@operator("minimum")
def minimum(a: Array | Number, b: Array | Number) -> Array:
    """Return the lesser of two, element by element; NaN wins."""
    return tracer.binary("min", a, b)


@operator("where")
def where(condition: Array, a: Array | Number, b: Array | Number) -> Array:
    """Return `a` where `condition` holds, else `b`, broadcast together."""
    return tracer.select(condition, a, b)


@operator("square")
def square(x: Array) -> Array:
    """Return x * x."""
    return as_tracer(x) * x


@operator("clip")
def clip(x: Array, low: Array | Number | None = None, high: Array | Number | None = None) -> Array:
    """Return x, but `low` where it is less and `high` where it is greater; None leaves that end open.

    Bounds that the integers of x never reach do nothing.  Raises OperandMismatch for bounds that are no x.dtype.
    """
    value = as_tracer(x)
    least, greatest = clipped_bounds(low, high, value.dtype)
    if least is not None:
        value = tracer.binary("max", value, least)
    return value if greatest is None else tracer.binary("min", value, greatest)


def _no_cotangents(inputs: Sequence[Array], outputs: Sequence[Array], cotangents: Sequence[Array]) -> None:
    """Return no cotangent: zero."""
    del inputs, outputs, cotangents


@custom(adjoint=_no_cotangents, name="stop_gradient")
def stop_gradient(x: Array) -> Array:
    """Return x, with a derivative of 0: a constant to derivatives of every order, as PyTorch's `detach`."""
    return as_tracer(x)
