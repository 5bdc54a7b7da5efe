"""Sum floats exactly, in any order: fixed-point accumulators of 32-bit limbs in 64-bit integers, rounded once.

A float is an integer times a power of two, so it is a sum of at most three limbs of a fixed-point number that is wide
enough for its whole type: 10 limbs for f32, 67 for f64.  States of leaves are added as integers without carries, which
no order changes: 2^31 leaves fit.  `decode` carries, and rounds to nearest, ties to even.

A state has a row a limb, then a row each that counts NaNs, infinities, negative infinities, and leaves that are not -0.
"""

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tessera.core.base import dtypes
from tessera.core.base.dtypes import DType, from_numpy

Elements: TypeAlias = NDArray[Any]  # of every float type
State: TypeAlias = NDArray[np.int64]

_LIMB: Final = 32
_MASK: Final = (1 << _LIMB) - 1
_COUNTS: Final = 4
_NAN, _POSITIVE, _NEGATIVE, _NOT_MINUS_ZERO = range(-_COUNTS, 0)


@dataclass(frozen=True, slots=True)
class _Format:
    """A float type: bits of mantissa with the leading one, exponent of the last bit of denormals, limbs of a state."""

    precision: int
    lowest: int
    limbs: int


def _format(dtype: DType) -> _Format:
    """Return the format of the type whose states are used: f64's own, f32's for all that is shorter."""
    return _Format(53, -1074, 67) if dtype == dtypes.f64 else _Format(24, -149, 10)


_RESULTS: Final = {
    "f64": (53, -1074), "f32": (24, -149), "f16": (11, -24), "bf16": (8, -133),
    "fp8_e4m3": (4, -9), "fp8_e5m2": (3, -16),
}  # fmt: skip
"""Precision, and exponent of the last bit of denormals, of each type that a state is rounded to."""


def state_rows(dtype: DType) -> int:
    """Return how many 64-bit integers stand for one element."""
    return _format(dtype).limbs + _COUNTS


def encode(leaf: Elements) -> State:
    """Return the state of one leaf: its elements as fixed-point numbers, a row a limb."""
    dtype = from_numpy(leaf.dtype)
    assert dtype is not None
    form = _format(dtype)
    with np.errstate(invalid="ignore"):
        wide = leaf.astype(np.float64 if dtype == dtypes.f64 else np.float32)
    finite = np.isfinite(wide)
    # `frexp` gives denormals too a leading one: the integer below is exact for every number.
    mantissa, exponent = np.frexp(np.where(finite, wide, 0).astype(np.float64))
    whole = np.ldexp(mantissa, form.precision).astype(np.int64)
    place = exponent.astype(np.int64) - form.precision - form.lowest
    below = np.minimum(place, 0)  # denormals: trailing zeros of the mantissa
    whole >>= -below
    place -= below
    state = np.zeros((form.limbs + _COUNTS, *leaf.shape), np.int64)
    magnitude, sign = np.abs(whole).astype(np.uint64), np.where(whole < 0, -1, 1)
    limb, shift = place // _LIMB, (place % _LIMB).astype(np.uint64)
    # A mantissa of 53 bits, shifted by up to 31, reaches over three limbs: its halves are shifted apart.
    low, high = (magnitude & np.uint64(_MASK)) << shift, (magnitude >> np.uint64(_LIMB)) << shift
    _add(state, limb, sign, low & np.uint64(_MASK))
    _add(state, limb + 1, sign, (low >> np.uint64(_LIMB)) + (high & np.uint64(_MASK)))
    _add(state, limb + 2, sign, high >> np.uint64(_LIMB))
    state[_NAN] = np.isnan(wide)
    state[_POSITIVE], state[_NEGATIVE] = np.isposinf(wide), np.isneginf(wide)
    state[_NOT_MINUS_ZERO] = ~((wide == 0) & np.signbit(wide))
    return state


def _add(state: State, limb: NDArray[np.int64], sign: NDArray[np.int64], part: NDArray[np.uint64]) -> None:
    """Add to each element's own limb."""
    rows = state[:-_COUNTS]
    place = np.minimum(limb, len(rows) - 1)[None]  # what lies beyond is zero
    found = np.take_along_axis(rows, place, 0)
    np.put_along_axis(rows, place, found + (sign * part.astype(np.int64))[None], 0)


def decode(state: State, dtype: DType) -> Elements:
    """Return the numbers that added states stand for, rounded once to `dtype`."""
    precision, lowest = _RESULTS[dtype.name]
    limbs, negative = _carried(state[:-_COUNTS])
    base = -1074 if len(limbs) == _format(dtypes.f64).limbs else -149
    mantissa, exponent, sticky = _leading(limbs, base)
    whole, place = _rounded(mantissa, exponent, sticky, precision, lowest)
    with np.errstate(over="ignore"):
        value = np.ldexp(whole, place)
    value = np.where(negative, -value, value)
    value = np.where((state[_NOT_MINUS_ZERO] == 0) & (value == 0), -0.0, value)
    value = np.where(state[_POSITIVE] > 0, np.inf, value)
    value = np.where(state[_NEGATIVE] > 0, -np.inf, value)
    value = np.where((state[_NAN] > 0) | ((state[_POSITIVE] > 0) & (state[_NEGATIVE] > 0)), np.nan, value)
    with np.errstate(over="ignore"):
        return (
            value.astype(dtype.numpy) if dtype.bits > dtypes.f32.bits else value.astype(np.float32).astype(dtype.numpy)
        )


def _carried(limbs: State) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Return limbs from 0 to 2^32 - 1 of the magnitudes, and which numbers are negative."""
    done, carry = _propagate(limbs)
    negative = carry < 0
    if np.any(negative):
        flipped, _ = _propagate(np.where(negative, -limbs, limbs))
        done = np.where(negative, flipped, done)
    return done.astype(np.uint64), negative


def _propagate(limbs: State) -> tuple[State, NDArray[np.int64]]:
    done, carry = np.empty_like(limbs), np.zeros(limbs.shape[1:], np.int64)
    for row, limb in enumerate(limbs):
        total = limb + carry
        done[row] = total & _MASK
        carry = total >> _LIMB
    return done, carry


def _leading(limbs: NDArray[np.uint64], base: int) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.bool_]]:
    """Return the 64 bits from the leading one on, the exponent of the last of them, and whether any bit follows."""
    some = limbs != 0
    top = len(limbs) - 1 - np.argmax(some[::-1], axis=0)  # of zero: the last one, which is 0 too
    first, second, third = (_row(limbs, top - below) for below in range(3))
    _, bits = np.frexp(first.astype(np.float64))  # 32 bits are exact there
    shift = (_LIMB - bits).astype(np.uint64)
    spare = np.uint64(_LIMB) - shift
    mantissa = (((first << np.uint64(_LIMB)) | second) << shift) | (third >> spare)
    rows = np.arange(len(limbs)).reshape(-1, *(1,) * (limbs.ndim - 1))
    sticky = np.any(some & (rows < top - 2), axis=0) | ((third << shift) & np.uint64(_MASK) != 0)
    exponent = base + _LIMB * (top.astype(np.int64) - 1) - shift.astype(np.int64)
    return mantissa, exponent, sticky


def _row(limbs: NDArray[np.uint64], row: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return each number's own limb, 0 below the first."""
    found = np.take_along_axis(limbs, np.maximum(row, 0)[None], 0)[0]
    return np.where(row >= 0, found, np.uint64(0))


def _rounded(
    mantissa: NDArray[np.uint64], exponent: NDArray[np.int64], sticky: NDArray[np.bool_], precision: int, lowest: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Round to nearest, ties to even: the whole number and its exponent."""
    place = np.maximum(exponent + 64 - precision, lowest)
    drop = np.minimum(place - exponent, 65)
    nothing = drop > 64
    shift = np.clip(drop, 1, 63).astype(np.uint64)
    kept = np.where(drop >= 64, np.uint64(0), mantissa >> shift)
    half = np.where(drop >= 64, np.uint64(1 << 63), np.uint64(1) << (shift - np.uint64(1)))
    rest = np.where(drop >= 64, mantissa, mantissa & ((np.uint64(1) << shift) - np.uint64(1)))
    up = (rest > half) | ((rest == half) & (sticky | (kept & np.uint64(1) == 1)))
    whole = np.where(nothing, 0.0, (kept + up).astype(np.float64))
    return whole, place
