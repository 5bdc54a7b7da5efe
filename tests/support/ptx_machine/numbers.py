"""Numbers as the hardware has them: types by their suffixes, and arithmetic that NumPy leaves open."""

import re
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, TypeAlias

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

DType: TypeAlias = np.dtype[Any]
Numbers: TypeAlias = NDArray[Any]

FLOATS: dict[str, Any] = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32, "f64": np.float64}
FACTORS = {**FLOATS, "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}
"""Types of the factors of matrix products."""


def is_type(part: str) -> bool:
    """Whether an instruction's suffix is a type."""
    return part in FLOATS or re.fullmatch(r"[busf]\d+", part) is not None


def type_of(part: str) -> DType:
    """The dtype of a suffix such as `u32` or `bf16`."""
    if part in FLOATS:
        return np.dtype(FLOATS[part])
    return np.dtype(f"{'i' if part[0] == 's' else 'u'}{int(part[1:]) // 8}")


def kind_of(parts: Sequence[str]) -> DType:
    """The last type among the instruction's suffixes, as a dtype."""
    return type_of(next(p for p in reversed(parts) if is_type(p)))


def fused(a: Numbers, b: Numbers, c: Numbers) -> Numbers:
    """a * b + c rounded once, for arrays of one float type."""
    dtype = a.dtype
    if dtype.itemsize == 8:
        return np.array([_fused_double(*map(float, v)) for v in zip(a, b, c, strict=True)], np.float64)
    with np.errstate(all="ignore"):
        product, addend = a.astype(np.float64) * b.astype(np.float64), c.astype(np.float64)
        total = product + addend
        virtual = total - product
        error = (product - (total - virtual)) + (addend - virtual)
        bits = total.view(np.int64)
        # Round to odd, so that rounding to the narrow type afterwards is the only rounding.
        fix = (error != 0) & np.isfinite(total) & ((bits & 1) == 0)
        away = (error > 0) == (total > 0)
        odd = np.where(fix, np.where(away, bits + 1, bits - 1), bits).view(np.float64)
        if dtype == np.float32:
            return odd.astype(np.float32)
        return odd.astype(dtype)


def _fused_double(a: float, b: float, c: float) -> float:
    if not (np.isfinite(a) and np.isfinite(b) and np.isfinite(c)):
        with np.errstate(all="ignore"):
            return float(np.float64(a) * np.float64(b) + np.float64(c))
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact == 0:
        return a * b + c
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return float("inf") if exact > 0 else float("-inf")


def extreme(
    parts: Sequence[str],
    a: Numbers,
    b: Numbers,
    with_nan: Callable[[Numbers, Numbers], Numbers],
    without_nan: Callable[[Numbers, Numbers], Numbers],
) -> Numbers:
    """`min` or `max`; -0 is below +0, which NumPy leaves open."""
    if a.dtype.kind in "iu":
        return with_nan(a, b)
    result = (with_nan if "NaN" in parts else without_nan)(a, b)
    zeros = (a == 0) & (b == 0)
    negative = np.signbit(a) & np.signbit(b) if with_nan is np.maximum else np.signbit(a) | np.signbit(b)
    return np.where(zeros, np.where(negative, -np.zeros_like(a), np.zeros_like(a)), result)


def truncate(a: Numbers, b: Numbers) -> tuple[Numbers, Numbers]:
    """Quotients and rests of integers, towards zero; 0 where something is divided by 0."""
    pairs = [(int(x), int(y)) for x, y in zip(a, b, strict=True)]
    quotients = [0 if y == 0 else (abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1) for x, y in pairs]
    rests = [x - q * y for (x, y), q in zip(pairs, quotients, strict=True)]
    mask = (1 << (8 * a.dtype.itemsize)) - 1
    unsigned = np.dtype(f"u{a.dtype.itemsize}")

    def wrapped(values: list[int]) -> Numbers:
        return np.array([value & mask for value in values], unsigned).view(a.dtype)

    return wrapped(quotients), wrapped(rests)


def saturate(a: Numbers, target: DType) -> Numbers:
    """Floats as integers: the nearest that there is, 0 for a NaN."""
    info = np.iinfo(target)
    values = [0 if np.isnan(v) else max(info.min, min(info.max, int(v) if np.isfinite(v) else (info.max if v > 0 else info.min)))
              for v in a.astype(np.float64)]  # fmt: skip
    return np.array(values, target)
