"""Closures of compiled functions: some arrays are operands, everything else is part of the program."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import numpy as np

from tessera.kernels.closures.snapshot import Closure, Elements, never
from tessera.runtime.arrays.interop import is_torch


@dataclass(frozen=True, slots=True)
class ClosedOverArray:
    """An array that a function closes over, by its number among all; transposed: the function takes its `.T`."""

    number: int
    transposed: bool = False

    @classmethod
    def within(cls, arrays: Sequence[object], captured: object) -> "ClosedOverArray | None":
        """Match a captured array with a closure's arrays or their transposes; None for other views and new arrays."""
        for number, array in enumerate(arrays):
            if array is captured:
                return cls(number)
        for number, array in enumerate(arrays):
            if type(array) is type(captured) and _layout(captured) is not None:
                transposed = _layout(array) != _layout(captured)
                view = cast("SupportsTranspose", array).T if transposed else array
                if _layout(view) == _layout(captured):
                    return cls(number, transposed=transposed)
        return None

    def of(self, arrays: Sequence[object]) -> object:
        """Return it among the arrays of a closure."""
        array = arrays[self.number]
        return cast("SupportsTranspose", array).T if self.transposed else array


class SupportsTranspose(Protocol):
    """An array of NumPy or of torch."""

    @property
    def T(self) -> object:  # noqa: N802 - NumPy's name
        """The view with its axes in reverse order."""
        ...


def _layout(array: object) -> tuple[object, ...] | None:
    """Return the address, dtype, shape and strides of an array; None for libraries whose views are not tracked."""
    if isinstance(array, np.ndarray):
        values = cast("np.ndarray[tuple[int, ...], np.dtype[np.generic]]", array)
        return (values.ctypes.data, values.dtype, values.shape, values.strides)
    if is_torch(array):
        return (array.data_ptr(), array.dtype, tuple(array.shape), array.stride())
    return None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ClosedOver:
    """The closure of a function when it was captured, or when it was last called.

    closure: all of it; operands: the arrays among it that became operands
    elements: contents of the other arrays, from which numbers may have been computed
    """

    closure: Closure
    operands: tuple[ClosedOverArray, ...]
    elements: Elements

    @classmethod
    def of(cls, closure: Closure, captured: Sequence[object] = ()) -> "ClosedOver | None":
        """Return what a function closes over; captured: arrays that became operands.

        None where one of these cannot be found again, such as a slice that the function takes of an array.
        """
        operands = tuple(ClosedOverArray.within(closure.arrays, array) for array in captured)
        if not closure.complete or None in operands:
            return None
        views = tuple(each for each in operands if each is not None)
        elements = Elements.of(cls._others(closure, views))
        return cls(closure=closure, operands=views, elements=elements) if elements.complete else None

    @staticmethod
    def _others(closure: Closure, operands: Sequence[ClosedOverArray]) -> list[object]:
        taken = {each.number for each in operands}
        return [array for number, array in enumerate(closure.arrays) if number not in taken]

    @property
    def unchanged(self) -> Callable[[], bool]:
        """A function that tells whether the compiled one would read the same objects now."""
        if not self.elements.copies:
            return self.closure.unchanged
        return lambda: self.closure.unchanged() and self.elements.unchanged()

    def now(self, closure: Closure) -> "ClosedOver | None":
        """Return this with the arrays of a closure of the same key; None where a number was made of other elements."""
        elements = Elements.of(self._others(closure, self.operands))
        if not self.elements.equal(elements):
            return None
        return ClosedOver(closure=closure, operands=self.operands, elements=elements)

    def without_arrays(self) -> "ClosedOver | None":
        """Return this for other functions with an equal closure; None where elements of arrays would be needed."""
        if self.elements.copies:
            return None
        closure = Closure(key=self.closure.key, arrays=(), unchanged=never, complete=True)
        return ClosedOver(closure=closure, operands=self.operands, elements=self.elements)

    @property
    def arrays(self) -> tuple[object, ...]:
        """The arrays that became operands, as they are now."""
        return tuple([each.of(self.closure.arrays) for each in self.operands])


def unchanged_of(closure: Closure) -> Callable[[], bool]:
    """Return a check for unchanged closures of code without array operands, such as kernels."""
    closed_over = ClosedOver.of(closure)
    return never if closed_over is None else closed_over.unchanged
