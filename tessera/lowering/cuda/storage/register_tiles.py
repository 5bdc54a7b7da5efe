"""Hold tiles in registers, one MLIR scalar for each element of a lane, and convert them from one layout to another."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tessera.core.layouts import Change, Layout, Swizzle, choose_swizzle
from tessera.core.mlir import Index, ir
from tessera.lowering.cuda.base.index_builder import SHARED, IndexBuilder, width
from tessera.lowering.cuda.storage.shared_scratch import SharedScratch
from tessera.lowering.cuda.storage.warps import WarpSet

WORD: Final = 4
_UNIT: Final = 16


@dataclass(frozen=True, slots=True, eq=False)
class RegisterTile:
    """A tile whose element in register r of this lane is `values[r]`.

    element: MLIR text of the element type
    again: computes the tile in any layout, where that is cheaper than a conversion
    """

    layout: Layout
    element: str
    values: tuple[ir.Value, ...]
    again: "Callable[[Layout], RegisterTile] | None" = None

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the extents, powers of two."""
        return self.layout.shape


@dataclass(frozen=True, slots=True, eq=False)
class Pending:
    """The accumulators of an MMA in flight; `settle` waits for it, after some values, and returns the tile."""

    settle: Callable[[Sequence[ir.Value]], RegisterTile]


def vector_bits(layout: Layout, most: int) -> int:
    """Return n where 2 ** n neighbouring elements, at most 2 ** `most`, lie in neighbouring registers."""
    count = 0
    while count < min(most, len(layout.registers)) and layout.registers[count] == 1 << count:
        count += 1
    return count


def permuted(tile: RegisterTile, layout: Layout) -> RegisterTile | None:
    """Permute registers to a layout that gives a lane the same elements, or fewer; None where lanes must exchange."""
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


def convert(
    build: IndexBuilder, warp_set: WarpSet, scratch: SharedScratch, tile: RegisterTile, layout: Layout
) -> RegisterTile:
    """Convert a tile to another layout through shared memory, with one barrier between writing and reading."""
    stored = "i8" if tile.element == "i1" else tile.element
    before, after = compressed(tile.layout, layout)
    size = width(stored) // 8
    swizzle = choose_swizzle([(each, _together(each, size)) for each in (before, after)], size)
    with scratch.exchange(warp_set, before.shape[0] * size) as memory:
        _write(build, warp_set, tile, _Buffer(build, before, stored, memory, swizzle))
        warp_set.wait()
        scratch.waited()
        values = _read(build, warp_set, _Buffer(build, after, stored, memory, swizzle))
    if tile.element == "i1":
        zero = build.constant(0, stored)
        values = [build.compare("ne", value, zero) for value in values]
    return RegisterTile(layout, tile.element, tuple(values))


def compressed(before: Layout, after: Layout) -> tuple[Layout, Layout]:
    """Return both layouts as those of one row without the bits that are 0 in all elements."""
    mask = before.used | after.used
    change, shape = Change.compress(mask), (1 << mask.bit_count(),)
    return before.map(change, shape), after.map(change, shape)


@dataclass(frozen=True, slots=True)
class _Buffer:
    """Shared memory at `pointer` that holds a tile row-major and swizzled, accessed by the lanes of one layout."""

    build: IndexBuilder
    layout: Layout
    stored: str
    pointer: ir.Value
    swizzle: Swizzle

    @property
    def count(self) -> int:
        """Return how many neighbouring registers move together."""
        return _together(self.layout, width(self.stored) // 8)

    def at(self, base: Index, register: int) -> ir.Value:
        """Return the address of the element in a register of the lane whose first element is `base`.

        The swizzle is linear, so the lane's part and the register's part are swizzled separately.
        """
        build, size = self.build, width(self.stored) // 8
        offset = lane = build.mul(base, size)
        for distance, mask in self.swizzle.shifts().items():
            lane = build.xor(lane, build.bits(build.divide(offset, 1 << distance), mask))
        return build.offset(self.pointer, build.xor(lane, self.swizzle(self.layout.element(register) * size)), "i8")


def _write(build: IndexBuilder, warp_set: WarpSet, tile: RegisterTile, buffer: _Buffer) -> None:
    layout, count, stored = buffer.layout, buffer.count, buffer.stored
    base = warp_set.base(layout)
    with build.when(warp_set.owns(layout)):
        for first in range(0, layout.count, count):
            values = list(tile.values[first : first + count])
            if tile.element == "i1":
                values = [build.value("arith.extui", [value], stored) for value in values]
            if count == 1:
                build.store(values[0], buffer.at(base, first), stored)
            else:
                vector = build.vector([_bits(build, value) for value in values])
                build.store_vector(vector, buffer.at(base, first), count, str(ir.VectorType(vector.type).element_type))


def _read(build: IndexBuilder, warp_set: WarpSet, buffer: _Buffer) -> list[ir.Value]:
    layout, count, stored = buffer.layout, buffer.count, buffer.stored
    base = warp_set.base(layout)
    values: list[ir.Value] = []
    for first in range(0, layout.count, count):
        if count == 1:
            values.append(build.load(buffer.at(base, first), stored))
        else:
            vector = build.load_vector(buffer.at(base, first), count, stored)
            values += [build.element(vector, number) for number in range(count)]
    return values


def _together(layout: Layout, size: int) -> int:
    """Return how many registers hold neighbouring elements, of `size` bytes, of a unit that swizzles leave whole."""
    return 1 << vector_bits(layout, (_UNIT // size).bit_length() - 1)


def broadcast(tile: RegisterTile, layout: Layout) -> RegisterTile:
    """Broadcast a tile along extents of 1: it lies in `layout.sliced(...)`, so every lane has its part."""
    repeated = {axis for axis, (a, b) in enumerate(zip(tile.shape, layout.shape, strict=True)) if a != b}
    change = Change.drop(layout.shape, repeated)
    values = [
        tile.values[tile.layout.register_of(change(layout.element(register)))] for register in range(layout.count)
    ]
    return RegisterTile(layout, tile.element, tuple(values))


def renamed(tile: RegisterTile, layout: Layout) -> RegisterTile:
    """Give the registers of a tile another layout, without moving anything."""
    return RegisterTile(layout, tile.element, tile.values)


def made_of(
    tile: RegisterTile, layout: Layout, make: Callable[[RegisterTile, Layout], RegisterTile],
    before: Callable[[Layout], Layout],
) -> RegisterTile:  # fmt: skip
    """Apply `make`, which takes a tile in the layout `before(layout)` to `layout`; recompute with that tile."""
    again, made = tile.again, make(tile, layout)
    if again is None:
        return made

    def anew(layout: Layout) -> RegisterTile:
        return made_of(again(before(layout)), layout, make, before)

    return replace(made, again=anew)


# -- packing -----------------------------------------------------------------------------------------------------


def pack(build: IndexBuilder, values: Sequence[ir.Value]) -> ir.Value:
    """Pack one 32-bit or two 16-bit values into an i32, the first in the low half."""
    return to_words(build, values)[0]


def unpack(build: IndexBuilder, word: ir.Value, element: str) -> list[ir.Value]:
    """Unpack the 32-bit or 16-bit values of an i32."""
    return from_words(build, [word], element)


def to_words(build: IndexBuilder, values: Sequence[ir.Value]) -> list[ir.Value]:
    """Pack values that fill whole words into i32 words, the first in the low bits."""
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
    return [_word(build, values[first : first + count]) for first in range(0, len(values), count)]


def from_words(build: IndexBuilder, words: Sequence[ir.Value], element: str) -> list[ir.Value]:
    """Unpack the values that i32 words hold."""
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


def _word(build: IndexBuilder, values: Sequence[ir.Value]) -> ir.Value:
    """Pack values that fill an i32; return the i32 that they were taken out of, where there is one."""
    whole = _whole(build, values)
    return (
        build.value("llvm.bitcast", [build.vector([_bits(build, v) for v in values])], "i32")
        if whole is None
        else whole
    )


def _whole(build: IndexBuilder, values: Sequence[ir.Value]) -> ir.Value | None:
    """Return the i32 that `from_words` took all of these values out of, in order; None if there is none."""
    sources: list[ir.Value] = []
    for number, value in enumerate(values):
        taken = value.owner
        if isinstance(taken, ir.Block) or taken.name != "llvm.extractelement":
            return None
        vector, place = taken.operands
        if build.known(place) != number:
            return None
        sources.append(vector)
    cast = sources[0].owner
    if any(vector != sources[0] for vector in sources) or isinstance(cast, ir.Block) or cast.name != "llvm.bitcast":
        return None
    (word,) = cast.operands
    return word if str(word.type) == "i32" else None


def _bits(build: IndexBuilder, value: ir.Value) -> ir.Value:
    """Return the bits of a 16-bit float as an integer; other values as they are.

    LLVM 22 loses a constant 0.0 that is put into a vector of 16-bit floats whose other elements were integers.
    """
    return build.value("llvm.bitcast", [value], "i16") if str(value.type) in ("f16", "bf16") else value


def _cut(build: IndexBuilder, value: ir.Value) -> list[ir.Value]:
    """Split a value of 64 bits into two words, the low one first."""
    vector = build.value("llvm.bitcast", [value], "vector<2xi32>")
    return [build.element(vector, number) for number in range(2)]


def shared_pointer(build: IndexBuilder, address: ir.Value) -> ir.Value:
    """Convert an i32 address of shared memory to a pointer."""
    return build.value("llvm.inttoptr", [address], SHARED)
