"""Supply memory to a run of a graph: arrays of the caller's library, and parts of one array as an arena."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from tessera.core.base.dtypes import BY_NAME
from tessera.core.graph.graph import Tensor
from tessera.runtime.arrays.interop import library_of
from tessera.runtime.arrays.pointers import address
from tessera.runtime.memory.operands import Operand, empty, operand, typed_part
from tessera.runtime.memory.owned import DeviceArray

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


def arena_of(supply: Supply, size: int) -> Operand[object]:
    """Allocate an arena."""
    return supply.array(Tensor(BY_NAME["u8"], (size if supply.like.on_device else size + _LINE,)), "arena")
