"""Supply memory to a run of a graph: arrays of the caller's library, and parts of one array as an arena."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from threading import get_ident
from typing import Final, Protocol

import numpy as np

from tessera.core.base.dtypes import BY_NAME, DType
from tessera.core.graph.graph import Tensor
from tessera.graphs.operands.host_number import NeedsNumber
from tessera.runtime.arrays.host import AnyArray, is_array
from tessera.runtime.arrays.interop import is_jax, is_torch, library_of
from tessera.runtime.arrays.pointers import address
from tessera.runtime.binding.current_stream import ArgumentStreams
from tessera.runtime.driver import driver as door
from tessera.runtime.memory.device_arrays import device_of, is_on_device
from tessera.runtime.memory.operands import Operand, empty, operand, typed_part
from tessera.runtime.memory.owned import DeviceArray
from tessera.runtime.streams.graph_capture import recording

_ELEMENT: Final = 16
"""Bytes from one number to the next: loads of any dtype are aligned."""
_MOST_BUFFERS: Final = 16
"""Threads and streams that have memory for numbers."""
_LINE: Final = 64
"""Bytes: arenas of the host begin where a cache line does."""


class Supply(Protocol):
    """Memory of one kind."""

    @property
    def key(self) -> Hashable:
        """Arenas of equal keys can stand in for each other, in calls one after the other."""
        ...

    @property
    def like(self) -> Operand[object]:
        """An array of this kind, without elements."""
        ...

    def array(self, kind: Tensor, name: str = "") -> Operand[object]:
        """Return an array of its own, whose elements are undefined."""
        ...

    def part(self, arena: Operand[object], offset: int, kind: Tensor, name: str = "") -> Operand[object]:
        """Return an array that lies in an arena, which is an array of bytes."""
        ...


@dataclass(eq=False)
class LibrarySupply:
    """Arrays of NumPy, PyTorch or CuPy.  key: see `Supply`."""

    key: Hashable
    like: Operand[object]

    @staticmethod
    def of(given: Operand[object], stream: int = 0) -> "LibrarySupply":
        """Return the supply of arrays like one of the caller's, for work on a stream."""
        like = empty(given, (0,), BY_NAME["u8"])  # which keeps nothing of the caller's alive
        place = str(getattr(like.value, "device", ""))
        return LibrarySupply((library_of(like.value), place, stream), like)

    def array(self, kind: Tensor, name: str = "") -> Operand[object]:
        """See `Supply`."""
        made = empty(self.like, kind.shape, kind.dtype)
        return Operand(name or made.name, made.value, made.view, made.dtype, made.on_device)

    def part(self, arena: Operand[object], offset: int, kind: Tensor, name: str = "") -> Operand[object]:
        """See `Supply`."""
        first = offset if arena.on_device else offset - address(arena.view) % -_LINE
        return operand(typed_part(arena, first, kind.shape, kind.dtype), name)


@dataclass(frozen=True, slots=True, eq=False)
class DeviceSupply:
    """Arrays of our own on a GPU.  key: see `Supply`."""

    device: int

    @property
    def key(self) -> Hashable:
        """See `Supply`."""
        return ("device", self.device)

    @property
    def like(self) -> Operand[object]:
        """See `Supply`."""
        return operand(DeviceArray.over(0, (0,), np.dtype(np.uint8), self.device, None), "")

    def array(self, kind: Tensor, name: str = "") -> Operand[object]:
        """See `Supply`."""
        return operand(DeviceArray(kind.shape, kind.dtype.numpy, self.device), name)

    def part(self, arena: Operand[object], offset: int, kind: Tensor, name: str = "") -> Operand[object]:
        """See `Supply`."""
        value = arena.value
        assert isinstance(value, DeviceArray)
        return operand(DeviceArray.over(value.address + offset, kind.shape, kind.dtype.numpy, self.device, value), name)


def supply_of(given: Operand[object], stream: int = 0) -> Supply:
    """Return the supply of arrays like one of the caller's, for work on a stream."""
    if isinstance(given.value, DeviceArray):
        return DeviceSupply(given.value.device)
    return LibrarySupply.of(given, stream)


class NumberMemory:
    """Copy Python numbers to the GPU that holds the arrays of a call; on the host they stay where they are.

    dtypes: the element types of the numbers

    PyTorch's streams live as long as the process.  So a buffer is kept for each thread and stream: the next copy on
    that stream overwrites it after the kernels that read it.
    """

    def __init__(self, dtypes: Sequence[DType]) -> None:
        self._dtypes = tuple(dtypes)
        self._size = _ELEMENT * len(self._dtypes)
        self._buffers: dict[tuple[int, int, int], tuple[int, tuple[object, ...]]] = {}

    def __call__(
        self, arrays: Sequence[object], elements: Sequence[AnyArray], *, kept: bool = False
    ) -> Sequence[object]:  # fmt: skip
        """Return the numbers as arrays without axes.

        elements: the same on the host; kept: they are needed after the call, such as for a derivative

        Raises NeedsNumber for JAX's arrays on a GPU, and while launches are recorded: they would run again with the
        numbers of this call.
        """
        if recording() is not None:
            raise NeedsNumber("launches are recorded, with the numbers of this call")
        first = next((each for each in arrays if is_array(each) and is_on_device(each)), None)
        if first is None:
            return elements
        if is_jax(first):  # JAX orders its work on streams of its own
            raise NeedsNumber("JAX has no memory that numbers could be copied to")
        device = device_of((first,)) or 0
        api = door.driver()
        with api.inside(device):
            stream = ArgumentStreams.of(arrays, device).current()
            if api.capturing(stream):
                raise NeedsNumber("launches are captured, with the numbers of this call")
            key = (get_ident(), device, stream)
            buffer = None if kept else self._buffers.get(key)
            if buffer is None:
                buffer = self._allocate(first, stream)
                if is_torch(first) and not kept:
                    if len(self._buffers) >= _MOST_BUFFERS:
                        self._buffers.clear()
                    self._buffers[key] = buffer
            packed = np.zeros(self._size, np.uint8)
            for number, element in enumerate(elements):
                packed[_ELEMENT * number :][: element.nbytes].view(element.dtype)[0] = element
            api.send(buffer[0], packed, stream)
        return buffer[1]

    def _allocate(self, like: object, stream: int) -> tuple[int, tuple[object, ...]]:
        """Return the address of new memory, and the arrays without axes in it."""
        supply = supply_of(operand(like, "a number"), stream)
        memory = supply.array(Tensor(BY_NAME["u8"], (self._size,)), "numbers")
        parts = [
            supply.part(memory, _ELEMENT * number, Tensor(dtype, ()), "a number").value
            for number, dtype in enumerate(self._dtypes)
        ]
        return address(memory.view), tuple(parts)


def arena_of(supply: Supply, size: int) -> Operand[object]:
    """Allocate an arena."""
    return supply.array(Tensor(BY_NAME["u8"], (size if supply.like.on_device else size + _LINE,)), "arena")
