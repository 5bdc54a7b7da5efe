"""Tiles in registers: one MLIR scalar for each element a lane holds, and moving them from one layout to another."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tessera.core.layouts import Change, Layout, swizzled
from tessera.lowering.target.cuda.build import SHARED, Build, width
from tessera.lowering.target.cuda.tiles.room import Room
from tessera.lowering.target.cuda.tiles.team import Team

WORD: Final = 4
_SWIZZLE: Final = 128
_UNIT: Final = 16


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


def convert(build: Build, team: Team, room: Room, tile: RegisterTile, layout: Layout) -> RegisterTile:
    """Move a tile to another layout through shared memory; the team waits once, between writing and reading."""
    stored = "i8" if tile.element == "i1" else tile.element
    before, after = compressed(tile.layout, layout)
    with room.exchange(team, before.shape[0] * width(stored) // 8) as scratch:
        _write(build, team, tile, before, stored, scratch)
        team.wait()
        room.waited()
        values = _read(build, team, after, stored, scratch)
    if tile.element == "i1":
        zero = build.constant(0, stored)
        values = [build.compare("ne", value, zero) for value in values]
    return RegisterTile(layout, tile.element, tuple(values))


def compressed(before: Layout, after: Layout) -> tuple[Layout, Layout]:
    """Both layouts as those of one row without the bits that are the same in all elements."""
    mask = before.used | after.used
    change, shape = Change.compress(mask), (1 << mask.bit_count(),)
    return before.map(change, shape), after.map(change, shape)


def _write(build: Build, team: Team, tile: RegisterTile, layout: Layout, stored: str, scratch: Any) -> None:
    base, count = team.base(layout), _together(layout, stored)
    with build.when(team.owns(layout)):
        for first in range(0, layout.count, count):
            values = list(tile.values[first : first + count])
            if tile.element == "i1":
                values = [build.value("arith.extui", [value], stored) for value in values]
            pointer = _pointer(build, scratch, base, layout.element(first), width(stored) // 8)
            if count == 1:
                build.store(values[0], pointer, stored)
            else:
                build.store_vector(build.vector(values), pointer, count, stored)


def _read(build: Build, team: Team, layout: Layout, stored: str, scratch: Any) -> list[Any]:
    base, count = team.base(layout), _together(layout, stored)
    values: list[Any] = []
    for first in range(0, layout.count, count):
        pointer = _pointer(build, scratch, base, layout.element(first), width(stored) // 8)
        if count == 1:
            values.append(build.load(pointer, stored))
        else:
            vector = build.load_vector(pointer, count, stored)
            values += [build.element(vector, number) for number in range(count)]
    return values


def _together(layout: Layout, stored: str) -> int:
    """Registers whose elements lie side by side in one unit that the swizzle leaves whole."""
    return 1 << vector_bits(layout, (_UNIT * 8 // width(stored)).bit_length() - 1)


def _pointer(build: Build, scratch: Any, base: Any, element: int, size: int) -> Any:
    """The address of an element: row-major, swizzled so that columns meet different banks.

    The swizzle is linear, so that of the lane's part and of the register's part can be computed apart.
    """
    lane = build.mul(base, size)
    spread = build.mul(build.bits(build.divide(lane, _SWIZZLE), _SWIZZLE // _UNIT - 1), _UNIT)
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
    return to_words(build, values)[0]


def unpack(build: Build, word: Any, element: str) -> list[Any]:
    """The 32-bit or 16-bit values of an i32."""
    return from_words(build, [word], element)


def to_words(build: Build, values: Sequence[Any]) -> list[Any]:
    """These values, which fill whole words, as i32 words: the first in the low bits."""
    element = str(values[0].type)
    if element == "i1":
        return to_words(build, [build.value("arith.extui", [value], "i8") for value in values])
    if element == "i32":
        return list(values)
    if width(element) == 8 * WORD:
        return [build.value("llvm.bitcast", [value], "i32") for value in values]
    if width(element) > 8 * WORD:
        return [word for value in values for word in _cut(build, value)]
    count = 8 * WORD // width(element)
    return [
        build.value("llvm.bitcast", [build.vector(values[first : first + count])], "i32")
        for first in range(0, len(values), count)
    ]


def from_words(build: Build, words: Sequence[Any], element: str) -> list[Any]:
    """The values that i32 words hold."""
    if element == "i1":
        zero = build.constant(0, "i8")
        return [build.compare("ne", value, zero) for value in from_words(build, words, "i8")]
    if element == "i32":
        return list(words)
    if width(element) == 8 * WORD:
        return [build.value("llvm.bitcast", [word], element) for word in words]
    if width(element) > 8 * WORD:
        pairs = [build.vector(words[first : first + 2]) for first in range(0, len(words), 2)]
        return [build.value("llvm.bitcast", [pair], element) for pair in pairs]
    count = 8 * WORD // width(element)
    vectors = [build.value("llvm.bitcast", [word], f"vector<{count}x{element}>") for word in words]
    return [build.element(vector, number) for vector in vectors for number in range(count)]


def _cut(build: Build, value: Any) -> list[Any]:
    """The two words of a value of 64 bits, the low one first."""
    vector = build.value("llvm.bitcast", [value], "vector<2xi32>")
    return [build.element(vector, number) for number in range(2)]


def shared_pointer(build: Build, address: Any) -> Any:
    """A pointer of an i32 address of shared memory."""
    return build.value("llvm.inttoptr", [address], SHARED)
