"""Load fragments of operands from shared memory into a warp's registers, as the tensor cores expect them.

A matrix is 8 rows (of operand B: columns) by 16 bytes of K, one 32-bit word per lane: lane 4 r + t has word t of row r.
"""

from typing import Final

from tessera.core.layouts import Layout
from tessera.core.mlir import Index, ir
from tessera.lowering.cuda.base.index_builder import IndexBuilder
from tessera.lowering.cuda.isa.sm80 import load_matrices, load_shared
from tessera.lowering.cuda.storage.shared_access import Cursor
from tessera.lowering.cuda.storage.shared_tile import SharedTile
from tessera.lowering.cuda.storage.warps import WarpSet

EIGHT: Final = 8
_FOUR: Final = 4
_UNIT: Final = 16
_LANE_BITS: Final = 5


def _lines(layout: Layout, axis: int) -> tuple[int, ...]:
    """Return the distances to the next row, the second next and the fourth next of a block of 8 in this layout.

    axis: 0 for rows, 1 for columns.  A block may have any eight rows or columns, if accumulators and operands agree.
    """
    return layout.lanes[2:] if axis == 0 else (layout.registers[0], *layout.lanes[:2])


def _first(warp_set: WarpSet, layout: Layout, axis: int, lanes: tuple[int, ...]) -> Index:
    """Return the index along an axis of the first element that lanes with these bases hold."""
    return warp_set.places(Layout(layout.shape, (), lanes, layout.warps)).parts(0)[0][axis]


class Matrices:
    """Read 8 rows (or columns) of an operand and 16 bytes of K at a time, with `ldmatrix`.

    layout: of the accumulators, whose axis `axis` the operand has
    halves: the bits of a lane's number, 3 or 4, that choose the half of the 16 rows and of the 32 bytes for its matrix
    """

    def __init__(
        self,
        build: IndexBuilder,
        warp_set: WarpSet,
        tile: SharedTile,
        layout: Layout,
        axis: int,
        halves: tuple[int, int],
    ) -> None:
        self._along = tile.transposed == (axis == 1)
        self._build = build
        lane, depth = warp_set.thread, _UNIT // tile.panels.size
        outer, inner = (
            build.mul(build.bits(build.divide(lane, 1 << bit), 1), extent)
            for bit, extent in zip(halves, (EIGHT, depth), strict=True)
        )
        if self._along:
            first = _first(warp_set, layout, axis, (*_lines(layout, axis), 0, 0))
            self._cursor = Cursor(build, tile, build.add(first, outer), inner)
        else:
            first = _first(warp_set, layout, axis, (0,) * _LANE_BITS)
            self._cursor = Cursor(build, tile, build.add(inner, build.bits(lane, EIGHT - 1)), build.add(first, outer))

    def load(self, outer: int, step: int, count: int) -> list[ir.Value]:
        """Load `count` matrices from row (or column) `outer` and K = `step` on."""
        address, offset = self._cursor.at(outer, step) if self._along else self._cursor.at(step, outer)
        return load_matrices(self._build, address, offset, count, transposed=not self._along)


class Words:
    """Read the same words as `Matrices` one by one, for f32 with a contiguous outer axis."""

    def __init__(
        self,
        build: IndexBuilder,
        warp_set: WarpSet,
        tile: SharedTile,
        layout: Layout,
        axis: int,
        halves: tuple[int, int],
    ) -> None:
        self._build = build
        first = _first(warp_set, layout, axis, (0, 0, *_lines(layout, axis)))
        self._cursor = Cursor(build, tile, build.bits(warp_set.thread, _FOUR - 1), first)
        self._outer_first = halves[0] < halves[1]

    def load(self, outer: int, step: int, count: int) -> list[ir.Value]:
        """Load `count` words from row (or column) `outer` and K = `step` on."""
        found: list[ir.Value] = []
        for number in range(count):
            low, high = number & 1, number >> 1
            far, deep = (low, high) if self._outer_first else (high, low)
            address, offset = self._cursor.at(step + _FOUR * deep, outer + EIGHT * far)
            found += load_shared(self._build, address, offset, 1, "i32")
        return found
