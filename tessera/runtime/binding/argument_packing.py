"""Pack the arguments of a launch: the source of each slot's value, and the bytes that the entry point takes."""

import operator
import struct
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from tessera.core.artifact import Artifact, Slot
from tessera.core.program.types import Scalar
from tessera.runtime.arrays.host import AnyArray
from tessera.runtime.binding.grid import Shape
from tessera.runtime.binding.signature import Binder, Facts, Number

# How `struct` writes a scalar into the low bytes of an 8-byte slot; bf16 is handed over as its bits.
FORMATS: Final = {
    "f64": "d", "f32": "f4x", "f16": "e6x", "bf16": "H6x", "i64": "q", "i32": "i4x", "i16": "h6x", "i8": "b7x",
    "u64": "Q", "u32": "I4x", "u16": "H6x", "u8": "B7x", "bool": "?7x",
}  # fmt: skip
_ALIGNMENT: Final = 64


class ArgumentPacking:
    """Packs facts into slots.

    After the binder's facts come those of the launch: scaled symbols, groups along three axes, lanes, the address of
    profile records, workspaces.
    """

    def __init__(self, artifact: Artifact, binder: Binder) -> None:
        self._binder = binder
        self._artifact = artifact
        names = dict.fromkeys(slot.symbol for slot in artifact.slots if slot.kind == "symbol")
        scaled = [name for name in names if binder.symbol(name)[1] != 1]
        self._scaled = tuple(binder.symbol(name) for name in scaled)
        self._symbols = {name: binder.symbol(name)[0] for name in names}
        self._symbols |= {name: binder.size + i for i, name in enumerate(scaled)}
        self._launch = binder.size + len(scaled)
        self._workspaces = tuple(slot.bytes for slot in artifact.slots if slot.kind == "workspace")
        next_workspace = self._launch + 5
        places: list[tuple[int, str]] = []
        for slot in artifact.slots:
            if slot.kind == "workspace":
                places.append((next_workspace, "Q"))
                next_workspace += 1
            else:
                places.append(self._place(slot))
        self._pick = _picker([index for index, _ in places])
        self._pack = struct.Struct("<" + "".join(form for _, form in places)).pack

    def pack(self, facts: Facts, shape: Shape, profile: int = 0) -> tuple[bytes, Sequence[AnyArray]]:
        """Return the slots as they lie in memory, and the buffers they point to, which must outlive the launch.

        `facts` grows.  Raises OverflowError or struct.error for a number its slot cannot hold.
        """
        for index, scale in self._scaled:
            facts.append(facts[index] * scale)
        facts += shape.axes
        facts.append(shape.lanes)
        facts.append(profile)
        buffers: list[AnyArray] = []
        for size in self._workspaces:
            memory = np.zeros(size + _ALIGNMENT, np.uint8)
            buffers.append(memory)
            facts.append(-(-memory.ctypes.data // _ALIGNMENT) * _ALIGNMENT)
        return self._pack(*self._pick(facts)), buffers

    def _place(self, slot: Slot) -> tuple[int, str]:
        match slot.kind:
            case "pointer":
                return self._binder.index_of_address(slot.parameter), "Q"
            case "stride":
                return self._binder.index_of_stride(slot.parameter, slot.axis), "q"
            case "symbol":
                return self._symbols[slot.symbol], "q"
            case "grid":
                return self._launch + slot.axis, "q"
            case "lanes":
                return self._launch + 3, "q"
            case "profile":
                return self._launch + 4, "Q"
            case "scalar":
                kind = self._artifact.bindings[slot.parameter].type
                if isinstance(kind, Scalar):
                    return self._binder.index_of_address(slot.parameter), FORMATS[kind.dtype.name]
            case _:
                pass
        raise ValueError(f"{self._artifact.name}: slot {slot} has no meaning")


def _picker(indices: list[int]) -> Callable[[Facts], Sequence[Number]]:
    """Return a function that picks `indices` out of a list, always as a sequence."""
    if len(indices) >= 2:  # itemgetter gives no tuple for one
        return operator.itemgetter(*indices)
    return lambda facts: [facts[index] for index in indices]
