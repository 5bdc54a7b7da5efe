"""Memory as the interpreter sees it: arrays with masked edges.  Indices are element indices, one an axis."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tessera.core.base.dtypes import DType
from tessera.core.program.types import Extent
from tessera.runtime.interpret.rounding import Numbers

POISON: Final = 0xA5
"""Every byte of shared integers before they are written; floats start as NaN, so that a use shows."""


@dataclass(slots=True, eq=False)
class Memory:
    """A parameter's array, or a buffer of the group's shared memory.

    `name` is what the user calls it; `data` is the caller's own array (of any strides) when not `shared`; `extents` are
    its shape in the user's words (numbers or symbols), where known.
    """

    name: str
    data: Numbers
    shared: bool = False
    extents: tuple[Extent, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Choice:
    """A buffer that differs between lanes: lane l means `buffers[which[l]]`."""

    buffers: tuple[Memory, ...]
    which: NDArray[np.int64]


@dataclass(slots=True)
class Traffic:
    """Elements and bytes of global arrays that were read and written so far."""

    reads: int = 0
    writes: int = 0
    bytes: int = 0

    def count(self, memory: Memory, elements: int, written: bool) -> None:
        """Add one access; shared memory does not count."""
        if memory.shared:
            return
        self.bytes += elements * memory.data.itemsize
        if written:
            self.writes += elements
        else:
            self.reads += elements


@dataclass(frozen=True, slots=True)
class Box:
    """The part of a window that lies inside a memory: slices of the memory, and slices of the window."""

    extents: tuple[int, ...]
    memory: tuple[slice, ...]
    window: tuple[slice, ...]
    whole: bool = field(default=False)

    @property
    def elements(self) -> int:
        """How many elements lie inside."""
        count = 1
        for part in self.memory:
            count *= part.stop - part.start
        return count


def fresh_shared(name: str, dtype: DType, shape: tuple[int, ...]) -> Memory:
    """Return a shared buffer that was never written: NaN, or bytes of POISON."""
    data = np.empty(shape, dtype.numpy)
    if dtype.is_float:
        data[...] = np.nan
    elif dtype.is_integer:
        data.view(np.uint8)[...] = POISON
    else:
        data[...] = True
    return Memory(name, data, shared=True)


def clip(shape: tuple[int, ...], starts: Sequence[int], extents: Sequence[int]) -> Box:
    """Return the part of the window `starts`, `extents` that lies inside an array of `shape`."""
    inner: list[slice] = []
    outer: list[slice] = []
    for size, start, extent in zip(shape, starts, extents, strict=True):
        first, past = min(max(start, 0), size), min(max(start + extent, 0), size)
        inner.append(slice(first, past))
        outer.append(slice(first - start, past - start) if past > first else slice(0, 0))
    whole = all(s >= 0 and s + e <= n for n, s, e in zip(shape, starts, extents, strict=True))
    return Box(tuple(extents), tuple(inner), tuple(outer), whole)


def load(data: Numbers, box: Box) -> Numbers:
    """Return a copy of the window, with zeros outside the array."""
    tile = np.zeros(box.extents, data.dtype)
    tile[box.window] = data[box.memory]
    return tile


def store(data: Numbers, box: Box, tile: Numbers, exists: NDArray[np.bool_] | None = None) -> None:
    """Write the part of `tile` (any shape with the window's number of elements) that lies inside the array.

    exists: the elements to write, of the tile's shape; None: all
    """
    values = np.reshape(tile, box.extents)[box.window]
    if exists is not None:
        values = np.where(np.reshape(exists, box.extents)[box.window], values, data[box.memory])
    data[box.memory] = values


def inside(shape: tuple[int, ...], indices: Sequence[Numbers]) -> NDArray[np.bool_]:
    """Return where an index, given axis by axis, lies inside an array of `shape`."""
    result: NDArray[np.bool_] = np.asarray(True)
    for size, index in zip(shape, indices, strict=True):
        result = (index >= 0) & (index < size) & result
    return result


def flat(shape: tuple[int, ...], indices: Sequence[Numbers]) -> NDArray[np.int64]:
    """Return the row-major number of each element; every index is inside."""
    number: NDArray[np.int64] = np.zeros((), np.int64)
    for size, index in zip(shape, indices, strict=True):
        number = number * size + index
    return np.asarray(number)


def flat_box(shape: tuple[int, ...], box: Box) -> NDArray[np.int64]:
    """Return the row-major numbers of the elements in the box, in order."""
    inner = tuple(part.stop - part.start for part in box.memory)
    offsets = np.indices(inner, np.int64, sparse=True)
    return flat(shape, [offset + part.start for offset, part in zip(offsets, box.memory, strict=True)]).ravel()


def first_outside(shape: tuple[int, ...], starts: Sequence[int], extents: Sequence[int]) -> list[int]:
    """Return an index of the window that lies outside an array of `shape`: its first one along each axis that is."""
    result: list[int] = []
    for size, start, extent in zip(shape, starts, extents, strict=True):
        beyond = size if start < size < start + extent else start
        result.append(beyond)
    return result
