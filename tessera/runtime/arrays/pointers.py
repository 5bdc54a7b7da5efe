"""The address of an array's first element, as fast as Python can find it."""

import ctypes
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

# `PyArrayObject_fields` is part of NumPy's stable ABI and begins with the object's head, then the data pointer.
_DATA_OFFSET: Final = object.__basicsize__
_read_pointer: Final = ctypes.c_void_p.from_address


def _direct(array: NDArray[np.generic]) -> int:
    return _read_pointer(id(array) + _DATA_OFFSET).value or 0


def _public(array: NDArray[np.generic]) -> int:
    return array.ctypes.data


def _choose() -> Callable[[NDArray[np.generic]], int]:
    """Return the direct way (0.3 us) if NumPy lays arrays out as expected here, else NumPy's own (1.5 us)."""
    whole = np.arange(24, dtype=np.float64).reshape(4, 6)
    samples = (whole, whole[1:, ::2], whole.T, np.zeros((), np.int8))
    return _direct if all(_direct(a) == _public(a) for a in samples) else _public


address: Final = _choose()
"""address(array): where the first element lies."""
