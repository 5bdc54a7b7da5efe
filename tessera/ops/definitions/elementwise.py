"""Operators that work element by element."""

import math
from typing import Any

from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.expr import Number
from tessera.graphs import tracer
from tessera.graphs.function import GraphFunction, operator
from tessera.graphs.tracer import as_tracer
from tessera.ops.definitions.floats import widened

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
def clip(x: Array, low: Array | Number, high: Array | Number) -> Array:
    """Return x, but `low` where it is less and `high` where it is greater."""
    return tracer.binary("min", tracer.binary("max", x, low), high)


@operator("relu")
def relu(x: Array) -> Array:
    """Return x where it is positive, else 0."""
    return tracer.binary("max", x, 0)


@operator("sigmoid")
def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + exp(-x)); floats of 16 bits are computed in f32 and rounded once."""
    wide, dtype = widened(x)
    return (1.0 / (1.0 + tracer.unary("exp", -wide))).astype(dtype)


@operator("silu")
def silu(x: Array) -> Array:
    """Return x * sigmoid(x) (Elfwing et al. 2018, "swish")."""
    wide, dtype = widened(x)
    return (wide / (1.0 + tracer.unary("exp", -wide))).astype(dtype)


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
    """Return log(1 + exp(x)) without overflow: max(x, 0) + log(1 + exp(-|x|))."""
    wide, dtype = widened(x)
    tail = tracer.unary("log", 1.0 + tracer.unary("exp", -abs(wide)))
    return (tracer.binary("max", wide, 0.0) + tail).astype(dtype)
