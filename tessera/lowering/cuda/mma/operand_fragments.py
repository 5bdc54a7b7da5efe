"""Parts of a factor in shared memory, as the tensor cores want them in the registers of a warp.

A matrix is 8 rows (of a right factor: columns) by 16 bytes of K, a word of 32 bits a lane: lane 4 r + t has word t of
row r.
"""

from typing import Any, Final

from tessera.core.layouts import Layout
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
    """How far the next row, the second next and the fourth next of a block of 8 lie apart in sums of this layout.

    axis: 0 for rows, 1 for columns.  A block's rows and columns may be any eight, as long as sums agree with factors.
    """
    return layout.lanes[2:] if axis == 0 else (layout.registers[0], *layout.lanes[:2])


def _first(team: WarpSet, layout: Layout, axis: int, lanes: tuple[int, ...]) -> Any:
    """The index along an axis of what lanes of these bases begin with."""
    return team.places(Layout(layout.shape, (), lanes, layout.warps)).parts(0)[0][axis]


class Matrices:
    """Reads 8 rows (or columns) of a factor and 16 bytes of K at a time, by `ldmatrix`.

    layout: of the sums, of which the factor has axis `axis`
    halves: which bits of a lane's number, 3 or 4, say in which half of the 16 rows and of the 32 bytes its matrix is
    """

    def __init__(
        self, build: IndexBuilder, team: WarpSet, tile: SharedTile, layout: Layout, axis: int, halves: tuple[int, int]
    ) -> None:
        self._along = tile.transposed == (axis == 1)
        self._build = build
        lane, depth = team.thread, _UNIT // tile.panels.size
        outer, inner = (
            build.mul(build.bits(build.divide(lane, 1 << bit), 1), extent)
            for bit, extent in zip(halves, (EIGHT, depth), strict=True)
        )
        if self._along:
            first = _first(team, layout, axis, (*_lines(layout, axis), 0, 0))
            self._cursor = Cursor(build, tile, build.add(first, outer), inner)
        else:
            first = _first(team, layout, axis, (0,) * _LANE_BITS)
            self._cursor = Cursor(build, tile, build.add(inner, build.bits(lane, EIGHT - 1)), build.add(first, outer))

    def load(self, outer: int, step: int, count: int) -> list[Any]:
        """`count` matrices: rows (or columns) from `outer` and K from `step` on."""
        address, offset = self._cursor.at(outer, step) if self._along else self._cursor.at(step, outer)
        return load_matrices(self._build, address, offset, count, transposed=not self._along)


class Words:
    """Reads the same words as `Matrices`, of f32 whose outer axis is contiguous, one by one."""

    def __init__(
        self, build: IndexBuilder, team: WarpSet, tile: SharedTile, layout: Layout, axis: int, halves: tuple[int, int]
    ) -> None:
        self._build = build
        first = _first(team, layout, axis, (0, 0, *_lines(layout, axis)))
        self._cursor = Cursor(build, tile, build.bits(team.thread, _FOUR - 1), first)
        self._outer_first = halves[0] < halves[1]

    def load(self, outer: int, step: int, count: int) -> list[Any]:
        """`count` words: rows (or columns) from `outer` and K from `step` on."""
        found: list[Any] = []
        for number in range(count):
            low, high = number & 1, number >> 1
            far, deep = (low, high) if self._outer_first else (high, low)
            address, offset = self._cursor.at(step + _FOUR * deep, outer + EIGHT * far)
            found += load_shared(self._build, address, offset, 1, "i32")
        return found
