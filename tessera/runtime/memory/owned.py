"""Memory that the runtime owns: arrays on a GPU, and arrays in host memory that is locked in place.

`DeviceArray` is a plain handle (address, shape, dtype) that cupy, torch, jax and numba take over without a copy by
`__cuda_array_interface__`; for arithmetic on arrays, use one of those.
"""

import ctypes
import math
import weakref
from typing import TYPE_CHECKING, Final

import numpy as np

from tessera.core.errors.catalog import CudaFailure
from tessera.runtime.arrays.host import AnyArray
from tessera.runtime.arrays.protocols import CudaArrayInterface
from tessera.runtime.driver import driver as door
from tessera.runtime.memory.copy_events import tell_copy
from tessera.runtime.streams.graph_capture import forbid

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import DTypeLike

_Layout = tuple[tuple[int, ...], "np.dtype[np.generic]"]
_LEGACY: Final = 1  # CU_STREAM_LEGACY: a number of its own for the default stream


class DeviceArray:
    """A C-contiguous array in the memory of one GPU; it never changes its place or shape.

    layout: (shape, dtype), one object for all arrays that agree in it
    settled: what was in its place before is done, so that any stream may use it at once
    """

    __slots__ = ("__weakref__", "address", "device", "layout", "owner")

    _layouts: dict[_Layout, _Layout] = {}  # noqa: RUF012 - interned, by design shared

    def __init__(
        self, shape: tuple[int, ...], dtype: "np.dtype[np.generic]", device: int = 0, *, settled: bool = False
    ) -> None:
        api = door.driver()
        self.layout = self._layouts.setdefault((shape, dtype), (shape, dtype))
        self.device = device
        self.owner: object = None
        with api.inside(device), api.relaxed():  # memory is no part of what is captured meanwhile
            self._allocate(api, self.nbytes)
            if settled:
                api.wait(0)

    def _allocate(self, api: "door.Driver", size: int) -> None:
        self.address = address = api.allocate(max(1, size), 0)
        weakref.finalize(self, api.give_back, self.device, api.free, address, 0).atexit = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        return self.layout[0]

    @property
    def dtype(self) -> "np.dtype[np.generic]":
        """The elements' type."""
        return self.layout[1]

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return math.prod(self.layout[0]) * self.layout[1].itemsize

    @property
    def __cuda_array_interface__(self) -> CudaArrayInterface:
        return {
            "data": (self.address, False), "shape": self.shape, "typestr": self.dtype.str, "strides": None,
            "version": 3, "stream": _LEGACY,
        }  # fmt: skip

    def reshape(self, shape: tuple[int, ...]) -> "DeviceArray":
        """Return the same memory with other extents, which hold as many elements."""
        if math.prod(shape) != math.prod(self.shape):
            raise CudaFailure(f"{list(self.shape)} has not as many elements as {list(shape)}")
        return DeviceArray.over(self.address, shape, self.dtype, self.device, self)

    @classmethod
    def maker(
        cls, shape: tuple[int, ...], dtype: "np.dtype[np.generic]", device: int, api: "door.Driver"
    ) -> "Callable[[], DeviceArray]":
        """Return what makes arrays of one kind, inside of the device and of what is `relaxed`."""
        layout = cls._layouts.setdefault((shape, dtype), (shape, dtype))
        size = math.prod(shape) * dtype.itemsize

        def make() -> DeviceArray:
            made = object.__new__(cls)
            made.layout, made.device, made.owner = layout, device, None
            made._allocate(api, size)
            return made

        return make

    @classmethod
    def over(
        cls, address: int, shape: tuple[int, ...], dtype: "np.dtype[np.generic]", device: int, owner: object
    ) -> "DeviceArray":
        """Return an array in memory that is another object's, which lives as long as this array does."""
        made = object.__new__(cls)
        made.layout = cls._layouts.setdefault((shape, dtype), (shape, dtype))
        made.device, made.address, made.owner = device, address, owner
        return made

    def get(self) -> AnyArray:
        """Return the elements as a NumPy array; wait for everything on the default stream first.

        Raises BadCapture while a graph is captured, whose launches have not run.
        """
        forbid("reading an array's elements")
        api = door.driver()
        out = np.empty(self.shape, self.dtype)
        if out.nbytes:
            with api.inside(self.device):
                api.download(out, self.address, 0)
                api.wait(0)
            tell_copy(out.nbytes, self.device, None)
        return out

    def set(self, array: AnyArray) -> None:
        """Copy the elements of `array`, which has this one's shape and dtype.  Raises CudaFailure for another."""
        if array.shape != self.shape or array.dtype != self.dtype:
            message = f"an array of {array.dtype}{list(array.shape)} for memory of {self.dtype}{list(self.shape)}"
            raise CudaFailure(message)
        api = door.driver()
        source = np.ascontiguousarray(array)
        if source.nbytes:
            with api.inside(self.device):
                api.upload(self.address, source, 0)
                api.wait(0)
            tell_copy(source.nbytes, None, self.device)

    def __repr__(self) -> str:
        return f"<{self.dtype}{list(self.shape)} on cuda:{self.device}>"


class PeerArray(DeviceArray):
    """Memory of another GPU as kernels of `device` see it, which may read and write it (see `Driver.let_peer`)."""

    __slots__ = ()


def to_device(array: AnyArray, device: int = 0) -> DeviceArray:
    """Copy a NumPy array to the memory of a GPU."""
    made = DeviceArray(array.shape, array.dtype, device)
    made.set(array)
    return made


def pinned(shape: int | tuple[int, ...], dtype: "DTypeLike" = np.float32) -> AnyArray:
    """Allocate a NumPy array in page-locked host memory: copies from and to it overlap with everything else."""
    kind = np.dtype(dtype)
    extents = (shape,) if isinstance(shape, int) else tuple(shape)
    size = math.prod(extents) * kind.itemsize
    api = door.driver()
    api.enter()
    start = api.pinned(max(1, size))
    memory = (ctypes.c_char * max(1, size)).from_address(start)
    weakref.finalize(memory, api.give_back, None, api.unpin, start).atexit = False
    return np.ndarray(extents, kind, memory)  # pyright: ignore[reportArgumentType] - it has the buffer protocol
