"""Lower `tessera.dot` to chains of fused multiply-adds in K order: the same bits on every target.

Every lane has blocks of about 8 x 8 accumulators.  Operands lie in shared memory and are read four elements at a time:
along K where K is contiguous, otherwise four neighbouring rows or columns, for one K after the other.
"""

from typing import Final

from tessera.core.layouts import Layout, coordinates
from tessera.core.mlir import AnyOp, Index, ir
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


def dot(host: TileContext, op: AnyOp) -> None:
    """Emit `a b` or `acc + a b` with f32 accumulators and operands of f32 or 16 bits."""
    build = host.build
    layout = host.layout(op.results[0])
    a_value, b_value, *accumulators = op.operands
    depth = ir.ShapedType(a_value.type).shape[1]
    zeros = (build.constant(0.0, "f32"),) * layout.count
    values = list(host.tile(accumulators[0], layout).values if accumulators else zeros)
    bases = host.warp_set.places(layout).parts(0)[0]
    with staged_operands(host, [a_value, b_value]) as (left, right):
        operands = [_FmaOperand(build, tile, layout, axis, bases[axis]) for axis, tile in enumerate((left, right))]
        whole = min(depth, _UNROLLED)

        def part(first: Index, before: list[ir.Value]) -> list[ir.Value]:
            return _part(build, layout, [operand.at(first) for operand in operands], whole, before)

        values = part(0, values) if whole == depth else build.loop(0, depth, whole, values, part, ROLLED)
    # One lane of each warp frees the operands' memory; all lanes have read it by then.
    build.create("nvvm.bar.warp.sync", [build.word(-1)])
    host.define(op.results[0], RegisterTile(layout, "f32", tuple(values)))


def _part(
    build: IndexBuilder, layout: Layout, readers: list["_OperandReader"], depth: int, before: list[ir.Value]
) -> list[ir.Value]:
    """Add `depth` steps along K to the accumulators, in order."""
    values = list(before)
    places = [coordinates(layout.element(register), layout.shape) for register in range(layout.count)]
    for step in range(0, depth, VECTOR):
        left, right = (reader.load(step) for reader in readers)
        for inner in range(VECTOR):
            for register, (row, column) in enumerate(places):
                operands = [left[row, inner], right[column, inner], values[register]]
                values[register] = build.value("math.fma", operands, "f32")
    return values


class _FmaOperand:
    """Select the rows (axis 0: of operand A) or columns (of B) of an operand in shared memory that this lane needs.

    base: the index of this lane's first one; `along`: whether K is the contiguous axis
    """

    def __init__(self, build: IndexBuilder, tile: SharedTile, layout: Layout, axis: int, base: Index) -> None:
        self.build = build
        self.tile = tile
        self.base = base
        self.along = tile.transposed == (axis == 1)
        self.outer = sorted({coordinates(layout.element(r), layout.shape)[axis] for r in range(layout.count)})

    def at(self, first: Index) -> "_OperandReader":
        """Return a reader that begins at K = `first`, a multiple of what is read before the next call."""
        places = (self.base, first) if self.along else (first, self.base)
        return _OperandReader(self, Cursor(self.build, self.tile, *places))


class _OperandReader:
    """Read a lane's part of an operand."""

    def __init__(self, operand: _FmaOperand, cursor: Cursor) -> None:
        self._operand = operand
        self._cursor = cursor

    def load(self, step: int) -> dict[tuple[int, int], ir.Value]:
        """Load the elements at four places along K, as f32, by (row or column, K - `step`)."""
        operand = self._operand
        found: dict[tuple[int, int], ir.Value] = {}
        if operand.along:
            for outer in operand.outer:
                for inner, value in enumerate(self._vector(outer, step)):
                    found[outer, inner] = value
            return found
        for inner in range(VECTOR):
            for outer in operand.outer[::VECTOR]:
                for next_one, value in enumerate(self._vector(step + inner, outer)):
                    found[outer + next_one, inner] = value
        return found

    def _vector(self, row: int, column: int) -> list[ir.Value]:
        build, element = self._operand.build, self._operand.tile.element
        address, offset = self._cursor.at(row, column)
        if element == "f32":
            return load_shared(build, address, offset, VECTOR, element)
        words = load_shared(build, address, offset, VECTOR * width(element) // 32, "i32")
        halves = [value for word in words for value in unpack(build, word, element)]
        return [build.value("arith.extf", [value], "f32") for value in halves]
