"""NumPy's universal functions under its names: Python's operators, parts of floats, divisors, bits, vector products."""

import math
from collections.abc import Mapping, Sequence
from typing import Final

from tessera.core.arrays.array_methods import Array
from tessera.core.arrays.numpy_functions import ARITHMETIC, COMPARISONS
from tessera.core.base.dtypes import bf16, f64, i32, i64, u8, u64
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.build import broadcast_shape
from tessera.core.graph.expr import Number
from tessera.core.graph.graph import Routine, Tensor
from tessera.core.program.program import Attribute
from tessera.graphs import tracer
from tessera.graphs.custom import traced_adjoint
from tessera.graphs.function import GraphFunction, operator
from tessera.graphs.trace import trace_of
from tessera.graphs.tracer import Tracer, as_tracer
from tessera.ops.definitions.arithmetic import copysign, floor_divide, mod, power
from tessera.ops.definitions.arrays import broadcast_to
from tessera.ops.definitions.complex_arrays import Complex
from tessera.ops.definitions.einsum import einsum
from tessera.ops.definitions.elementwise import round_, trunc
from tessera.ops.definitions.floats import float_dtype, widened, widened_pair
from tessera.ops.elementary.inverse_hyperbolic import arccosh, arcsinh, arctanh
from tessera.ops.elementary.inverse_trigonometric import arccos, arcsin, arctan, arctan2, degrees, radians
from tessera.ops.libraries import universal

_Options = Mapping[str, Attribute]
NUMPY_NAMES: Final = frozenset((
    "absolute", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and", "bitwise_count",
    "bitwise_invert", "bitwise_left_shift", "bitwise_not", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "conj",
    "conjugate", "deg2rad", "divide", "divmod", "equal", "fabs", "float_power", "frexp", "gcd", "greater",
    "greater_equal", "invert", "lcm", "ldexp", "left_shift", "less", "less_equal", "matvec", "modf", "multiply",
    "negative", "nextafter", "not_equal", "positive", "pow", "rad2deg", "right_shift", "rint", "spacing", "subtract",
    "true_divide", "vecdot", "vecmat",
))  # fmt: skip
"""Operators that are here for code written for NumPy: cells call them with `op.`, as their names are a user's own."""
acos, acosh, asin, asinh, atan, atan2, atanh = arccos, arccosh, arcsin, arcsinh, arctan, arctan2, arctanh
deg2rad, rad2deg, pow_ = radians, degrees, power


def _of_two(name: str, sign: str) -> GraphFunction[[Array | Number, Array | Number], Array]:
    """Return an operator of Python's arithmetic or comparisons under NumPy's name for it."""

    def definition(a: Array | Number, b: Array | Number) -> Array:
        if name in COMPARISONS:
            return tracer.compare(COMPARISONS[name], a, b)
        return tracer.binary(ARITHMETIC[name], a, b)

    definition.__name__ = name
    definition.__doc__ = f"""Return `a {sign} b`, element by element, broadcast together.  Raises OperandMismatch."""
    return operator(name)(definition)


add, subtract, multiply = _of_two("add", "+"), _of_two("subtract", "-"), _of_two("multiply", "*")
divide = true_divide = _of_two("divide", "/")
bitwise_and, bitwise_or = _of_two("bitwise_and", "&"), _of_two("bitwise_or", "|")
bitwise_xor = _of_two("bitwise_xor", "^")
left_shift = bitwise_left_shift = _of_two("left_shift", "<<")
right_shift = bitwise_right_shift = _of_two("right_shift", ">>")
less, less_equal = _of_two("less", "<"), _of_two("less_equal", "<=")
greater, greater_equal = _of_two("greater", ">"), _of_two("greater_equal", ">=")
equal, not_equal = _of_two("equal", "=="), _of_two("not_equal", "!=")


@operator("negative")
def negative(x: Array) -> Array:
    """Return -x."""
    return -as_tracer(x)


@operator("positive")
def positive(x: Array) -> Array:
    """Return x, as `+x`."""
    return as_tracer(x)


@operator("invert")
def invert(x: Array) -> Array:
    """Return `~x`: of integers all bits the other way, of bools the other one.  Raises OperandMismatch for floats."""
    value = as_tracer(x)
    if value.dtype.is_float:
        raise OperandMismatch(
            f"bits of integers are inverted, not of {value.dtype}", hint="convert with .astype('i32')"
        )
    return ~value


bitwise_not = bitwise_invert = invert


@operator("fabs")
def fabs(x: Array) -> Array:
    """Return the absolute value as a float; integers give f32."""
    wide, dtype = widened(x)
    return abs(wide).astype(dtype)


@operator("rint")
def rint(x: Array) -> Array:
    """Return the whole number nearest to x, the even one of two, as a float; integers give f32."""
    wide, dtype = widened(x)
    return round_(wide).astype(dtype)


@operator("conjugate")
def conjugate(x: Array | Complex) -> Array | Complex:
    """Return the complex conjugate: of an `op.Complex` with the other imaginary part, of real numbers themselves."""
    return x.conjugate() if isinstance(x, Complex) else as_tracer(x)


conj = conjugate


@operator("float_power")
def float_power(a: Array | Number, b: Array | Number) -> Array:
    """Return a to the power of b in f64, whatever the operands are, as NumPy."""
    trace = trace_of(a, b)
    return tracer.binary("pow", as_tracer(a, trace).astype(f64), as_tracer(b, trace).astype(f64))


@operator("divmod")
def divmod_(a: Array | Number, b: Array | Number) -> tuple[Array, Array]:
    """Return `a // b` and `a % b`."""
    return floor_divide(a, b), mod(a, b)


@operator("modf")
def modf(x: Array) -> tuple[Array, Array]:
    """Return x without its whole part, and that part, both with the sign of x; of infinities 0; integers give f32."""
    wide, dtype = widened(x)
    integral = trunc(wide)
    fraction = tracer.select(abs(wide) == math.inf, 0.0, wide - integral)
    return copysign(fraction, wide).astype(dtype), integral.astype(dtype)


# Parts of floats


@operator("frexp")
def frexp(x: Array) -> tuple[Array, Array]:
    """Return m and e, i32, with x = m * 2^e and |m| in [0.5, 1), as NumPy; integers give f32.

    0, infinities and NaN are their own m, with e = 0.  The derivative of m is 2^-e.  A call of NumPy or CuPy.
    Raises LibraryMissing on a GPU without CuPy.
    """
    wide, dtype = widened(x)
    # CuPy takes denormal numbers of f32 for 0; in f64 they are none.
    significand, exponent = _called(_FREXP, [wide.astype(f64)])
    return significand.astype(dtype), exponent


@operator("ldexp")
def ldexp(x: Array | Number, n: Array | Number) -> Array:
    """Return x * 2^n, rounded once; n: integers.  Its derivative by x is 2^n.  A call of NumPy or CuPy.

    Raises OperandMismatch for an n of floats and shapes that do not broadcast, LibraryMissing on a GPU without CuPy.
    """
    trace = trace_of(x, n)
    wide, dtype = widened(x, trace)
    exponents = as_tracer(n, trace)
    if not exponents.dtype.is_integer:
        raise OperandMismatch(f"a power of two is shifted by integers, not {exponents.dtype}", hint="write x * 2.0**n")
    (scaled,) = _called(_LDEXP, _together([wide.astype(f64), exponents.astype(i32)]))
    return scaled.astype(dtype)


@operator("nextafter")
def nextafter(x: Array | Number, y: Array | Number) -> Array:
    """Return the float next to x on the way to y, in the dtype in which they meet; y where they are equal.

    Integers give f32.  It has no derivative.  A call of NumPy or CuPy.
    Raises OperandMismatch for shapes that do not broadcast, LibraryMissing on a GPU without CuPy.
    """
    return _next_after(x, y)[1]


@operator("spacing")
def spacing(x: Array) -> Array:
    """Return the distance to the next float away from 0, with the sign of x; NaN of infinities; integers give f32.

    It has no derivative.  A call of NumPy or CuPy.  Raises LibraryMissing on a GPU without CuPy.
    """
    start = as_tracer(x)
    outward = tracer.select(start < 0, -math.inf, math.inf).astype(float_dtype(start.dtype))
    value, further = _next_after(start, outward)
    wide, dtype = widened(value)
    return (further.astype(wide.dtype) - wide).astype(dtype)


def _next_after(x: object, y: object) -> tuple[Tracer, Tracer]:
    """Return x in the dtype in which it meets y, and the float beside it."""
    first, second, dtype = widened_pair(x, y)
    # NumPy and CuPy have no bf16: it is the upper half of f32.
    held = first.dtype if dtype == bf16 else dtype
    operands = _together([first.astype(dtype).astype(held), second.astype(dtype).astype(held)])
    (neighbor,) = _called(_NEXTAFTER, operands, step=1 << 16 if dtype == bf16 else 1)
    return operands[0].astype(dtype), neighbor.astype(dtype)


# Integers


@operator("gcd")
def gcd(a: Array | Number, b: Array | Number) -> Array:
    """Return the greatest common divisors of integers, element by element; 0 of two zeros.  A call of NumPy or CuPy.

    Raises OperandMismatch for floats and shapes that do not broadcast, LibraryMissing on a GPU without CuPy.
    """
    return _of_integers("gcd", a, b)


@operator("lcm")
def lcm(a: Array | Number, b: Array | Number) -> Array:
    """Return the least common multiples of integers, element by element; 0 beside 0.  A call of NumPy or CuPy.

    Raises OperandMismatch for floats and shapes that do not broadcast, LibraryMissing on a GPU without CuPy.
    """
    return _of_integers("lcm", a, b)


def _of_integers(name: str, a: object, b: object) -> Tracer:
    x, y = _met(a, b)
    if not x.dtype.is_integer:
        raise OperandMismatch(f"{name} takes integers, not {x.dtype}", hint="convert with .astype('i64')")
    (result,) = _called(_OF_INTEGERS[name], _together([x, y]))
    return result


def _met(a: object, b: object) -> tuple[Tracer, Tracer]:
    """Return two operands in the dtype in which they meet; Python numbers take that of the array beside them."""
    zero = tracer.binary("mul", b, 0) if isinstance(a, int | float) else tracer.binary("mul", a, 0)
    return tracer.binary("add", a, zero), tracer.binary("add", b, zero)


@operator("bitwise_count")
def bitwise_count(x: Array) -> Array:
    """Return how many bits of |x| are 1, as u8 (NumPy 2's `bitwise_count`).  Raises OperandMismatch for floats.

    Pairs of bits are added in place, then groups of 4 and 8, whose counts a product adds up in the highest byte.
    """
    value = as_tracer(x)
    if value.dtype.is_float:
        raise OperandMismatch(f"bits of integers are counted, not of {value.dtype}", hint="convert with .astype('i64')")
    # In 64 bits: -128 of i8 has no absolute value in i8.
    bits = (abs(value.astype(i64)) if value.dtype.kind == "int" else value).astype(u64)
    bits = bits - ((bits >> 1) & 0x5555555555555555)
    bits = (bits & 0x3333333333333333) + ((bits >> 2) & 0x3333333333333333)
    bits = (bits + (bits >> 4)) & 0x0F0F0F0F0F0F0F0F
    return ((bits * 0x0101010101010101) >> 56).astype(u8)


# Products of vectors


@operator("vecdot")
def vecdot(a: Array, b: Array) -> Array:
    """Return the sums of products along the last axis, which both have; the others are broadcast together."""
    return einsum("...n,...n->...", a, b)


@operator("matvec")
def matvec(a: Array, x: Array) -> Array:
    """Return the products of matrices [..., m, n] and vectors [..., n], broadcast together: [..., m]."""
    return einsum("...mn,...n->...m", a, x)


@operator("vecmat")
def vecmat(x: Array, a: Array) -> Array:
    """Return the products of vectors [..., m] and matrices [..., m, n], broadcast together: [..., n]."""
    return einsum("...m,...mn->...n", x, a)


# Calls


def _together(operands: Sequence[Tracer]) -> list[Tracer]:
    """Return operands broadcast together.  Raises OperandMismatch."""
    shapes = [each.shape for each in operands]
    try:
        shape = broadcast_shape(shapes)
    except ValueError as wrong:
        message = f"{' and '.join(map(str, shapes))} do not broadcast together"
        raise OperandMismatch(message, hint="insert axes with x[:, None]") from wrong
    return [each if each.shape == shape else broadcast_to(each, shape) for each in operands]


def _called(routine: Routine, operands: Sequence[Tracer], **attributes: Attribute) -> list[Tracer]:
    first = operands[0]
    return list(map(first.of, first.trace.builder.call(routine, [each.value for each in operands], **attributes)))


def _as_first(types: Sequence[Tensor], _: _Options) -> list[Tensor]:
    return [types[0]]


def _with_exponents(types: Sequence[Tensor], _: _Options) -> list[Tensor]:
    return [types[0], Tensor(i32, types[0].shape)]


def _scaled(x: Tracer, exponents: Tracer) -> Tracer:
    return _called(_LDEXP, [x, exponents])[0]


def _pull_frexp(inputs: Sequence[Tracer], outputs: Sequence[Tracer], cotangents: Sequence[Tracer]) -> object:
    del inputs
    return _scaled(cotangents[0], -outputs[1])


def _pull_ldexp(inputs: Sequence[Tracer], outputs: Sequence[Tracer], cotangents: Sequence[Tracer]) -> object:
    del outputs
    return _scaled(cotangents[0], inputs[1]), None


_LIBRARIES: Final = "NumPy, CuPy"
_FREXP: Final = Routine("frexp", _LIBRARIES, _with_exponents, universal.frexp, adjoint=traced_adjoint(_pull_frexp))
_LDEXP: Final = Routine("ldexp", _LIBRARIES, _as_first, universal.ldexp, adjoint=traced_adjoint(_pull_ldexp))
_NEXTAFTER: Final = Routine("nextafter", _LIBRARIES, _as_first, universal.nextafter)
_OF_INTEGERS: Final = {
    "gcd": Routine("gcd", _LIBRARIES, _as_first, universal.gcd),
    "lcm": Routine("lcm", _LIBRARIES, _as_first, universal.lcm),
}
