"""Copy unaligned rows to shared memory, 16 bytes at a time, for elements that are too small for `cp.async`.

A lane takes 16 bytes of the tile, reads the two aligned pieces of the array that hold them, and shifts them into place.
Elements of one or two bytes would otherwise be read one by one.  Where a piece reaches past the row, its elements are.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tessera.core.layouts import Layout, blocked, coordinates
from tessera.core.mlir import Index, ir
from tessera.lowering.cuda.base.index_builder import IndexBuilder
from tessera.lowering.cuda.base.memory import address, inside
from tessera.lowering.cuda.storage.global_access import Window, load_tile, load_words
from tessera.lowering.cuda.storage.register_tiles import shared_pointer, to_words
from tessera.lowering.cuda.storage.shared_access import Cursor
from tessera.lowering.cuda.storage.shared_tile import SharedTile
from tessera.lowering.cuda.storage.warps import ROLLED, WarpSet

_UNIT: Final = 16
_WORDS: Final = 4
_TOGETHER: Final = 2
"""Bits of the number of pieces whose reads are in flight together: they take eight registers each."""


@dataclass(frozen=True, slots=True)
class _Piece:
    """16 bytes of a tile: their place in it, and in the array.

    shift: bytes that they begin behind an aligned address, an i32
    partly: an i1: some of them, but not all that is read for them, lie in the row
    words: the eight words at that address (i32), zeros where not all are in the row
    """

    place: Sequence[int]
    start: Sequence[Index]
    shift: ir.Value
    partly: ir.Value
    words: Sequence[ir.Value]


def copy_shifted(build: IndexBuilder, warp_set: WarpSet, window: Window, target: SharedTile) -> None:
    """Copy a window whose rows have no gaps between elements of at most two bytes; zeros outside the array."""
    panels = target.panels
    count = _UNIT // panels.size
    layout = blocked((panels.rows, panels.columns), count, warp_set.bits)
    together = count.bit_length() - 1 + _TOGETHER
    part = Layout(layout.shape, layout.registers[:together], layout.lanes, layout.warps)
    if part == layout:
        _copy(build, warp_set, window, target, part)
        return
    # The other bits are rows, enough of them that the swizzle of the part repeats.
    step, _ = coordinates(layout.registers[together], layout.shape)
    axis = next(axis for axis in range(len(window.starts)) if axis not in window.dropped)

    def rows(first: Index, _: Sequence[ir.Value]) -> Sequence[ir.Value]:
        starts = list(window.starts)
        starts[axis] = build.add(starts[axis], first)
        offset = build.to_word(build.mul(first, panels.swizzle))
        place = build.value("arith.addi", [target.address, offset], "i32")
        _copy(build, warp_set, replace(window, starts=tuple(starts)), replace(target, address=place), part)
        return []

    build.loop(0, panels.rows, step, [], rows, ROLLED)


def _copy(build: IndexBuilder, warp_set: WarpSet, window: Window, target: SharedTile, layout: Layout) -> None:
    """Copy the elements of a layout, the reads of all of which are in flight together."""
    count = _UNIT // target.panels.size
    places = warp_set.places(layout)
    cursor = Cursor(build, target, *places.parts(0)[0])
    held = Layout(layout.shape, layout.registers[: count.bit_length() - 1], layout.lanes, layout.warps)
    with build.when(warp_set.owns(layout)):
        pieces: list[_Piece] = []
        for register in range(0, layout.count, count):
            place = coordinates(layout.element(register), layout.shape)
            indices = window.place(build, places.indices(register))
            pieces.append(_read(build, window, place, window.place(build, place), indices, count))
        for piece in pieces:
            _write(build, cursor, piece.place, _shifted(build, piece.words, piece.shift))
        for piece in pieces:
            with build.when(piece.partly):
                moved = replace(window, starts=tuple(piece.start))
                values = load_tile(build, warp_set, moved, held, target.element).values
                _write(build, cursor, piece.place, to_words(build, values))


def _read(
    build: IndexBuilder,
    window: Window,
    place: Sequence[int],
    start: Sequence[Index],
    indices: Sequence[Index],
    count: int,
) -> _Piece:
    """Start to read what holds `count` elements at `indices` of the array; `start`: those of lane 0's piece."""
    memory, last, size = window.memory, len(indices) - 1, _UNIT // count
    pointer = address(build, memory, indices)
    shift = build.bits(build.value("llvm.ptrtoint", [pointer], "i64"), _UNIT - 1)
    aligned = build.offset(pointer, build.sub(0, shift), "i8")
    split = build.compare("ne", shift, 0)
    begin = build.sub(build.mul(indices[last], size), shift)
    end = build.add(begin, build.select(split, 2 * _UNIT, _UNIT))
    row = inside(build, memory, [*indices[:-1], 0], (*window.proven[:-1], True))
    within = [build.compare("sge", begin, 0), build.compare("sle", end, build.mul(memory.extents[last], size))]
    some = [
        build.compare("sgt", build.add(indices[last], count), 0),
        build.compare("slt", indices[last], memory.extents[last]),
    ]
    if row is not None:
        within, some = [row, *within], [row, *some]
    whole = build.both(*within)
    partly = build.both(*some, build.value("arith.xori", [whole, build.constant(1, "i1")], "i1"))
    behind = build.offset(aligned, _UNIT, "i8")
    words = load_words(build, aligned, _WORDS, whole, window.hint)
    words += load_words(build, behind, _WORDS, build.both(whole, split), window.hint)
    return _Piece(place, start, build.to_word(shift), partly, words)


def _shifted(build: IndexBuilder, words: Sequence[ir.Value], shift: ir.Value) -> list[ir.Value]:
    """Extract the four words that begin `shift` bytes after the first of eight."""
    for distance in (2, 1):
        bit = build.value("arith.andi", [shift, build.word(4 * distance)], "i32")
        moves = build.compare("ne", bit, build.word(0))
        pairs = zip(words[distance:], words, strict=False)
        words = [build.select(moves, further, word) for further, word in pairs]
    low = build.value("arith.andi", [shift, build.word(3)], "i32")
    bits = build.value("arith.shli", [low, build.word(3)], "i32")
    return [build.value("llvm.intr.fshr", [words[number + 1], words[number], bits], "i32") for number in range(_WORDS)]


def _write(build: IndexBuilder, cursor: Cursor, place: Sequence[int], words: Sequence[ir.Value]) -> None:
    pointer, offset = cursor.at(*place)
    found = shared_pointer(build, build.value("arith.addi", [pointer, build.word(offset)], "i32"))
    build.store_vector(build.vector(words), found, len(words), "i32")
