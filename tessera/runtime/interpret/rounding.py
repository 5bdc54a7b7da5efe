"""Correctly rounded conversions and fused multiply-adds, which NumPy does not have.

The tool is rounding to odd (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms
using rounding to odd", IEEE Trans. Computers 57(4), 2008): an inexact result becomes the neighbour whose last bit is
1.  Rounding that once more, to a format at least two bits shorter, gives what one rounding of the exact value gives.
"""

import math
from fractions import Fraction
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tessera.core.base.dtypes import DType, bf16, f64

Numbers: TypeAlias = NDArray[Any]  # of the dtype that the Program's value has
"""Values in the interpreter: NumPy arrays of any shape, 0-d ones and NumPy scalars included."""

# Where the product of two f64 is split into two f64 without underflow, and nothing overflows on the way.
_SMALLEST_PRODUCT: Final = 2.0**-960
_LARGEST: Final = 2.0**990


def to_dtype(values: Numbers, dtype: DType) -> Numbers:
    """Round real numbers (f64, f32 or integers) once, to nearest even, to the float type `dtype`."""
    values = np.asarray(values)
    if not (dtype == bf16 or dtype.is_storage) or values.dtype == np.float32:
        with np.errstate(invalid="ignore"):  # a NaN may lose its payload
            return values.astype(dtype.numpy, copy=False)
    if values.dtype.kind in "iu":
        values = _integers_to_odd(values)
    # ml_dtypes goes from f64 to its types through f32, which would round twice.
    with np.errstate(invalid="ignore"):
        return _to_odd_f32(values.astype(np.float64)).astype(dtype.numpy)


def to_tf32(values: Numbers) -> Numbers:
    """Round f32 to 10 bits of mantissa, to nearest even; infinities and NaN stay as they are."""
    bits = np.asarray(values, np.float32).view(np.uint32)
    with np.errstate(over="ignore"):  # of a NaN, which stays
        rounded = (bits + 0xFFF + (bits >> 13 & 1)) & 0xFFFFE000
    return np.where(np.isfinite(values), rounded, bits).astype(np.uint32).view(np.float32)


def fma(a: Numbers, b: Numbers, c: Numbers, dtype: DType) -> Numbers:
    """Return a * b + c rounded once to `dtype`, element by element; all three are of type `dtype`."""
    if not dtype.is_float:
        return a * b + c
    if dtype == f64:
        return _fma_f64(*np.broadcast_arrays(a, b, c))
    # A product of two f32 (or shorter) numbers is exact in f64.
    wide = [np.asarray(x).astype(np.float64) for x in (a, b, c)]
    return to_dtype(odd_sum(wide[0] * wide[1], wide[2]), dtype)


def odd_sum(a: Numbers, b: Numbers) -> Numbers:
    """Return a + b rounded to odd; both f64."""
    total, error = _two_sum(np.asarray(a), np.asarray(b))
    bits = np.asarray(total).view(np.int64)
    step = np.where((error > 0) == (total > 0), 1, -1)
    adjust = np.isfinite(total) & (error != 0) & ((bits & 1) == 0)
    return np.where(adjust, bits + step, bits).view(np.float64)


def _two_sum(a: Numbers, b: Numbers) -> tuple[Numbers, Numbers]:
    """Return the rounded sum and its exact error (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _two_product(a: Numbers, b: Numbers) -> tuple[Numbers, Numbers]:
    """Return the rounded product and its exact error (Dekker, with Veltkamp's splitting)."""
    product = a * b
    a_high, a_low = _split(a)
    b_high, b_low = _split(b)
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _split(a: Numbers) -> tuple[Numbers, Numbers]:
    scaled = a * 134217729.0  # 2**27 + 1
    high = scaled - (scaled - a)
    return high, a - high


def _fma_f64(a: Numbers, b: Numbers, c: Numbers) -> Numbers:
    product, low = _two_product(a, b)
    upper, upper_low = _two_sum(c, low)
    high, high_low = _two_sum(product, upper)
    result = np.asarray(high + odd_sum(high_low, upper_low))
    simple = (a == 0) | (b == 0) | ~np.isfinite(a) | ~np.isfinite(b)
    result = np.where(simple, a * b + c, result)
    result = np.where(~simple & ~np.isfinite(c), c, result)
    size = np.abs(product)
    safe = (size >= _SMALLEST_PRODUCT) & (size <= _LARGEST)
    for operand in (a, b, c):
        safe &= np.abs(operand) <= _LARGEST
    for where in np.argwhere(~simple & ~safe & np.isfinite(c)):
        place = tuple(where)
        result[place] = _exact_fma(float(a[place]), float(b[place]), float(c[place]))
    return result


def _exact_fma(a: float, b: float, c: float) -> float:
    """Return a * b + c rounded once, through fractions; the operands are finite."""
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return 0.0
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _to_odd_f32(values: NDArray[np.float64]) -> NDArray[np.float32]:
    rounded = values.astype(np.float32)
    back = rounded.astype(np.float64)
    bits = rounded.view(np.int32)
    step = np.where(np.abs(back) > np.abs(values), -1, 1).astype(np.int32)
    adjust = np.isfinite(rounded) & (back != values) & ((bits & 1) == 0)
    return np.where(adjust, bits + step, bits).view(np.float32)


def _integers_to_odd(values: Numbers) -> Numbers:
    """Return 64-bit integers as f64, those that need more than 53 bits rounded to odd (at bit 11)."""
    if values.dtype.itemsize < 8:
        return values.astype(np.float64)
    one = values.dtype.type(1)
    low = values & values.dtype.type(0x7FF)
    sticky = (values - low) | ((low != 0).astype(values.dtype) * (one << values.dtype.type(11)))
    small = np.abs(values.astype(np.float64)) < 2.0**52
    return np.where(small, values, sticky).astype(np.float64)
