"""Operators that work element by element."""

import math
from collections.abc import Sequence
from typing import Any, Final

from tessera.core.base.dtypes import DType
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.expr import Argument, Literal, Number, apply
from tessera.core.program.spec import IN_RANGE
from tessera.graphs import tracer
from tessera.graphs.custom import custom
from tessera.graphs.function import GraphFunction, operator
from tessera.graphs.operands.numbers import clipped_bounds
from tessera.graphs.tracer import Tracer, apply_expr, as_tracer
from tessera.ops.definitions.floats import widened

LOGISTIC_BOUND: Final = 1000.0
"""Beyond it exp(-|x|) is 0 in f64."""
Array = Any  # an array of NumPy, PyTorch, CuPy or JAX, or a value of the graph that is being captured
"""An operand or a result: an array of NumPy, PyTorch, CuPy or JAX, or a value of the graph that is being captured."""


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
erf = _unary("erf", "erf", "the error function")


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


@operator("relu")
def relu(x: Array) -> Array:
    """Return x where it is positive, else 0; its derivative at 0 is 0."""
    return tracer.binary("max", 0, x)


@operator("sigmoid")
def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + exp(-x)); floats of 16 bits are computed in f32 and rounded once."""
    wide, dtype = widened(x)
    decay = tracer.unary("exp", _below(wide))
    return (tracer.select(wide > 0.0, 1.0, decay) * _reciprocal(1.0 + decay)).astype(dtype)


@operator("silu")
def silu(x: Array) -> Array:
    """Return x * sigmoid(x) (Elfwing et al. 2018, "swish")."""
    wide, dtype = widened(x)
    # max(x, 0) - |x| sigmoid(-|x|), where |x| ends at a bound: an infinity meets no derivative that is 0.
    near = tracer.binary("max", _below(wide), -LOGISTIC_BOUND)
    decay = tracer.unary("exp", near)
    return (tracer.binary("max", 0.0, wide) + near * (decay * _reciprocal(1.0 + decay))).astype(dtype)


@operator("gelu")
def gelu(x: Array, approximate: str = "none") -> Array:
    """Return x times the normal distribution function of x (Hendrycks and Gimpel 2016).

    approximate: "none", or "tanh" for 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))).  Raises OperandMismatch for
    another name.
    """
    if approximate not in ("none", "tanh"):
        raise OperandMismatch(f"gelu has no approximation {approximate!r}", hint='choose "none" or "tanh"')
    wide, dtype = widened(x)
    if approximate == "tanh":
        inner = math.sqrt(2 / math.pi) * (wide + 0.044715 * (wide * wide * wide))
        made = 0.5 * wide * (1.0 + tracer.unary("tanh", inner))
    else:
        made = 0.5 * wide * (1.0 + tracer.unary("erf", wide * math.sqrt(0.5)))
    return made.astype(dtype)


@operator("softplus")
def softplus(x: Array) -> Array:
    """Return log(1 + exp(x)) without overflow or cancellation: max(x, 0) + log1p(exp(-|x|))."""
    wide, dtype = widened(x)
    return (tracer.binary("max", 0.0, wide) + _log1p_of_fraction(tracer.unary("exp", _below(wide)))).astype(dtype)


def _below(x: Tracer) -> Tracer:
    """Return -|x|, whose derivative at 0 is that of x: beside `max(0, x)`, whose own is 0 there."""
    return tracer.binary("min", x, -x)


def _reciprocal(x: Tracer) -> Tracer:
    """Return one over numbers from 1 to 2, for which no target has to look for anything else."""
    return apply_expr(apply("div", Literal(1.0, x.dtype), Argument(0, x.dtype), predicate=IN_RANGE), [x])


def _log1p_of_fraction(x: Tracer) -> Tracer:
    """Return log(1 + x) for x in [0, 1] with all digits of a small x: what 1 + x loses is added at first order.

    Compensated as by Kahan: with u = 1 + x rounded, x - (u - 1) is exact, and log(1 + x) = log(u) + (x - (u - 1)) / u
    up to its square.
    """
    rounded = 1.0 + x
    return tracer.unary("log", rounded) + (x - (rounded - 1.0)) * _reciprocal(rounded)
