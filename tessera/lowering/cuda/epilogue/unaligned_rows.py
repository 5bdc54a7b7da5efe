"""Store 16-bit elements to unaligned rows: each warp gathers its rows, and writes whole words of them.

Lanes hold pairs of neighbouring accumulators, eight rows at a time: from there, rows that begin at odd elements would
take a store for each element.  A warp's own rows go through its own shared memory instead, where lanes find the words
as the array has them; no other warp has to be waited for.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tessera.core.layouts import Layout, coordinates
from tessera.core.mlir import AnyOp, Index, ir
from tessera.lowering.cuda.base.index_builder import IndexBuilder
from tessera.lowering.cuda.base.memory import address
from tessera.lowering.cuda.epilogue.tma import TmaStoreContext
from tessera.lowering.cuda.isa import sm90
from tessera.lowering.cuda.pipeline.producer_consumer import BLOCK_BYTES
from tessera.lowering.cuda.schedule.store_legality import fits_rows
from tessera.lowering.cuda.storage.global_access import Window, before_array, condition_of, store_small, store_words
from tessera.lowering.cuda.storage.register_tiles import WORD, RegisterTile, pack, shared_pointer
from tessera.lowering.cuda.storage.warps import ROLLED, WARP, WarpSet

_ELEMENT: Final = 2
_UNIT: Final = 16
ROWS: Final = 8
"""Rows that a warp holds in one register pair of each lane, and gathers at a time."""


def store_rows(host: TmaStoreContext, op: AnyOp, tile: RegisterTile, window: Window) -> bool:
    """Store a tile a row at a time, where that is possible; return False, having done nothing, where not.

    It takes tiles in the layout of an MMA's accumulators, in kernels that have memory for stores, and arrays whose rows
    have no gaps between elements.
    """
    last = len(window.starts) - 1
    if not host.stages.copies_stores or not fits_rows(tile.layout, tile.element) or last in window.dropped:
        return False
    if window.memory.strides[last] != 1 or window.left is not None:
        return False
    if host.warp_set.warps * ROWS * tile.shape[1] * _ELEMENT > host.stages.store_blocks * BLOCK_BYTES:
        return False
    build, warp_set = host.build, host.warp_set
    if host.stages.has_copied_stores:
        with build.when(warp_set.first()):  # TMA may still be reading what another store gathered there
            sm90.bulk_wait_read(build, 0)
        warp_set.wait()
    with build.when(warp_set.owns(tile.layout)):
        UnalignedRows(host, op, tile.layout, window).store(tile)
    return True


@dataclass
class _Row:
    """One row of a tile, and its destination.

    pointer: of its first element in the array; odd: whether that is an odd one (i32); count: of elements inside (i32)
    line, swizzle: where it lies in shared memory, and what its units' addresses are permuted with (i32)
    """

    pointer: ir.Value
    odd: ir.Value
    count: ir.Value
    line: ir.Value
    swizzle: ir.Value


class UnalignedRows:
    """The stores of one warp, eight rows at a time, through its part of the memory for stores."""

    def __init__(self, host: TmaStoreContext, op: AnyOp, layout: Layout, window: Window) -> None:
        self._build: IndexBuilder = host.build
        self._layout, self._window = layout, window
        build, columns = self._build, layout.shape[1]
        self._columns = columns
        self._eights = [basis // columns for basis in layout.registers if basis >= columns]
        self._pitch = columns * _ELEMENT
        self._mask = min(ROWS, self._pitch // _UNIT) - 1
        # Hidden, or what is computed from it would be hoisted out of the loop over groups, and kept in registers.
        thread = build.to_index(sm90.hidden(build, build.to_word(host.warp_set.thread)))
        self._places = WarpSet(build, thread, host.warp_set.bits).places(layout)
        lane = build.bits(thread, WARP - 1)
        mine = build.mul(build.divide(thread, WARP), ROWS * self._pitch)
        self._buffer = build.value("arith.addi", [host.stages.store_address, build.to_word(mine)], "i32")
        self._lane = build.to_word(lane)
        self._lane_index = lane
        row, pair = build.divide(lane, 4), build.bits(lane, 3)
        line = build.add(build.mul(row, self._pitch), build.mul(build.bits(row, self._mask), _UNIT))
        self._written = build.to_word(build.add(line, build.mul(pair, WORD)))
        # The elements of a row that are inside the array.
        extent = window.extents[1]
        left = build.sub(window.memory.extents[-1], window.starts[-1])
        self._inside = extent if window.proven[-1] else build.maximum(build.minimum(left, extent), 0)
        # And how many of them lie before it.
        self._before: ir.Value | None = None
        last = len(window.starts) - 1
        if last in before_array(op):
            before = build.minimum(build.maximum(build.sub(0, window.starts[-1]), 0), extent)
            self._before = build.to_word(before)
            self._window = replace(window, proven=(*window.proven[:-1], True))  # counted, whatever the first one is

    def store(self, tile: RegisterTile) -> None:
        """Gather eight rows, write them, and go on with the next."""
        for eight in range(1 << len(self._eights)):
            self.gather(tile, eight)

            def two(number: ir.Value, _: list[ir.Value], eight: int = eight) -> Sequence[ir.Value]:
                self.write_two(eight, number)
                return []

            self._build.loop(0, ROWS // 2, 1, [], two, ROLLED)

    def write_two(self, eight: Index, number: Index) -> None:
        """Write rows 2 `number` and 2 `number` + 1 of the eight rows gathered, number `eight`.

        One waits while the other works; more at a time would need more registers.
        """
        first, line = self._first(eight), self._build.mul(number, 2)
        for each in (line, self._build.add(line, 1)):
            self._write(self._row(first, each))

    def gather(self, tile: RegisterTile, eight: int) -> None:
        """Write eight rows to shared memory, after everything there has been read.

        Units of 16 bytes are permuted so that no two rows share a bank.
        """
        build, first = self._build, self._first(eight)
        everyone = build.word(-1)
        build.create("nvvm.bar.warp.sync", [everyone])
        for register in range(0, tile.layout.count, 2):
            row, column = coordinates(tile.layout.element(register), tile.shape)
            if row == first:
                place = build.value("arith.xori", [self._written, build.word(column * _ELEMENT)], "i32")
                target = build.value("arith.addi", [self._buffer, place], "i32")
                build.store(pack(build, tile.values[register : register + 2]), shared_pointer(build, target), "i32")
        build.create("nvvm.bar.warp.sync", [everyone])

    def _first(self, eight: Index) -> Index:
        """Return the first row of eight rows, counted in the order of their registers, in a warp's first lane."""
        build = self._build
        first: Index = 0
        for bit, row in enumerate(self._eights):
            first = build.add(first, build.mul(build.bits(build.divide(eight, 1 << bit), 1), row))
        return first

    def _row(self, first: Index, line: Index) -> _Row:
        """Return the row of the array that a line belongs to; `first`: the first of its eight rows."""
        build, window = self._build, self._window
        base = build.sub(self._places.indices(0)[0], build.divide(self._lane_index, 4))
        number = build.bits(line, ROWS - 1)
        row = build.add(build.add(base, first), number)
        indices = window.place(build, [row, 0])
        condition = condition_of(build, window, indices, [row, 0])
        count = build.to_word(self._inside if condition is None else build.select(condition, self._inside, 0))
        pointer = address(build, window.memory, indices)
        odd = build.bits(build.divide(build.value("llvm.ptrtoint", [pointer], "i64"), _ELEMENT), 1)
        place = build.value("arith.addi", [self._buffer, build.to_word(build.mul(line, self._pitch))], "i32")
        swizzle = build.to_word(build.mul(build.bits(number, self._mask), _UNIT))
        return _Row(pointer, build.to_word(odd), count, place, swizzle)

    def _write(self, row: _Row) -> None:
        """Write whole words, then the first and the last element, where a word has only one of this row."""
        build = self._build
        zero, one = build.word(0), build.word(1)
        lowest = zero if self._before is None else self._before
        last = build.value("arith.subi", [row.count, one], "i32")
        limit = build.value("arith.maxsi", [last, lowest], "i32")
        doubled = build.value("arith.muli", [self._lane, build.word(2)], "i32")
        begin = build.value("arith.subi", [doubled, row.odd], "i32")
        shift = build.value("arith.muli", [row.odd, build.word(8 * _ELEMENT)], "i32")
        start = build.offset(row.pointer, build.value("arith.extsi", [begin], "i64"), "i16")
        for piece in range(0, self._columns, 2 * WARP):
            here = build.value("arith.addi", [begin, build.word(piece)], "i32") if piece else begin
            condition = self._between(here, limit)
            word = self._word(row, piece // 2, shift)
            store_words(build, build.offset(start, piece, "i16"), [word], condition, self._window.hint)
        is_first = build.compare("eq", self._lane, zero)
        place = build.select(is_first, lowest, limit)
        beyond = build.value("arith.addi", [row.count, row.odd], "i32")
        above = row.odd if self._before is None else build.value("arith.addi", [self._before, row.odd], "i32")
        alone = build.value("arith.andi", [build.select(is_first, above, beyond), one], "i32")
        conditions = [
            build.compare("ult", self._lane, build.word(2)),
            build.compare("ne", alone, zero),
            build.compare("sgt", row.count, lowest),
        ]
        value = build.load(shared_pointer(build, _at(build, row, place, _ELEMENT)), "i16")
        target = build.offset(row.pointer, build.to_index(place), "i16")
        store_small(build, target, value, "i16", build.all_of(conditions), self._window.hint)

    def _between(self, place: ir.Value, limit: ir.Value) -> ir.Value:
        """Return whether `place` (i32) is below `limit` and not before the array, an i1."""
        build = self._build
        if self._before is None:
            return build.compare("ult", place, limit)
        reach = [build.value("arith.subi", [v, self._before], "i32") for v in (place, limit)]
        return build.compare("ult", *reach)

    def _word(self, row: _Row, first: int, shift: ir.Value) -> ir.Value:
        """Return word `first` + lane of a row as the array has it: one word here, or halves of two neighbours."""
        build = self._build
        one = build.word(1)
        upper = build.value("arith.addi", [self._lane, build.word(first)], "i32") if first else self._lane
        lower = build.value("arith.subi", [upper, one], "i32")
        if not first:  # there is none before the first, and it is not used
            lower = build.value("arith.maxsi", [lower, build.word(0)], "i32")
        words = [build.load(shared_pointer(build, _at(build, row, place, WORD)), "i32") for place in (upper, lower)]
        return build.value("llvm.intr.fshl", [*words, shift], "i32")


def _at(build: IndexBuilder, row: _Row, place: ir.Value, size: int) -> ir.Value:
    """Return the address in shared memory of piece number `place` (i32) of a row, each of `size` bytes."""
    offset = build.value("arith.muli", [place, build.word(size)], "i32")
    return build.value("arith.addi", [row.line, build.value("arith.xori", [offset, row.swizzle], "i32")], "i32")
