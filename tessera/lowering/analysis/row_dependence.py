"""Analyse which values of a kernel can be computed row by row, for `tile-distribute-rows`.

A tile is *cut* along an axis when rows [r, r + b) of it need only rows [r, r + b) of what it is made of (and all of
whatever is not cut); so is a shared buffer of which each group needs only its own rows.  Starting from the stores,
`RowDependence.need` follows values back to loads, constants and buffers.
"""

import math
from collections.abc import Callable
from typing import Final

from tessera.core.mlir import AnyOp, ir
from tessera.core.tile.verify import is_shared, tile
from tessera.lowering.analysis.memory_accesses import extents_of
from tessera.lowering.base.attributes import dropped_axes
from tessera.lowering.base.ir_walk import body, constant, defining

SOURCES: Final = ("tessera.load", "arith.constant", "tensor.splat", "tessera.arange")
"""Operations that are cheap to have twice: once whole, once cut."""


class RowDependence:
    """The tiles, loads and uses that are cut so far.

    axes: each cut tile's or buffer's axis
    loads: each cut load of an array, with the axis of the array
    uses: the operands (operation, number) that need only their own rows; every other use needs them all
    """

    def __init__(self) -> None:
        self.axes: dict[ir.Value, int] = {}
        self.loads: dict[AnyOp, int] = {}
        self.uses: set[tuple[AnyOp, int]] = set()
        self._asked: list[tuple[ir.Value, int]] = []

    def need(self, op: AnyOp, number: int, axis: int) -> bool:
        """Cut operand `number` of `op` along `axis`, and all that takes; False when that is not possible.

        Follows values depth first, without recursion: a chain of operations may be thousands long.
        """
        self._ask(op, number, axis)
        waiting: list[tuple[ir.Value, int]] = []
        while self._asked or waiting:
            waiting += reversed(self._asked)
            self._asked.clear()
            if not self._cut(*waiting.pop()):
                self._asked.clear()
                return False
        return True

    def _ask(self, op: AnyOp, number: int, axis: int) -> bool:
        """Note that operand `number` of `op` has to be cut along `axis`: `need` finds out whether it can be."""
        self.uses.add((op, number))
        self._asked.append((op.operands[number], axis))
        return True

    def whole_uses(self, value: ir.Value) -> list[tuple[AnyOp, int]]:
        """Return the uses (operation, operand number) of a cut value that need all of its rows."""
        uses = [(use.owner.operation, use.operand_number) for use in value.uses]
        return [use for use in uses if use not in self.uses]

    def _cut(self, value: ir.Value, axis: int) -> bool:
        if value in self.axes:
            return self.axes[value] == axis
        self.axes[value] = axis
        op = defining(value)
        if op is None or op.name == "scf.for":
            return self._carried(value, axis)
        rule = _RULES.get(op.name)
        if rule is not None:
            return rule(self, op, axis)
        if op.name.partition(".")[0] not in ("arith", "math"):
            return False
        kinds = [v.type for v in op.operands]
        return all(self._ask(op, n, axis) for n, kind in enumerate(kinds) if isinstance(kind, ir.ShapedType))

    def _carried(self, value: ir.Value, axis: int) -> bool:
        """Cut a value that a loop carries where it enters, inside, and where it leaves."""
        if isinstance(value.owner, ir.Block):
            loop, number = value.owner.owner.operation, ir.BlockArgument(value).arg_number - 1
        else:
            loop, number = value.owner.operation, ir.OpResult(value).result_number
        if loop.name != "scf.for" or number < 0:
            return False
        block = body(loop)
        self.axes |= {block.arguments[1 + number]: axis, loop.results[number]: axis}
        last = list(block.operations)[-1].operation
        return self._ask(loop, 3 + number, axis) and self._ask(last, number, axis)

    def load(self, op: AnyOp, axis: int) -> bool:
        """Cut a load along the axis of the memory that its tile's axis is; of a shared buffer it reads all rows."""
        axis = memory_axis(op, axis)
        if not is_shared(op.operands[0].type):
            self.loads[op] = axis
            return True
        all_rows = (
            constant(op.operands[1 + axis]) == 0
            and extents_of(op)[axis] == ir.ShapedType(op.operands[0].type).shape[axis]
        )
        return all_rows and self._ask(op, 0, axis)

    def source(self, op: AnyOp, _axis: int) -> bool:
        """Constants, splats and buffers can have any number of rows."""
        return op.name != "arith.constant" or bool(ir.DenseElementsAttr(op.attributes["value"]).is_splat)

    def broadcast(self, op: AnyOp, axis: int) -> bool:
        """Need a repeated row whole; cut others."""
        return tile(op.operands[0].type)[0][axis] == 1 or self._ask(op, 0, axis)

    def reshape(self, op: AnyOp, axis: int) -> bool:
        """Rows stay rows where an axis before and one after have as many elements around them."""
        before, after = tile(op.operands[0].type)[0], tile(op.results[0].type)[0]
        for candidate, extent in enumerate(before):
            if extent == after[axis] and math.prod(before[:candidate]) == math.prod(after[:axis]):
                return self._ask(op, 0, candidate)
        return False

    def transpose(self, op: AnyOp, axis: int) -> bool:
        """Cut the operand along the axis that becomes the row axis."""
        return self._ask(op, 0, list(ir.DenseI64ArrayAttr(op.attributes["permutation"]))[axis])

    def reduce(self, op: AnyOp, axis: int) -> bool:
        """Cut the operand where the reduction is along another axis."""
        if "axis" not in op.attributes:
            return False
        return self._ask(op, 0, axis if axis < ir.IntegerAttr(op.attributes["axis"]).value else axis + 1)

    def softmax(self, op: AnyOp, axis: int) -> bool:
        """Cut the operand as that of a reduction along its axis."""
        return ir.IntegerAttr(op.attributes["axis"]).value != axis and self._ask(op, 0, axis)

    def dot(self, op: AnyOp, axis: int) -> bool:
        """Rows of a product need rows of the left factor, columns those of the right one."""
        return self._ask(op, axis, axis) and (len(op.operands) < 3 or self._ask(op, 2, axis))


def memory_axis(op: AnyOp, axis: int) -> int:
    """Return the array's axis that is axis `axis` of the tile (of a load or store) or of the buffer (of a copy)."""
    dropped = dropped_axes(op)
    return [a for a in range(len(extents_of(op))) if a not in dropped][axis]


_RULES: Final[dict[str, Callable[[RowDependence, AnyOp, int], bool]]] = {
    "tessera.load": RowDependence.load,
    "tessera.alloc": RowDependence.source,
    "arith.constant": RowDependence.source,
    "tensor.splat": RowDependence.source,
    "tessera.arange": RowDependence.source,
    "tessera.broadcast": RowDependence.broadcast,
    "tessera.reshape": RowDependence.reshape,
    "tessera.transpose": RowDependence.transpose,
    "tessera.reduce": RowDependence.reduce,
    "tessera.softmax": RowDependence.softmax,
    "tessera.dot": RowDependence.dot,
}
