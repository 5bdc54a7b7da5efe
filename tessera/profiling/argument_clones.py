"""Copies of a call's arguments, for launches whose results are dropped: searches and profiles never write the user's.

A copy has the strides of its original, and its address is as well aligned, so that the same code serves it.  A
`CloneRing` holds several copies, together larger than the cache, and hands them out in turns: what one launch leaves in
the cache is gone when its turn comes again.
"""

import math
import weakref
from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np

from tessera.core.base.dtypes import from_numpy
from tessera.core.errors.catalog import ArgumentType, CudaFailure
from tessera.runtime.arrays.host import AnyArray, as_array, is_array
from tessera.runtime.arrays.protocols import CudaArrayInterface
from tessera.runtime.binding.current_stream import settle
from tessera.runtime.driver import driver as door
from tessera.runtime.driver.driver import Driver
from tessera.runtime.memory.device_arrays import device_of, device_view, is_on_device

_ALIGNMENT: Final = 256
_LARGEST: Final = 1 << 30
"""Bytes of a ring at most, but for a set of arguments that is larger alone."""
_MOST_SETS: Final = 64
_BEYOND: Final = 2
"""How many times the cache a ring holds."""


class ArgumentClone(Protocol):
    """One array's copy: `value` goes to the kernel."""

    @property
    def value(self) -> object:
        """The argument."""
        ...

    @property
    def size(self) -> int:
        """Bytes, gaps included."""
        ...

    def restore(self) -> None:
        """Make its bytes those of the original again."""
        ...

    def read(self) -> AnyArray:
        """Return its elements in this process's memory, in an array of their own."""
        ...

    def close(self) -> None:
        """Give its memory back."""
        ...


class HostClone:
    """A copy in this process's memory; `original` must not change as long as `restore` is used."""

    def __init__(self, original: AnyArray) -> None:
        self._original = original
        self.size = _window(original)[2]
        (self.value,) = copied_together([original])

    def restore(self) -> None:
        """Make its elements those of the original again."""
        np.copyto(self.value, self._original)

    def read(self) -> AnyArray:
        """Return its elements in an array of their own."""
        return self.value.copy()

    def close(self) -> None:
        """Do nothing: Python gives the memory back."""


def copied_together(arrays: Sequence[AnyArray]) -> list[AnyArray]:
    """Return copies of arrays of this process whose memory overlaps, with the same overlaps, strides and alignment."""
    windows = [_window(array) for array in arrays]
    low = min(start for start, _, _ in windows)
    size = max(start + length for start, _, length in windows) - low
    memory = np.empty(size + 2 * _ALIGNMENT, np.uint8)
    start = -(-memory.ctypes.data // _ALIGNMENT) * _ALIGNMENT - memory.ctypes.data + low % _ALIGNMENT
    copies: list[AnyArray] = []
    for array, (own, first, _) in zip(arrays, windows, strict=True):
        offset = start + own - low + first
        copy: AnyArray = np.ndarray(array.shape, array.dtype, memory.data, offset, array.strides)
        np.copyto(copy, array)
        copies.append(copy)
    return copies


def downloaded(views: Sequence[AnyArray]) -> list[AnyArray]:
    """Return copies, in this process, of arrays in a GPU's memory: with the same strides, and the same overlaps.

    views: stand for the arrays, see `runtime.device_arrays`
    Raises CudaFailure.
    """
    api = door.driver()
    windows = [_window(view) for view in views]
    copies: dict[int, AnyArray] = {}
    for begin, group in _overlapping(windows):
        memory = np.empty(max(windows[number][0] + windows[number][2] for number in group) - begin, np.uint8)
        if memory.size:
            api.download(memory, begin, 0)
        for number in group:
            view, (own, first, _) = views[number], windows[number]
            if view.size:
                copies[number] = np.ndarray(view.shape, view.dtype, memory.data, own - begin + first, view.strides)
            else:
                copies[number] = np.empty(view.shape, view.dtype)
    api.wait(0)
    return [copies[number] for number in range(len(views))]


def _overlapping(windows: Sequence[tuple[int, int, int]]) -> list[tuple[int, list[int]]]:
    """Group windows that overlap, directly or through others: the lowest address, and the numbers of the windows."""
    groups: list[tuple[int, list[int]]] = []
    reached = 0
    for number in sorted(range(len(windows)), key=lambda number: windows[number][0]):
        low, _, size = windows[number]
        if groups and low < reached:
            groups[-1][1].append(number)
            reached = max(reached, low + size)
        else:
            groups.append((low, [number]))
            reached = low + size
    return groups


class DeviceClone:
    """A copy in a GPU's memory of an array there or in this process; it is its own `value`.

    view: stands for the original, see `runtime.device_arrays`, or is the original itself (host arrays)
    """

    def __init__(self, api: Driver, view: AnyArray, *, on_host: bool) -> None:
        view = np.ascontiguousarray(view) if on_host else view
        self._api, self._view, self._on_host = api, view, on_host
        low, first, self.size = _window(view)
        self._low, self._first = low, first
        self._memory = api.allocate(self.size + _ALIGNMENT, 0)
        self._release = weakref.finalize(self, api.give_back, api.device(), api.free, self._memory, 0)
        self._release.atexit = False
        self._start = self._memory if on_host else self._memory + low % _ALIGNMENT
        self.value = self
        self.__cuda_array_interface__: CudaArrayInterface = {
            "data": (self._start + first, False),
            "shape": view.shape,
            # NumPy has no letter for a bfloat16; `runtime.device_arrays`, which alone reads this, knows the name.
            "typestr": view.dtype.str if view.dtype.isbuiltin == 1 else view.dtype.name,
            "strides": None if view.flags.c_contiguous else view.strides,
            "version": 3,
        }
        self.restore()

    def restore(self) -> None:
        """Make its bytes those of the original again, in the order of the default stream."""
        if self.size == 0:
            return
        if self._on_host:
            self._api.upload(self._start, self._view, 0)
        else:
            self._api.copy(self._start, self._low, self.size, 0)

    def read(self) -> AnyArray:
        """Return its elements in this process's memory, once the default stream is done with them."""
        window = np.zeros(max(1, self.size), np.uint8)
        if self.size:
            self._api.download(window[: self.size], self._start, 0)
            self._api.wait(0)
        return np.ndarray(self._view.shape, self._view.dtype, window.data, self._first, self._view.strides).copy()

    def close(self) -> None:
        """Give the memory back once the default stream is done with it."""
        self._release()


def _window(array: AnyArray) -> tuple[int, int, int]:
    """Return the lowest address of an array's elements, the offset of the first one, and the bytes up to the last."""
    if array.size == 0:
        return array.ctypes.data, 0, 0
    reach = [(extent - 1) * stride for extent, stride in zip(array.shape, array.strides, strict=True)]
    below = -sum(step for step in reach if step < 0)
    above = sum(step for step in reach if step > 0) + array.itemsize
    return array.ctypes.data - below, below, below + above


class ClonedArguments:
    """One copy of all arguments of a call: an array given twice is one copy, given twice.

    mutable: which of them the kernel may write; only these are restored
    """

    def __init__(self, values: Sequence[object], mutable: Sequence[bool], *, on_device: bool) -> None:
        self._copies: dict[int, ArgumentClone] = {}
        self._originals = tuple(values)
        device = device_of(values)
        if device is not None:  # copies are made on the default stream
            settle(door.driver(), values, device)
        self._written = {id(value) for value, written in zip(values, mutable, strict=True) if written}
        try:
            self.values: tuple[object, ...] = tuple(self._stand_in(value, on_device=on_device) for value in values)
        except BaseException:
            self.close()
            raise
        self.size = sum(copy.size for copy in self._copies.values())

    def _stand_in(self, value: object, *, on_device: bool) -> object:
        if not is_array(value):
            return value
        copy = self._copies.get(id(value))
        if copy is None:
            copy = self._copies[id(value)] = _copy_of(value, on_device=on_device)
        return copy.value

    def read(self, index: int) -> AnyArray:
        """Return the elements of argument number `index`, an array, as they are now."""
        return self._copies[id(self._originals[index])].read()

    def restore(self) -> None:
        """Undo what a launch has written."""
        for key in self._written & self._copies.keys():
            self._copies[key].restore()

    def close(self) -> None:
        """Give the memory back."""
        for copy in self._copies.values():
            copy.close()
        self._copies.clear()


def _copy_of(value: object, *, on_device: bool) -> ArgumentClone:
    if is_on_device(value):
        return DeviceClone(door.driver(), device_view(value, ""), on_host=False)
    array = as_array(value, "")
    if from_numpy(array.dtype) is None:  # bytes that are pointers to Python's objects must not be made up
        raise ArgumentType(f"an array holds {array.dtype}, which Tessera has no type for", hint="convert it")
    return DeviceClone(door.driver(), array, on_host=True) if on_device else HostClone(array)


class CloneRing:
    """Several copies of a call's arguments, handed out in turns.

    cache_bytes: the ring is larger than this, unless that takes more than a gigabyte
    """

    def __init__(
        self, values: Sequence[object], mutable: Sequence[bool], *, on_device: bool = False, cache_bytes: int = 0
    ) -> None:
        first = ClonedArguments(values, mutable, on_device=on_device)
        wanted = math.ceil(_BEYOND * cache_bytes / max(1, first.size)) + 1
        affordable = max(1, _LARGEST // max(1, first.size))
        self._sets = [first]
        self._turn = 0
        for _ in range(min(wanted, affordable, _MOST_SETS) - 1):
            try:
                self._sets.append(ClonedArguments(values, mutable, on_device=on_device))
            except CudaFailure:  # the device's memory is full: what there is will do
                if door.driver().lost is not None:
                    raise
                break

    def __len__(self) -> int:
        return len(self._sets)

    def take(self) -> ClonedArguments:
        """Return the next copy; call its `restore` after the launch, so it is out of the cache by its next turn."""
        chosen = self._sets[self._turn]
        self._turn = (self._turn + 1) % len(self._sets)
        return chosen

    def close(self) -> None:
        """Give all memory back."""
        for arguments in self._sets:
            arguments.close()
