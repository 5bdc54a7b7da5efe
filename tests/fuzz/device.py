"""A NumPy array's memory on a GPU, and the same view of it: gaps, steps, repeated and reversed axes stay what they are.

By DLPack, which says everything of an array that NumPy can: libraries have no steps below zero (PyTorch), or no bf16.
"""

import ctypes
from collections.abc import Sequence
from typing import Any, Final, cast

import numpy as np

from tessera.runtime.arrays.dlpack import BEYOND_NUMPY, DLTensor
from tessera.runtime.memory.owned import DeviceArray, to_device

_CUDA: Final = 2
_CODES: Final = {"i": 0, "u": 1, "f": 2}
_BEYOND: Final = {dtype: code for code, dtype in BEYOND_NUMPY.items()}


def root_of(array: np.ndarray) -> np.ndarray:
    """The array of the same dtype that `array` is a view of, or it itself."""
    base: object = array.base
    if not isinstance(base, np.ndarray):  # `as_strided` has an object of its own in between
        base = getattr(base, "base", None)
    below = cast("np.ndarray", base) if isinstance(base, np.ndarray) else None
    return root_of(below) if below is not None and below.dtype == array.dtype else array


class Placed:
    """A copy of what `array` is a view of in the memory of a GPU; to a kernel it is the same view of that."""

    def __init__(self, array: np.ndarray) -> None:
        self.array, self.root = array, root_of(array)
        assert self.root.flags.c_contiguous
        self.memory: DeviceArray = to_device(self.root.reshape(-1).view(np.uint8))
        self._parts: list[Any] = []

    def fetch(self) -> None:
        """Copy what is on the GPU back to where it came from."""
        self.root.reshape(-1).view(np.uint8)[:] = self.memory.get()

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CUDA, self.memory.device

    def __dlpack__(self, **_: object) -> object:
        array, kind = self.array, self.array.dtype
        code, bits = _BEYOND.get(kind) or (_CODES[kind.kind], kind.itemsize * 8)
        shape = (ctypes.c_int64 * array.ndim)(*array.shape)
        steps = (ctypes.c_int64 * array.ndim)(*(step // kind.itemsize for step in array.strides))
        start = self.memory.address + array.ctypes.data - self.root.ctypes.data
        tensor = DLTensor(start, _CUDA, self.memory.device, array.ndim, code, bits, 1, shape, steps, 0)
        self._parts += [shape, steps, tensor]  # which the capsule points to
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(tensor), b"dltensor", None)


def fetch(values: Sequence[Placed]) -> None:
    """Copy everything back, once all launches have ended."""
    for value in values:
        value.fetch()
