"""Guards of a launch plan: each compares one argument with that of the last call, and patches what has changed.

torch, cupy and our own arrays are read through their own attributes, which takes a tenth of the time DLPack does.  All
that a launch depends on is compared, so that arrays which come and go are told apart by what they are, not by their
identity.
"""

import struct
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from tessera.core.artifact import Binding
from tessera.core.program.types import Array, Scalar
from tessera.runtime.arrays.host import AnyArray
from tessera.runtime.arrays.interop import is_cupy, is_jax, is_torch, writes_unseen
from tessera.runtime.arrays.pointers import address
from tessera.runtime.arrays.protocols import CupyArray, JaxArray, TorchTensor
from tessera.runtime.binding.argument_packing import FORMATS
from tessera.runtime.launch.parameter_buffer import ParameterBuffer
from tessera.runtime.memory.owned import DeviceArray

WINDOW_ALIGNMENT: Final = 16
"""Bytes: of the address of an array that bulk copies read, and of one whose type says that its rows are aligned."""


_NOTHING: Final = object()
NOWHERE: Final = -1
"""The address of no array."""


@dataclass(frozen=True, slots=True)
class ParameterPlace:
    """The parameters of a block that hold one argument's address or number: their numbers among the slots."""

    block: ParameterBuffer
    slots: tuple[int, ...]


class Guard(Protocol):
    """One argument."""

    def matches_and_patch(self, value: object) -> bool:
        """Write `value` in the place of the last one; return False where the launch has to be bound in full."""
        ...


class NumberGuard:
    """A number; a bf16 one is never patched."""

    def __init__(self, value: object, kind: Scalar, place: ParameterPlace) -> None:
        self._type: type = type(value)
        self._value = value
        self._block = place.block
        self._places = tuple(place.block.place(slot) for slot in place.slots)
        name = kind.dtype.name
        # `struct` checks the range of all but bf16, which it cannot write.
        known = name in FORMATS and name != "bf16"
        self._pack: Callable[..., None] | None = struct.Struct("<" + FORMATS[name]).pack_into if known else None

    def matches_and_patch(self, value: object) -> bool:
        """See `Guard`."""
        if value is self._value:
            return True
        pack = self._pack
        if type(value) is not self._type or pack is None:
            return False
        # Whatever ends this early, even Ctrl-C, the next number has to be written again: `struct` may leave zeros.
        self._value = _NOTHING
        block = self._block
        try:
            for place in self._places:
                pack(block.memory, place, value)
        except (struct.error, OverflowError):
            return False
        block.version += 1
        self._value = value
        return True


class ArrayGuard:
    """An array on a device.

    start, end: the bytes that it covers; alignment: of its address, in bytes
    mapped: the address that the tensor maps on it are made for
    """

    def __init__(self, view: AnyArray, binding: Binding, device: int, place: ParameterPlace) -> None:
        self.pointer = address(view)
        self.mutable = binding.mutable
        self.device = device
        self.dense = bool(view.flags.c_contiguous)
        self.layout = (view.shape, view.strides)
        aligned = isinstance(binding.type, Array) and binding.type.aligned
        self.alignment = WINDOW_ALIGNMENT if aligned else view.itemsize
        spans = [(extent - 1) * stride for extent, stride in zip(view.shape, view.strides, strict=True)]
        self._low = sum(min(0, span) for span in spans)
        self._high = sum(max(0, span) for span in spans) + view.itemsize
        self.start, self.end = self.pointer + self._low, self.pointer + self._high
        self.mapped = self.pointer
        self._block = place.block
        self._words = tuple(place.block.word(slot) for slot in place.slots)

    def move(self, pointer: int) -> bool:
        """Take the address of another array on this one's device; False where it is not aligned as this was."""
        if pointer % self.alignment:
            return False
        self.pointer = NOWHERE  # until everything else agrees with it: Ctrl-C may come between any two of these lines
        self.start, self.end = pointer + self._low, pointer + self._high
        for word in self._words:
            word.value = pointer
        block = self._block
        block.version += 1
        block.moved = True
        self.pointer = pointer
        return True

    def meets(self, other: "ArrayGuard") -> bool:
        """Return whether this array, which is written, may share bytes with `other` without being the same array."""
        if self.start >= other.end or other.start >= self.end:
            return False
        return other.mutable or self.pointer != other.pointer or self.layout != other.layout


class TorchGuard(ArrayGuard):
    """A torch tensor."""

    def __init__(
        self, value: TorchTensor, view: AnyArray, binding: Binding, device: int, place: ParameterPlace
    ) -> None:
        super().__init__(view, binding, device, place)
        self._type: type[TorchTensor] = type(value)
        self._shape, self._strides, self._dtype = value.shape, value.stride(), value.dtype

    def matches_and_patch(self, value: object) -> bool:
        """See `Guard`."""
        if (
            type(value) is not self._type
            or value.shape != self._shape
            or not (value.is_contiguous() if self.dense else value.stride() == self._strides)
            or value.dtype is not self._dtype
            or value.is_neg()
            or (self.mutable and value.requires_grad and writes_unseen(value))
        ):
            return False
        pointer = value.data_ptr()
        return pointer == self.pointer or (value.get_device() == self.device and self.move(pointer))


class CupyGuard(ArrayGuard):
    """A cupy array."""

    def __init__(self, value: CupyArray, view: AnyArray, binding: Binding, device: int, place: ParameterPlace) -> None:
        super().__init__(view, binding, device, place)
        self._type: type[CupyArray] = type(value)
        self._shape, self._strides, self._dtype = value.shape, value.strides, value.dtype

    def matches_and_patch(self, value: object) -> bool:
        """See `Guard`."""
        if (
            type(value) is not self._type
            or value.shape != self._shape
            or value.strides != self._strides
            or value.dtype is not self._dtype
        ):
            return False
        memory = value.data
        pointer = memory.ptr
        return pointer == self.pointer or (memory.device_id == self.device and self.move(pointer))


class DeviceArrayGuard(ArrayGuard):
    """A `DeviceArray`."""

    def __init__(
        self, value: DeviceArray, view: AnyArray, binding: Binding, device: int, place: ParameterPlace
    ) -> None:
        super().__init__(view, binding, device, place)
        self._layout = value.layout

    def matches_and_patch(self, value: object) -> bool:
        """See `Guard`."""
        if not isinstance(value, DeviceArray) or value.layout is not self._layout or value.device != self.device:
            return False
        address = value.address  # a peer's memory has one address wherever it is seen from
        return address == self.pointer or self.move(address)


class FrozenArrayGuard(ArrayGuard):
    """An array that never changes (jax): it is known by being the same object, while its memory is its own."""

    def __init__(self, value: JaxArray, view: AnyArray, binding: Binding, device: int, place: ParameterPlace) -> None:
        super().__init__(view, binding, device, place)
        self._reference = weakref.ref(value)

    def matches_and_patch(self, value: object) -> bool:
        """See `Guard`."""
        array = self._reference()
        return array is not None and array is value and not array.is_deleted()


QuickGuard = TorchGuard | CupyGuard | DeviceArrayGuard | FrozenArrayGuard
"""The guard of an array whose library has a fast path."""


def array_guard(
    value: object, view: AnyArray, binding: Binding, device: int, place: ParameterPlace
) -> QuickGuard | None:
    """Return the guard of an array that `view` stands for; None for arrays of a library that has no fast path."""
    if isinstance(value, DeviceArray):
        return DeviceArrayGuard(value, view, binding, device, place)
    if is_torch(value):
        return TorchGuard(value, view, binding, device, place)
    if is_cupy(value) and hasattr(value, "data"):
        return CupyGuard(value, view, binding, device, place)
    if is_jax(value) and hasattr(value, "is_deleted"):
        return FrozenArrayGuard(value, view, binding, device, place)
    return None


def identity(value: object) -> tuple[object, ...] | None:
    """Return the address, shape, strides and dtype of an array that has a guard; None for everything else."""
    if isinstance(value, DeviceArray):
        return (value.address, *value.layout)
    if is_torch(value):
        return (value.data_ptr(), value.shape, value.stride(), value.dtype)
    if is_cupy(value) and hasattr(value, "data"):
        return (value.data.ptr, value.shape, value.strides, value.dtype)
    return None
