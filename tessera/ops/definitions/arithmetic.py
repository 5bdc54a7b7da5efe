"""NumPy's functions of numbers: quotients, remainders, powers, signs, tests of floats, logic."""

import math
from typing import Final, cast

import ml_dtypes

from tessera.core.arrays.array_methods import Array
from tessera.core.base.dtypes import boolean
from tessera.core.graph.expr import Argument, Literal, Number, apply
from tessera.graphs import tracer
from tessera.graphs.function import operator
from tessera.graphs.trace import trace_of
from tessera.graphs.tracer import Tracer, apply_expr, as_tracer
from tessera.ops.definitions.floats import widened, widened_pair

_SQUARES: Final = {32: (2.0**60, 2.0**-70, 2.0**90), 64: (2.0**500, 2.0**-600, 2.0**600)}
"""By the bits of a float: the bound above which squares need a scale, as below its inverse, and the scales of large and
of small numbers: powers of two, which round nothing."""


@operator("tan")
def tan(x: Array) -> Array:
    """Return the tangent, sin(x) / cos(x), up to three units in the last place; integers give f32."""
    wide, dtype = widened(x)
    return (tracer.unary("sin", wide) / tracer.unary("cos", wide)).astype(dtype)


@operator("reciprocal")
def reciprocal(x: Array) -> Array:
    """Return 1 / x; integers give f32, where NumPy's quotients of them are whole numbers."""
    return tracer.binary("div", 1.0, x)


@operator("power")
def power(a: Array | Number, b: Array | Number) -> Array:
    """Return a to the power of b, element by element, as `a ** b`.  Raises OperandMismatch for shapes that differ."""
    return tracer.binary("pow", a, b)


@operator("mod")
def mod(a: Array | Number, b: Array | Number) -> Array:
    """Return what a leaves when it is divided by b, with the sign of b, as `a % b`; of integers 0 where b is 0."""
    return tracer.binary("mod", a, b)


@operator("remainder")
def remainder(a: Array | Number, b: Array | Number) -> Array:
    """Return `op.mod(a, b)`, under the other name that NumPy has for it."""
    return tracer.binary("mod", a, b)


@operator("floor_divide")
def floor_divide(a: Array | Number, b: Array | Number) -> Array:
    """Return the largest whole number that is not above a / b, as `a // b`; of integers 0 where b is 0.

    Its derivatives are 0.
    """
    return tracer.binary("floordiv", a, b)


@operator("hypot")
def hypot(a: Array | Number, b: Array | Number) -> Array:
    """Return sqrt(a^2 + b^2), element by element, where no square overflows or vanishes; of an infinity, infinity.

    Derivatives are a / hypot and b / hypot; both are 0 where a and b are, and by an infinity 1 or -1.  Integers give
    f32.  Raises OperandMismatch for shapes that do not broadcast.
    """
    x, y, dtype = widened_pair(a, b)
    bound, down, up = _SQUARES[x.dtype.bits]
    a_infinite, b_infinite = tracer.compare("eq", abs(x), math.inf), tracer.compare("eq", abs(y), math.inf)
    x1, y1 = (tracer.select(a_infinite | b_infinite, 1.0, v) for v in (x, y))
    top = tracer.binary("max", abs(x1), abs(y1))
    scale, unscale = _chosen_scale(top, bound, down, up), _chosen_scale(top, bound, 1.0 / down, 1.0 / up)
    x1, y1 = x1 * scale, y1 * scale
    total = x1 * x1 + y1 * y1
    is_zero = total == 0.0
    root = tracer.unary("sqrt", tracer.select(is_zero, 1.0, total)) * unscale
    finite = tracer.select(is_zero, 0.0, root)
    return tracer.select(a_infinite, abs(x), tracer.select(b_infinite, abs(y), finite)).astype(dtype)


def _chosen_scale(x: Tracer, bound: float, large: float, small: float) -> Tracer:
    """Return one number where x is above a bound, another where it is below its inverse, else 1; derivatives are 0."""
    a, one = Argument(0, x.dtype), Literal(1.0, x.dtype)
    is_small = apply("cmp", a, Literal(1.0 / bound, x.dtype), predicate="lt")
    is_large = apply("cmp", a, Literal(bound, x.dtype), predicate="gt")
    inner = apply("select", is_small, Literal(small, x.dtype), one)
    return apply_expr(apply("select", is_large, Literal(large, x.dtype), inner), [x])


@operator("copysign")
def copysign(a: Array | Number, b: Array | Number) -> Array:
    """Return |a| with the sign of b, that of a zero too; NaN counts as positive, whatever its bits.

    Its derivative by a is 1 or -1, and 0 at 0; by b it is 0.  Integers give f32.
    """
    x, y, dtype = widened_pair(a, b)
    return tracer.select(is_negative(y), -abs(x), abs(x)).astype(dtype)


def is_negative(x: Tracer) -> Tracer:
    """Return whether a float is below 0, or -0.0: it equals 0.0, and its reciprocal does not.  NaN never is."""
    zero = tracer.compare("lt", tracer.binary("div", 1.0, tracer.select(x == 0.0, x, 1.0)), 0.0)
    return (x < 0.0) | zero


@operator("signbit")
def signbit(x: Array) -> Array:
    """Return whether an element is below 0 or -0.0, as bools; NaN counts as positive, whatever its bits."""
    value = as_tracer(x)
    return is_negative(widened(value)[0]) if value.dtype.is_float else value < 0


@operator("fmod")
def fmod(a: Array | Number, b: Array | Number) -> Array:
    """Return what a leaves when it is divided by b, with the sign of a, as C has it; NaN where b is 0.

    Its derivative by a is 1, by b what a / b is without its fraction, negated.  Integers give f32.
    """
    x, y, dtype = widened_pair(a, b)
    remainder_of_sizes = tracer.binary("mod", abs(x), abs(y))
    return tracer.select(is_negative(x), -remainder_of_sizes, remainder_of_sizes).astype(dtype)


@operator("fmax")
def fmax(a: Array | Number, b: Array | Number) -> Array:
    """Return the greater of two, element by element; of a number and NaN the number."""
    return _number_of_two("max", a, b)


@operator("fmin")
def fmin(a: Array | Number, b: Array | Number) -> Array:
    """Return the lesser of two, element by element; of a number and NaN the number."""
    return _number_of_two("min", a, b)


def _number_of_two(opcode: str, a: Array | Number, b: Array | Number) -> Tracer:
    """Return the extreme of two, which is not NaN where one is not."""
    x, y = (tracer.binary(opcode, first, second) for first, second in ((a, a), (b, b)))
    extreme = tracer.binary(opcode, a, b)
    return tracer.select(x != x, b, tracer.select(y != y, a, extreme))  # noqa: PLR0124 - NaN equals nothing


@operator("heaviside")
def heaviside(x: Array | Number, at_zero: Array | Number) -> Array:
    """Return 0 below 0, 1 above, and `at_zero` at 0; NaN stays NaN.  Its derivative by x is 0.  Integers give f32."""
    value, middle, dtype = widened_pair(x, at_zero)
    step = tracer.select(value > 0.0, 1.0, value * 0.0)
    return tracer.select(value == 0.0, middle, tracer.select(value < 0.0, 0.0, step)).astype(dtype)


@operator("nan_to_num")
def nan_to_num(x: Array, *, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Array:
    """Return x, but `nan` for NaN, `posinf` for infinity and `neginf` for -infinity.

    posinf, neginf: None: the largest and the least number of x's dtype.  Integers stay.  The derivative is 0 where an
    element is replaced.
    """
    value = as_tracer(x)
    if not value.dtype.is_float:
        return value
    wide, dtype = widened(value)
    largest = float(cast("float", ml_dtypes.finfo(value.dtype.numpy).max))  # pyright: ignore[reportUnknownMemberType]
    highest, lowest = largest if posinf is None else posinf, -largest if neginf is None else neginf
    above, under = wide == math.inf, wide == -math.inf
    finite = tracer.select(above, highest, tracer.select(under, lowest, wide))
    return tracer.select(wide == wide, finite, nan).astype(dtype)  # noqa: PLR0124 - NaN equals nothing


@operator("isnan")
def isnan(x: Array) -> Array:
    """Return whether an element is NaN, as bools; no integer is."""
    value = as_tracer(x)
    return tracer.compare("ne", value, value)


@operator("isinf")
def isinf(x: Array) -> Array:
    """Return whether an element is infinite, of either sign, as bools; no integer is."""
    value = as_tracer(x)
    return tracer.compare("eq", abs(value), math.inf) if value.dtype.is_float else tracer.compare("ne", value, value)


@operator("isfinite")
def isfinite(x: Array) -> Array:
    """Return whether an element is neither infinite nor NaN, as bools; every integer is."""
    value = as_tracer(x)
    return tracer.compare("lt", abs(value), math.inf) if value.dtype.is_float else tracer.compare("eq", value, value)


@operator("logical_and")
def logical_and(a: Array | Number, b: Array | Number) -> Array:
    """Return whether both are true, element by element, as bools: what is not 0 is true, NaN too."""
    trace = trace_of(a, b)
    return _truth(as_tracer(a, trace)) & _truth(as_tracer(b, trace))


@operator("logical_or")
def logical_or(a: Array | Number, b: Array | Number) -> Array:
    """Return whether either is true, element by element, as bools: what is not 0 is true, NaN too."""
    trace = trace_of(a, b)
    return _truth(as_tracer(a, trace)) | _truth(as_tracer(b, trace))


@operator("logical_xor")
def logical_xor(a: Array | Number, b: Array | Number) -> Array:
    """Return whether just one is true, element by element, as bools: what is not 0 is true, NaN too."""
    trace = trace_of(a, b)
    return _truth(as_tracer(a, trace)) ^ _truth(as_tracer(b, trace))


@operator("logical_not")
def logical_not(x: Array) -> Array:
    """Return whether an element is 0 or False, as bools."""
    value = as_tracer(x)
    return ~value if value.dtype == boolean else value == 0


def _truth(x: Tracer) -> Tracer:
    return x if x.dtype == boolean else tracer.compare("ne", x, 0)
