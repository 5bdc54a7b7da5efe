"""Compute addresses in swizzled panels of shared memory as a lane's part and a constant offset."""

from typing import Final

from tessera.core.layouts import Layout, swizzled
from tessera.core.mlir import Index, ir
from tessera.lowering.cuda.base.index_builder import IndexBuilder
from tessera.lowering.cuda.storage.register_tiles import RegisterTile, shared_pointer, vector_bits
from tessera.lowering.cuda.storage.shared_tile import SharedTile, SwizzledPanels
from tessera.lowering.cuda.storage.warps import WarpSet

_LINE: Final = 128
_UNIT: Final = 16


def lane_offset(build: IndexBuilder, panels: SwizzledPanels, row: Index, column: Index) -> ir.Value:
    """Return the byte offset of the element at (row, column), two indices, in its panels, an i32."""
    panel = build.divide(column, panels.width)
    rest = build.mul(build.remainder(column, panels.width), panels.size)
    line = build.add(build.mul(row, panels.swizzle), rest)
    units = panels.swizzle // _UNIT
    spread = build.mul(build.bits(build.divide(line, _LINE), units - 1), _UNIT) if units > 1 else 0
    return build.to_word(build.add(build.xor(line, spread), build.mul(panel, panels.panel_bytes)))


class Cursor:
    """Addresses for a lane whose own part of row and column is `row`, `column` (indices).

    The offset given to `at` must share no bit with the lane's part: the swizzle is linear, so both are computed
    separately.  The part of an offset above a line of 128 bytes is left to the instruction.
    """

    def __init__(self, build: IndexBuilder, tile: SharedTile, row: Index, column: Index) -> None:
        self._build = build
        self._panels = tile.panels
        self._base = tile.address
        self._lane = lane_offset(build, tile.panels, row, column)
        self._known: dict[int, ir.Value] = {}

    def at(self, row: int, column: int) -> tuple[ir.Value, int]:
        """Return the address (an i32) of the element that many rows and columns further, and the bytes to add to it."""
        panels, build = self._panels, self._build
        panel, rest = divmod(column, panels.width)
        offset = panel * panels.panel_bytes + swizzled(row * panels.swizzle + rest * panels.size, panels.swizzle)
        low = offset % _LINE
        if low not in self._known:
            lane = build.value("arith.xori", [self._lane, build.word(low)], "i32") if low else self._lane
            self._known[low] = build.value("arith.addi", [self._base, lane], "i32")
        return self._known[low], offset - low


def read_vector(build: IndexBuilder, warp_set: WarpSet, vector: SharedTile, layout: Layout) -> RegisterTile:
    """Load a tile of one axis from consecutive elements of shared memory."""
    size = vector.panels.size
    count = 1 << vector_bits(layout, (_UNIT // size).bit_length() - 1)
    lane = build.to_word(build.mul(warp_set.places(layout).parts(0)[0][0], size))
    base = shared_pointer(build, build.value("arith.addi", [vector.address, lane], "i32"))
    values: list[ir.Value] = []
    for register in range(0, layout.count, count):
        pointer = build.offset(base, layout.element(register), vector.element)
        if count == 1:
            values.append(build.load(pointer, vector.element))
        else:
            loaded = build.load_vector(pointer, count, vector.element)
            values += [build.element(loaded, number) for number in range(count)]
    return RegisterTile(layout, vector.element, tuple(values))
