"""Python numbers beside arrays: they take the array's dtype, and never change their meaning by it.

NumPy 2 does the same: a number that a dtype does not hold compares by its value, and is refused in arithmetic.
"""

import math
import operator
from collections.abc import Callable, Mapping
from typing import Final, cast

import numpy as np

from tessera.core.base.dtypes import BY_NAME, DType, boolean, dtype_of, f32, from_numpy, i64, u64
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.expr import Literal, Number
from tessera.runtime.arrays.host import plain

_COMPARISONS: Final[Mapping[str, Callable[[Number, Number], bool]]] = {
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq, "ne": operator.ne,
}  # fmt: skip


def range_of(dtype: DType) -> tuple[int, int]:
    """Return the least and the greatest number of an integer dtype."""
    limits = np.iinfo(dtype.numpy)
    return int(limits.min), int(limits.max)


def is_outside(number: object, dtype: DType) -> bool:
    """Return whether a Python integer is one that an integer dtype does not hold."""
    if not isinstance(number, int) or isinstance(number, bool) or not dtype.is_integer:
        return False
    least, greatest = range_of(dtype)
    return not least <= number <= greatest


def require_dtype(x: object) -> DType:
    """Return the dtype that is named; see `dtype_of`.  Raises OperandMismatch."""
    dtype = dtype_of(x)
    if dtype is None:
        names = f"choose from {', '.join(sorted(BY_NAME))}"
        hint = f"say which one: {names}" if x is float or x is int else names
        raise OperandMismatch(f"there is no dtype {x!r}", hint=hint)
    return dtype


def literal(number: Number, dtype: DType) -> Literal:
    """Return a number as a literal of a dtype.  Raises OperandMismatch for an integer that the dtype does not hold."""
    if is_outside(number, dtype):
        least, greatest = range_of(dtype)
        widest = "give a float, or clip it to what the array can hold"
        hint = widest if dtype in (i64, u64) else "convert the array first: x.astype('i64')"
        raise OperandMismatch(f"{number} is no {dtype}, which holds {least} to {greatest}", hint=hint)
    if not dtype.is_float:
        return Literal(number, dtype)
    try:
        return Literal(float(number), dtype)
    except OverflowError:
        bits = int(number).bit_length()
        raise OperandMismatch(f"an integer of {bits} bits is no {dtype}", hint="give a float") from None


def constant_of(value: object) -> tuple[Number, DType]:
    """Return a number and the dtype that it has on its own: NumPy's keep theirs, Python's are i64, f32 or bool.

    Raises OperandMismatch for one that its dtype does not hold, and for what is no number.
    """
    number, dtype = plain(value), i64
    if isinstance(value, np.generic):
        dtype = from_numpy(np.asarray(cast("object", value)).dtype)
    elif isinstance(value, bool | float):
        dtype = boolean if isinstance(value, bool) else f32
    if dtype is None or not isinstance(number, bool | int | float):
        raise OperandMismatch(f"{value!r} is no number of a graph", hint="pass a float, an integer or a bool")
    literal(number, dtype)
    return (float(number) if dtype.is_float else number), dtype


def held_number(value: object, dtype: DType) -> Number:
    """Return a number as an element of a dtype.

    Raises OperandMismatch for one that the dtype does not hold: a float of integers, a finite one beyond a float's
    range, an infinity of a format without any, anything but 0 and 1 of bools.
    """
    number = plain(value)
    if not isinstance(number, bool | int | float):
        raise OperandMismatch(f"{value!r} is no number", hint="give a Python number; op.where takes arrays")
    if dtype.is_float:
        literal(number, dtype)
        with np.errstate(over="ignore"):
            rounded = float(np.asarray(float(number)).astype(dtype.numpy))
        if math.isfinite(number) == math.isfinite(rounded) and math.isnan(number) == math.isnan(rounded):
            return float(number)
        raise OperandMismatch(f"{number} is no {dtype}", hint="convert the array first: x.astype('f32')")
    if dtype == boolean and number in (0, 1):
        return bool(number)
    if dtype == boolean or isinstance(number, float):
        raise OperandMismatch(f"{number} is no {dtype}", hint="convert the array first: x.astype('f32')")
    literal(number, dtype)
    return int(number)


def holds_outside(predicate: str, left: object, right: object) -> bool:
    """Compare any element of an integer dtype with a number that it does not hold: the answer is the same for all."""
    sides = [side if isinstance(side, int) else 0 for side in (left, right)]
    return _COMPARISONS[predicate](*sides)


def clipped_bounds(low: object, high: object, dtype: DType) -> tuple[object, object]:
    """Return the bounds of a clip without what they ask for beyond an integer dtype, which no element exceeds."""
    if not dtype.is_integer:
        return low, high
    least, greatest = range_of(dtype)
    if isinstance(low, int) and low < least:
        low = least
    if isinstance(high, int) and high > greatest:
        high = greatest
    return low, high
