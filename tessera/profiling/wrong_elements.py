"""Elements of a result that are not as expected: how many, and the first one."""

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

Numbers: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[Any]]  # of any element type
_TOLERANCE: Final = {8: 1e-9, 4: 1e-4, 2: 3e-2, 1: 0.2}
"""Relative to the largest element, by bytes of a floating-point number: sums in another order differ by rounding."""


@dataclass(frozen=True, slots=True)
class WrongElements:
    """Elements of an output that are not as expected, by more than rounding explains.

    count: how many of `elements`; index: of the first one in row-major order; value, expected: what is there
    """

    name: str
    count: int
    elements: int
    index: tuple[int, ...]
    value: float
    expected: float

    def __str__(self) -> str:
        where = f"{self.name}[{', '.join(map(str, self.index))}]"
        count = f"{self.name}: {self.count:,} of {self.elements:,} are not as expected"
        return f"{count}, the first is {where} = {self.value:.7g}, expected {self.expected:.7g}"


def wrong_elements(name: str, output: Numbers, expected: Numbers) -> WrongElements | None:
    """Return the elements that differ from those expected by more than rounding; None where none does."""
    a, b = (np.asarray(each, np.float64) if each.dtype.kind in "fV" else each for each in (output, expected))
    if a.dtype.kind in "biu" and b.dtype.kind in "biu":
        wrong = np.asarray(a != b)
    else:
        a, b = np.asarray(a, np.float64), np.asarray(b, np.float64)
        with np.errstate(all="ignore"):
            peak = float(np.max(np.abs(b), initial=0.0, where=np.isfinite(b)))
            near = np.abs(a - b) <= tolerance_of(output.dtype) * peak
        wrong = ~(near | (a == b) | (np.isnan(a) & np.isnan(b)))
    count = int(wrong.sum())
    if not count:
        return None
    index = tuple(int(each) for each in np.unravel_index(int(np.argmax(wrong)), output.shape))
    return WrongElements(name, count, output.size, index, float(a[index]), float(b[index]))


def tolerance_of(dtype: "np.dtype[Any]") -> float:  # of any element type
    """Return by how much floats may differ through rounding, relative to the largest; 0 for other numbers."""
    return _TOLERANCE.get(dtype.itemsize, 0.0) if dtype.kind in "fV" else 0.0
