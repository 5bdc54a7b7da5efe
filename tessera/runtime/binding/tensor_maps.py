"""Tensor maps: windows on arrays for the GPU's bulk copies (TMA), checked, described for the driver, and kept.

The limits are those of cuTensorMapEncodeTiled in the CUDA driver's reference.  It describes no extent of 0, so an array
without elements has the window of one element that stands in for it: a zero for windows that are loaded, so that loads
give zeros as they do beside any array, and another one, which is never read, for those that are stored.
"""

import weakref
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tessera.core.artifact import Artifact, Binding, Slot, TensorMap
from tessera.core.errors.catalog import UnfitForBulkCopy
from tessera.core.program.types import Array
from tessera.runtime.arrays.host import AnyArray
from tessera.runtime.arrays.pointers import address
from tessera.runtime.driver.descriptors import Encoding
from tessera.runtime.driver.driver import Driver
from tessera.runtime.memory.alignment_copies import padded_strides
from tessera.runtime.memory.device_arrays import standing_for

MAP_BYTES: Final = 128
MAP_ALIGNMENT: Final = 64
_UNIT: Final = 16  # bytes: what addresses, strides and the box's rows are multiples of
_MOST_AXES: Final = 5
_MOST_EXTENT: Final = 1 << 32
_MOST_STRIDE: Final = 1 << 40  # bytes
_MOST_BOX: Final = 256
_PLACES: Final = 512  # arrays of one window whose maps are kept
_WINDOWS: Final = 64
_LINE: Final = 128  # bytes the copy engine fetches at least
_FLOATS: Final = {"f64": "FLOAT64", "f32": "FLOAT32", "f16": "FLOAT16", "bf16": "BFLOAT16"}
"""The driver's names of our floats; all else goes as unsigned integers of its width, a copy being a copy."""


def describe(binding: Binding, array: AnyArray, wanted: TensorMap) -> Encoding:
    """Describe the map of `array`, the argument of `binding`, for the driver.

    The address of one that is to be realigned is that of its copy, which is not known yet: 0.

    Raises UnfitForBulkCopy, naming the parameter, for an array the hardware cannot read so.
    """
    kind = binding.type
    if not isinstance(kind, Array):
        raise TypeError(f"{binding.name!r} is no array, it has no tensor map")
    start = 0 if wanted.padded_rows else address(array)
    strides = padded_strides(array) if wanted.padded_rows else array.strides
    trouble = _trouble(array, start, strides, wanted)
    if trouble:
        hint = f"pass a fresh contiguous copy of {binding.name}"
        raise UnfitForBulkCopy(f"{binding.name}: {trouble}", binding.span, hint)
    element = "TFLOAT32" if wanted.rounded else _FLOATS.get(kind.dtype.name, f"UINT{8 * array.itemsize}")
    outer = tuple(reversed(_legal(array, strides)[:-1]))
    return Encoding(element, start, tuple(reversed(array.shape)), outer, tuple(reversed(wanted.box)), wanted.swizzle)


def _legal(array: AnyArray, strides: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides in bytes; an axis of one element may have any, so it gets one that is legal."""
    pairs = zip(array.shape, strides, strict=True)
    return tuple(stride if extent > 1 else -(-array.itemsize // _UNIT) * _UNIT for extent, stride in pairs)


def _trouble(array: AnyArray, start: int, strides: tuple[int, ...], wanted: TensorMap) -> str:
    """Return the reason why the hardware cannot read this array, or an empty string."""
    size, box = array.itemsize, wanted.box
    if not 1 <= array.ndim <= _MOST_AXES or len(box) != array.ndim:
        return f"an array of {array.ndim} axes does not go with a window of {len(box)}"
    if array.size == 0 or max(array.shape) > _MOST_EXTENT:
        return f"its shape {array.shape} has an axis of no, or of more than 2^32, elements"
    if start % _UNIT:
        return f"its address {start:#x} is no multiple of {_UNIT}"
    if array.shape[-1] > 1 and strides[-1] != size:
        return "its innermost axis has gaps"
    for axis, stride in enumerate(_legal(array, strides)[:-1]):
        if stride % _UNIT or not 0 <= stride < _MOST_STRIDE:
            return f"rows along axis {axis} are {stride} bytes apart, which is no multiple of {_UNIT}"
    return _window_trouble(box, size, wanted.swizzle)


def _window_trouble(box: tuple[int, ...], size: int, swizzle: int) -> str:
    if min(box) < 1 or max(box) > _MOST_BOX:
        return f"a window of {box} elements, and {_MOST_BOX} is the most along one axis"
    row = box[-1] * size
    if row % _UNIT or (swizzle and row > swizzle):
        return f"a window's rows of {row} bytes do not fit units of {_UNIT} bytes, swizzled inside {swizzle}"
    return ""


class MappedWindow:
    """Arrays of one shape and layout, as bulk copies see them: the map of each is made where one is first seen.

    encode: makes the bytes of a map
    """

    __slots__ = ("_encode", "_encoding", "_made")

    def __init__(self, encoding: Encoding, encode: Callable[[Encoding], bytes]) -> None:
        self._encoding = encoding
        self._encode = encode
        self._made: dict[int, bytes] = {}

    def at(self, address: int) -> bytes:
        """Return the map of an array that begins at `address`, 128 bytes."""
        found = self._made.get(address)
        if found is None:
            if len(self._made) >= _PLACES:
                self._made.clear()
            found = self._made[address] = self._encode(replace(self._encoding, address=address))
        return found


class TensorMaps:
    """The maps of one artifact: its windows, which all its launches share, by their descriptions."""

    def __init__(self, artifact: Artifact, driver: Driver) -> None:
        self._artifact = artifact
        self._driver = driver
        self._windows: OrderedDict[Encoding, MappedWindow] = OrderedDict()

    def window(self, slot: Slot, array: AnyArray) -> tuple[MappedWindow, int]:
        """`slot`'s window on arrays like `array`, and where this one begins; 0 for one that is to be realigned.

        What stands in for an array without elements has its own.  Raises UnfitForBulkCopy.
        """
        described = self._describe(slot, array)
        kind = replace(described, address=0)
        found = self._windows.get(kind)
        if found is None:
            found = self._windows[kind] = MappedWindow(kind, self._driver.encode)
            if len(self._windows) > _WINDOWS:
                self._windows.popitem(last=False)
        return found, described.address

    def _describe(self, slot: Slot, array: AnyArray) -> Encoding:
        wanted = slot.tensor_map
        if wanted is None:
            raise ValueError(f"{self._artifact.name}: slot {slot} has no tensor map")
        if not array.size:
            start = _stand_ins(self._driver) + (_LINE if wanted.stored else 0)
            array = standing_for(start, (1,) * array.ndim, array.dtype, None)
            wanted = replace(wanted, padded_rows=False)
        try:
            return describe(self._artifact.bindings[slot.parameter], array, wanted)
        except UnfitForBulkCopy as error:
            raise error.with_source(self._artifact.source) from None


_standing_in: "weakref.WeakKeyDictionary[Driver, dict[int, int]]" = weakref.WeakKeyDictionary()


def _stand_ins(driver: Driver) -> int:
    """Return the address of two lines, zeros and anything, that stand in for arrays without elements."""
    made = _standing_in.setdefault(driver, {})
    context = driver.context()
    if context not in made:
        start = driver.allocate(2 * _LINE, 0)
        driver.clear(start, _LINE, 0)
        driver.wait(0)  # launches on other streams read it too
        made[context] = start
    return made[context]
