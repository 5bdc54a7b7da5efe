"""Tiles in registers: one MLIR scalar for each element a lane holds, and moving them from one layout to another."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tessera.core.layouts import Change, Layout, swizzled
from tessera.lowering.target.cuda.build import SHARED, Build, width
from tessera.lowering.target.cuda.tiles.team import Team

WORD: Final = 4
_SWIZZLE: Final = 128


@dataclass(frozen=True, slots=True, eq=False)
class RegisterTile:
    """A tile whose element in register r of this lane is `values[r]`.

    element: MLIR text of the element type
    again: gives the tile in any layout, where computing it again is cheaper than moving it
    """

    layout: Layout
    element: str
    values: tuple[Any, ...]
    again: "Callable[[Layout], RegisterTile] | None" = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents, powers of two."""
        return self.layout.shape


def vector_bits(layout: Layout, most: int) -> int:
    """How many of the lowest element bits are the lowest register bits: 2 ** n neighbours in neighbouring registers."""
    count = 0
    while count < min(most, len(layout.registers)) and layout.registers[count] == 1 << count:
        count += 1
    return count


def permuted(tile: RegisterTile, layout: Layout) -> RegisterTile | None:
    """The tile in a layout that gives every lane the same elements, or fewer; None where lanes would have to talk."""
    old = tile.layout
    if any(a not in (b, 0) for a, b in zip((*old.lanes, *old.warps), (*layout.lanes, *layout.warps), strict=True)):
        return None
    places = {old.element(register): register for register in range(old.count)}
    # Where a lane's basis was 0 and is not any more, the element number has that lane's bit, and so has the register.
    mine = (*layout.lanes, *layout.warps)
    if any(a != b for a, b in zip((*old.lanes, *old.warps), mine, strict=True)):
        return None
    wanted = [places.get(layout.element(register)) for register in range(layout.count)]
    if any(place is None for place in wanted):
        return None
    return RegisterTile(layout, tile.element, tuple(tile.values[place] for place in wanted if place is not None))


def convert(build: Build, team: Team, tile: RegisterTile, layout: Layout, scratch: Any) -> RegisterTile:
    """Move a tile to another layout through shared memory at `scratch` (a pointer), which holds the whole tile.

    Waits for the team before and after writing, so the same memory can be used again and again.
    """
    stored = "i8" if tile.element == "i1" else tile.element
    team.wait()
    _write(build, team, tile, stored, scratch)
    team.wait()
    size = width(stored) // 8
    places = team.places(layout)
    values: list[Any] = []
    for register in range(layout.count):
        pointer = _pointer(build, scratch, places.base, layout.element(register), size)
        value = build.load(pointer, stored)
        if tile.element == "i1":
            value = build.compare("ne", value, build.constant(0, stored))
        values.append(value)
    return RegisterTile(layout, tile.element, tuple(values))


def _write(build: Build, team: Team, tile: RegisterTile, stored: str, scratch: Any) -> None:
    size = width(stored) // 8
    layout = tile.layout
    places = team.places(layout)
    with build.when(team.owns(layout)):
        for register, value in enumerate(tile.values):
            if str(value.type) == "i1":
                value = build.value("arith.extui", [value], stored)
            build.store(value, _pointer(build, scratch, places.base, layout.element(register), size), stored)


def _pointer(build: Build, scratch: Any, base: Any, element: int, size: int) -> Any:
    """The address of an element: row-major, swizzled so that columns meet different banks.

    The swizzle is linear, so that of the lane's part and of the register's part can be computed apart.
    """
    lane = build.mul(base, size)
    spread = build.mul(build.bits(build.divide(lane, _SWIZZLE), _SWIZZLE // 16 - 1), 16)
    return build.offset(scratch, build.xor(build.xor(lane, spread), swizzled(element * size, _SWIZZLE)), "i8")


def broadcast(tile: RegisterTile, layout: Layout) -> RegisterTile:
    """A tile with extents of 1, repeated along them: `tile` lies in `layout.sliced(...)`, so every lane has its part."""
    repeated = {axis for axis, (a, b) in enumerate(zip(tile.shape, layout.shape, strict=True)) if a != b}
    change = Change.drop(layout.shape, repeated)
    values = [
        tile.values[tile.layout.register_of(change(layout.element(register)))] for register in range(layout.count)
    ]
    return RegisterTile(layout, tile.element, tuple(values))


# -- packing -----------------------------------------------------------------------------------------------------


def pack(build: Build, values: Sequence[Any]) -> Any:
    """An i32 of one 32-bit or two 16-bit values, the first in the low half."""
    if len(values) == 1:
        return values[0] if str(values[0].type) == "i32" else build.value("llvm.bitcast", [values[0]], "i32")
    kind = f"vector<{len(values)}x{values[0].type}>"
    vector = build.value("llvm.mlir.poison", [], kind)
    for number, value in enumerate(values):
        vector = build.value("llvm.insertelement", [vector, value, build.word(number)], kind)
    return build.value("llvm.bitcast", [vector], "i32")


def unpack(build: Build, word: Any, element: str) -> list[Any]:
    """The 32-bit or 16-bit values of an i32."""
    if width(element) == 8 * WORD:
        return [word if element == "i32" else build.value("llvm.bitcast", [word], element)]
    count = 8 * WORD // width(element)
    vector = build.value("llvm.bitcast", [word], f"vector<{count}x{element}>")
    return [build.value("llvm.extractelement", [vector, build.word(n)], element) for n in range(count)]


def shared_pointer(build: Build, address: Any) -> Any:
    """A pointer of an i32 address of shared memory."""
    return build.value("llvm.inttoptr", [address], SHARED)
