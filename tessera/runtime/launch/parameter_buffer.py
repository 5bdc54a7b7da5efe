"""The memory a GPU kernel's parameters lie in when it is launched, written once and then patched.

Slots that `SlotPlan` packs come first, 8 bytes each, as they lie in its result; then the other words (scratch,
profile, workspace); then tensor maps, 128 bytes each and aligned to 64.
"""

import ctypes
from dataclasses import replace
from typing import Final

from tessera.core.artifact import Artifact, Slot
from tessera.runtime.binding.tensor_maps import MAP_ALIGNMENT, MAP_BYTES

_WORD: Final = 8
WORDS: Final = ("scratch", "profile", "workspace")
_MAP: Final = "tensor_map"


class ParameterLayout:
    """The layout of an artifact's slots in memory.

    packed: the artifact with those slots alone that `SlotPlan` packs, in order
    offsets: bytes from the beginning of the block, one a slot
    """

    def __init__(self, artifact: Artifact) -> None:
        self.slots = artifact.slots
        order = [*self._indices(packed=True), *self._indices(packed=False)]
        places: dict[int, int] = {}
        end = 0
        for index in order:
            is_map = self.slots[index].kind == _MAP
            if is_map:
                end = -(-end // MAP_ALIGNMENT) * MAP_ALIGNMENT
            places[index] = end
            end += MAP_BYTES if is_map else _WORD
        self.size = end
        self.offsets = tuple(places[index] for index in range(len(self.slots)))
        self.packed = replace(artifact, slots=tuple(self.slots[index] for index in self._indices(packed=True)))
        self.maps = tuple((index, slot) for index, slot in enumerate(self.slots) if slot.kind == _MAP)
        self.words = tuple((index, slot) for index, slot in enumerate(self.slots) if slot.kind in WORDS)

    def _indices(self, *, packed: bool) -> list[int]:
        """Return the slots in the order of the block: the packed ones, or words and then maps."""
        if packed:
            return [index for index, slot in enumerate(self.slots) if slot.kind != _MAP and slot.kind not in WORDS]
        others = [index for index, slot in enumerate(self.slots) if slot.kind in WORDS]
        return others + [index for index, slot in enumerate(self.slots) if slot.kind == _MAP]

    def of_kind(self, kind: str) -> tuple[tuple[int, Slot], ...]:
        """Return the slots of one kind, each with its number."""
        return tuple((index, slot) for index, slot in enumerate(self.slots) if slot.kind == kind)


class ParameterBuffer:
    """One block; `addresses` is what cuLaunchKernelEx takes: where each parameter lies.

    version: goes up with every change
    moved: an array's address has changed since overlaps and tensor maps were last brought up to date
    """

    def __init__(self, layout: ParameterLayout) -> None:
        self.version = 0
        self.moved = False
        self._layout = layout
        self.memory = ctypes.create_string_buffer(layout.size + MAP_ALIGNMENT)
        start = ctypes.addressof(self.memory)
        self._base = -(-start // MAP_ALIGNMENT) * MAP_ALIGNMENT
        self._skipped = self._base - start
        pointers = [self._base + offset for offset in layout.offsets]
        self._pointers = (ctypes.c_void_p * len(pointers))(*pointers)
        self.addresses = ctypes.c_void_p(ctypes.addressof(self._pointers))

    def fill(self, packed: bytes) -> None:
        """Write the slots that `SlotPlan` packed."""
        ctypes.memmove(self._base, packed, len(packed))

    def write(self, slot: int, value: bytes) -> None:
        """Write one slot's bytes: 8, or 128 for a tensor map."""
        ctypes.memmove(self._base + self._layout.offsets[slot], value, len(value))
        self.version += 1

    def word(self, slot: int) -> ctypes.c_uint64:
        """Return one slot's 8 bytes as a number to be read and assigned; it lives no longer than the block."""
        return ctypes.c_uint64.from_address(self._base + self._layout.offsets[slot])

    def place(self, slot: int) -> int:
        """Return the offset of one slot in `memory`."""
        return self._skipped + self._layout.offsets[slot]

    def content(self) -> bytes:
        """Return all bytes of the block."""
        return ctypes.string_at(self._base, self._layout.size)

    def copy(self) -> "ParameterBuffer":
        """Return another block with the same bytes."""
        made = ParameterBuffer(self._layout)
        made.fill(self.content())
        return made
