"""Rows of the table of operators: how one is called, what NumPy gives, what is refused."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[Any]
ELSE: Final = np.ones(3)


@dataclass(frozen=True, slots=True)
class Spec:
    """Describe an operand.  kind: f floats, i integers in [low, high), b bools"""

    shape: tuple[int, ...]
    kind: str = "f"
    low: float = -2.0
    high: float = 2.0


def i(*shape: int, low: int = 0, high: int = 4) -> Spec:
    """Return the row of an operand of integers."""
    return Spec(shape, "i", low, high)


def f(*shape: int, low: float = -2.0, high: float = 2.0) -> Spec:
    """Return the row of an operand of floats."""
    return Spec(shape, "f", low, high)


def b(*shape: int) -> Spec:
    """Return the row of an operand of bools."""
    return Spec(shape, "b")


@dataclass(frozen=True, slots=True)
class Case:
    """Hold one row.

    call: on arrays; want: the same in NumPy, of f64; specs: the operands, of odd extents
    empty: operands without elements, None for an operator that has to have some; batched: operands with a leading axis
    each of which `call` is taken of, None for one that does not look at axes apart
    wrong: calls that are refused, each with a part of the message
    smooth: whether derivatives are compared with differences; short: whether floats of 16 bits are taken
    slack: a factor of the tolerance, for long sums and divisions
    """

    call: Callable[..., Any]
    want: Callable[..., Any]
    specs: tuple[Spec, ...]
    wrong: tuple[tuple[Callable[[], object], str], ...]
    empty: tuple[Spec, ...] | None = None
    batched: tuple[Spec, ...] | None = None
    smooth: bool = True
    short: bool = True
    slack: float = 1.0


def taken(x: Numbers, index: Numbers, axis: int = 0) -> Numbers:
    """Return NumPy's `take`, 0 outside; negative indices count from the end."""
    return rows_of(x, np.where(index < 0, index + x.shape[axis], index), axis)


def rows_of(x: Numbers, index: Numbers, axis: int = 0) -> Numbers:
    """Return NumPy's `take`, 0 outside, where negative indices are."""
    inside = (index >= 0) & (index < x.shape[axis])
    made = np.take(x, np.where(inside, index, 0), axis) if x.shape[axis] else np.zeros(index.shape + x.shape[1:])
    return np.where(inside.reshape(*(1,) * axis, *index.shape, *(1,) * (x.ndim - axis - 1)), made, 0)
