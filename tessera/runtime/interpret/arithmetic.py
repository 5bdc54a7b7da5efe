"""Element-wise operations of `core/program/spec.py` in NumPy, on values of any shape.

Operands and results are NumPy arrays (0-d for a uniform scalar) in the operation's own dtype.  Floats of 16 bits
compute in f32 and round back, which is one rounding (24 >= 2 * 11 + 2 bits); transcendental functions compute in f64.
"""

import math
from collections.abc import Callable
from typing import Final

import numpy as np

from tessera.core.base.dtypes import DType, boolean, f64
from tessera.runtime.interpret.rounding import Numbers, to_dtype

PREDICATES: Final[dict[str, Callable[..., Numbers]]] = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip


def constant(value: float | bool | np.generic, dtype: DType) -> Numbers:
    """Return a number as a 0-d array of `dtype`: floats round to nearest, integers wrap."""
    if dtype.is_float:
        return to_dtype(np.asarray(float(value)), dtype)
    if dtype == boolean:
        return np.asarray(bool(value))
    wrapped = int(value) & ((1 << dtype.bits) - 1)
    return np.asarray(wrapped, dtype=f"u{dtype.bytes}").view(dtype.numpy)


def widen(values: Numbers) -> Numbers:
    """Return 16-bit floats as f32, anything else as it is."""
    values = np.asarray(values)
    return values if values.dtype.kind in "biu" or values.dtype.itemsize > 2 else values.astype(np.float32)


def cast(values: Numbers, target: DType) -> Numbers:
    """Convert: to a float to nearest even, float to integer truncating and saturating (NaN gives 0), else wrapping."""
    values = np.asarray(values)
    if target.is_float:
        return to_dtype(widen(values), target)
    if values.dtype.kind in "biu" or target == boolean:
        return values != 0 if target == boolean else values.astype(target.numpy)
    limits = np.iinfo(target.numpy)
    wide = np.trunc(np.nan_to_num(values.astype(np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf))
    # Both limits + 1 and the lower limit are exact in f64; the upper limit of 64 bits is not.
    above, below = wide >= float(limits.max) + (0 if target.bits == 64 else 1), wide < float(limits.min)
    middle = np.where(above | below, 0.0, wide).astype(target.numpy)
    return np.where(above, limits.max, np.where(below, limits.min, middle)).astype(target.numpy)


def binary(opcode: str, a: Numbers, b: Numbers, dtype: DType) -> Numbers:
    """Apply one of the spec's BINARY operations."""
    if dtype.is_float:
        return to_dtype(_FLOAT_BINARY[opcode](widen(a), widen(b)), dtype)
    return np.asarray(_INTEGER_BINARY[opcode](np.asarray(a), np.asarray(b))).astype(dtype.numpy, copy=False)


def unary(opcode: str, a: Numbers, dtype: DType) -> Numbers:
    """Apply one of the spec's UNARY operations."""
    a = np.asarray(a)
    if opcode in _EXACT_UNARY:
        exact = _EXACT_UNARY[opcode]
        return to_dtype(exact(widen(a)), dtype) if dtype.is_float else np.asarray(exact(a)).astype(dtype.numpy)
    return to_dtype(_REAL_UNARY[opcode](a.astype(f64.numpy)), dtype)


def compare(predicate: str, a: Numbers, b: Numbers) -> Numbers:
    """Compare; a NaN is unequal to everything."""
    return PREDICATES[predicate](widen(a), widen(b))


def greatest(a: Numbers, b: Numbers) -> Numbers:
    """Return the greater float: NaN wins, and of two zeros +0 does (NumPy leaves that to the processor)."""
    return np.where((a == 0) & (b == 0), a + b, np.maximum(a, b))


def least(a: Numbers, b: Numbers) -> Numbers:
    """Return the lesser float: NaN wins, and of two zeros -0 does."""
    return -greatest(-a, -b)


def _power_real(a: Numbers, b: Numbers) -> Numbers:
    return np.power(a.astype(np.float64), b.astype(np.float64))


def _divide_or_zero(divide: Callable[..., Numbers]) -> Callable[..., Numbers]:
    def guarded(a: Numbers, b: Numbers) -> Numbers:
        zero = b == 0
        return np.where(zero, 0, divide(a, np.where(zero, 1, b).astype(b.dtype)))

    return guarded


def _truncated_divide(a: Numbers, b: Numbers) -> Numbers:
    quotient = np.floor_divide(a, b)
    inexact = quotient * b != a
    return quotient + (inexact & ((a < 0) != (b < 0))).astype(quotient.dtype)


def _power_integer(a: Numbers, b: Numbers) -> Numbers:
    """Compute wrapping powers; negative exponents give what truncating 1 / a**-b gives (0 but for a = 1 and a = -1)."""
    a, b = np.broadcast_arrays(a, b)
    result, base, left = np.ones_like(a), a.copy(), np.where(b < 0, 0, b)
    while np.any(left > 0):
        result = np.where(left & 1 == 1, result * base, result)
        base, left = base * base, left >> 1
    if b.dtype.kind == "u":
        return result
    odd = (b & 1) == 1
    inverse = np.where(a == 1, 1, np.where(a == -1, np.where(odd, -1, 1), 0)).astype(a.dtype)
    return np.where(b < 0, inverse, result)


def _upper_half(a: Numbers, b: Numbers) -> Numbers:
    """Compute the upper half of exact products, of 64 bits with Python's integers."""
    bits = a.dtype.itemsize * 8
    if bits < 64:
        kind = np.uint64 if a.dtype.kind == "u" else np.int64
        return (a.astype(kind) * b.astype(kind) >> kind(bits)).astype(a.dtype)
    product = np.asarray(a.astype(object) * b.astype(object), dtype=object)
    return np.asarray(product >> bits, dtype=object).astype(a.dtype)


def _shift(left: bool) -> Callable[..., Numbers]:
    def shift(a: Numbers, b: Numbers) -> Numbers:
        width = a.dtype.itemsize * 8
        outside = (b < 0) | (b >= width)
        amount = np.where(outside, width - 1, b).astype(a.dtype)
        if left:
            return np.where(outside, 0, a << amount)
        # All bits but the sign are gone after width - 1 places.
        return np.where(outside, (a >> amount) if a.dtype.kind == "i" else 0, a >> amount)

    return shift


def _reciprocal_root(a: Numbers) -> Numbers:
    return 1.0 / np.sqrt(a)


def _erf(a: Numbers) -> Numbers:
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(a)).astype(np.float64)


_FLOAT_BINARY: Final[dict[str, Callable[..., Numbers]]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "floordiv": np.floor_divide,
    "mod": np.mod, "min": least, "max": greatest, "pow": _power_real,
}  # fmt: skip
_INTEGER_BINARY: Final[dict[str, Callable[..., Numbers]]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": _divide_or_zero(_truncated_divide),
    "floordiv": _divide_or_zero(np.floor_divide), "mod": _divide_or_zero(np.mod), "min": np.minimum, "max": np.maximum,
    "pow": _power_integer, "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
    "shl": _shift(left=True), "shr": _shift(left=False), "mulhi": _upper_half,
}  # fmt: skip
_EXACT_UNARY: Final[dict[str, Callable[..., Numbers]]] = {
    "neg": np.negative, "not": np.invert, "abs": np.abs, "floor": np.floor, "ceil": np.ceil,
}  # fmt: skip
_REAL_UNARY: Final[dict[str, Callable[..., Numbers]]] = {
    "exp": np.exp, "exp2": np.exp2, "log": np.log, "log2": np.log2, "sqrt": np.sqrt,
    "rsqrt": _reciprocal_root, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "erf": _erf,
}  # fmt: skip
