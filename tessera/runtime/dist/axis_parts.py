"""Cut arrays of ranks along an axis into parts that lie one after the other, and join such parts along an axis.

Collectives move buffers of one axis.  An array that is cut along its first axis is such a buffer already; along any
other one its rows are copied, by the GPU's own copies of rows or by NumPy.
"""

import math
from collections.abc import Sequence

import numpy as np

from tessera.runtime.dist.collectives import Group
from tessera.runtime.dist.engine import Buffer
from tessera.runtime.driver import driver as door
from tessera.runtime.memory.owned import DeviceArray
from tessera.runtime.streams.streams import Stream


def cut(group: Group, place: int, buffer: Buffer, shape: Sequence[int], axis: int, parts: int) -> Buffer:
    """Return the elements of an array of `shape` with equal parts along an axis one after the other."""
    outer, inner = _sides(shape, axis)
    return _exchanged(group, place, buffer, (outer, parts, inner // parts))


def join(group: Group, place: int, buffer: Buffer, shape: Sequence[int], axis: int, parts: int) -> Buffer:
    """Return an array of `shape` as a buffer, of equal parts along an axis that lie one after the other."""
    outer, inner = _sides(shape, axis)
    return _exchanged(group, place, buffer, (parts, outer, inner // parts))


def _sides(shape: Sequence[int], axis: int) -> tuple[int, int]:
    """Return how many rows there are in front of an axis, and how many elements each has from it on."""
    return math.prod(shape[:axis]), math.prod(shape[axis:])


def _exchanged(group: Group, place: int, buffer: Buffer, extents: tuple[int, int, int]) -> Buffer:
    """Exchange the first two of three axes."""
    first, second, inner = extents
    if 1 in (first, second) or not inner:
        return buffer
    if not isinstance(buffer, DeviceArray):
        return np.ascontiguousarray(buffer.reshape(extents).swapaxes(0, 1)).reshape(-1)
    found = DeviceArray(buffer.shape, buffer.dtype, buffer.device)
    api, width = door.driver(), inner * buffer.dtype.itemsize
    stream = group.stream(place)
    assert isinstance(stream, Stream)
    with api.inside(buffer.device):
        for row in range(min(first, second)):  # as few copies as there can be, of as many rows
            if second <= first:  # a copy for each of the second axis
                target, source = (found.address + row * first * width, width), (buffer.address + row * width, second * width)
                rows = first
            else:
                target, source = (found.address + row * width, first * width), (buffer.address + row * second * width, width)
                rows = second
            api.copy_rows(target, source, width, rows, stream.handle(buffer.device))
    return found
