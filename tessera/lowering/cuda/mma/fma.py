"""`tessera.dot` as chains of fused multiply-adds in K order: exact products, with the same bits on every target.

Every lane has blocks of about 8 x 8 sums.  Factors lie in shared memory and are read four elements at a time: along K
where K is contiguous, and else four neighbouring rows or columns, for one K after the other.
"""

from typing import Any, Final

from tessera.core.layouts import Layout, coordinates
from tessera.lowering.cuda.base.index_builder import IndexBuilder, width
from tessera.lowering.cuda.isa.sm80 import load_shared
from tessera.lowering.cuda.storage.emit_context import TileContext
from tessera.lowering.cuda.storage.register_tiles import RegisterTile, unpack
from tessera.lowering.cuda.storage.register_to_shared import staged_operands
from tessera.lowering.cuda.storage.shared_access import Cursor
from tessera.lowering.cuda.storage.shared_tile import SharedTile
from tessera.lowering.cuda.storage.warps import ROLLED

VECTOR: Final = 4
"""Elements that are read together."""
_UNROLLED: Final = 32


def dot(host: TileContext, op: Any) -> None:
    """`a b`, or `acc + a b`: f32 sums of factors of f32 or of 16 bits."""
    build = host.build
    layout = host.layout(op.results[0])
    a_value, b_value, *sums = op.operands
    depth = a_value.type.shape[1]
    zeros = (build.constant(0.0, "f32"),) * layout.count
    values = list(host.tile(sums[0], layout).values if sums else zeros)
    bases = host.team.places(layout).parts(0)[0]
    with staged_operands(host, [a_value, b_value]) as (left, right):
        factors = [_Factor(build, tile, layout, axis, bases[axis]) for axis, tile in enumerate((left, right))]
        whole = min(depth, _UNROLLED)

        def part(first: Any, before: list[Any]) -> list[Any]:
            return _part(build, layout, [factor.at(first) for factor in factors], whole, before)

        values = part(0, values) if whole == depth else build.loop(0, depth, whole, values, part, ROLLED)
    # What frees the factors' memory is done by one lane of each warp: all have read by then.
    build.create("nvvm.bar.warp.sync", [build.word(-1)])
    host.define(op.results[0], RegisterTile(layout, "f32", tuple(values)))


def _part(build: IndexBuilder, layout: Layout, readers: list["_Reader"], depth: int, before: list[Any]) -> list[Any]:
    """The sums with the products of `depth` steps along K added, one after the other."""
    values = list(before)
    places = [coordinates(layout.element(register), layout.shape) for register in range(layout.count)]
    for step in range(0, depth, VECTOR):
        left, right = (reader.load(step) for reader in readers)
        for inner in range(VECTOR):
            for register, (row, column) in enumerate(places):
                operands = [left[row, inner], right[column, inner], values[register]]
                values[register] = build.value("math.fma", operands, "f32")
    return values


class _Factor:
    """A factor in shared memory: which of its rows (axis 0: the left one's) or columns this lane needs.

    base: the index of this lane's first one; `along`: whether K is the axis that lies contiguous
    """

    def __init__(self, build: IndexBuilder, tile: SharedTile, layout: Layout, axis: int, base: Any) -> None:
        self.build = build
        self.tile = tile
        self.base = base
        self.along = tile.transposed == (axis == 1)
        self.outer = sorted({coordinates(layout.element(r), layout.shape)[axis] for r in range(layout.count)})

    def at(self, first: Any) -> "_Reader":
        """Reads from K `first` (an index, a multiple of what is read before the next call) on."""
        places = (self.base, first) if self.along else (first, self.base)
        return _Reader(self, Cursor(self.build, self.tile, *places))


class _Reader:
    """Reads a lane's part of a factor."""

    def __init__(self, factor: _Factor, cursor: Cursor) -> None:
        self._factor = factor
        self._cursor = cursor

    def load(self, step: int) -> dict[tuple[int, int], Any]:
        """The f32 at (row or column, K - step), for four of K."""
        factor = self._factor
        found: dict[tuple[int, int], Any] = {}
        if factor.along:
            for outer in factor.outer:
                for inner, value in enumerate(self._vector(outer, step)):
                    found[outer, inner] = value
            return found
        for inner in range(VECTOR):
            for outer in factor.outer[::VECTOR]:
                for next_one, value in enumerate(self._vector(step + inner, outer)):
                    found[outer + next_one, inner] = value
        return found

    def _vector(self, row: int, column: int) -> list[Any]:
        build, element = self._factor.build, self._factor.tile.element
        address, offset = self._cursor.at(row, column)
        if element == "f32":
            return load_shared(build, address, offset, VECTOR, element)
        words = load_shared(build, address, offset, VECTOR * width(element) // 32, "i32")
        halves = [value for word in words for value in unpack(build, word, element)]
        return [build.value("arith.extf", [value], "f32") for value in halves]
