"""Emit a sum by index for machines without lanes: tiles of columns, which go over the indices in order.

    before: SCATTER [scatter_add(index, values)]
    after:  for b, c in blocks of columns: out[b, :, c:c+1024] = 0
                for n in range(N): out[b, index[n], c:c+1024] += values[b, n, c:c+1024]

Arrays are passed with three axes: those before the one that is indexed as one, it, and those behind it as one.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Final, cast

from tessera.core.base.dtypes import i64
from tessera.core.graph.graph import Node
from tessera.core.graph.graph import Value as Tensor
from tessera.core.program.build import ProgramBuilder, element_of
from tessera.core.program.program import Value
from tessera.core.schedule.plan import Group
from tessera.lowering.schedule.emit.tiles import Arrays

_BLOCK: Final = 1024
"""Columns of a tile."""


def scatter_shapes(node: Node) -> dict[Tensor, tuple[int, ...]]:
    """Return the shapes in which the arrays of a sum by index are passed."""
    index, values = node.operands
    axis, shape = cast("int", node.attributes["axis"]), node.result.type.shape
    before, after = prod(shape[:axis]), prod(shape[axis + 1 :])
    picked = prod(index.type.shape)
    return {index: (picked,), values: (before, picked, after), node.result: (before, shape[axis], after)}


class ScatterTileEmitter:
    """Emits one `scatter_add`.  arrays: parameters of what is read and of what is written."""

    def __init__(self, builder: ProgramBuilder, group: Group, arrays: Arrays) -> None:
        self.builder = builder
        (node,) = group.members
        index, values = node.operands
        self.index, self.values, self.out = arrays.read[index], arrays.read[values], arrays.written[node.result]
        self.before, self.rows, self.columns = scatter_shapes(node)[node.result]
        self.picked = scatter_shapes(node)[index][0]
        self.block = min(_BLOCK, 1 << (max(1, self.columns) - 1).bit_length())

    def emit(self) -> None:
        """Emit the whole kernel."""
        build = self.builder
        zero, one = build.index(0), build.index(1)

        def rows(batch: Value, _: Sequence[Value]) -> Sequence[Value]:
            build.loop(zero, build.index(self.columns), build.index(self.block), (), columns(batch), "tile")
            return ()

        def columns(batch: Value) -> Callable[[Value, Sequence[Value]], Sequence[Value]]:
            def body(start: Value, _: Sequence[Value]) -> Sequence[Value]:
                self._clear(batch, start)
                self._add(batch, start)
                return ()

            return body

        build.loop(zero, build.index(self.before), one, (), rows, "tile")

    def _clear(self, batch: Value, start: Value) -> None:
        build, dtype = self.builder, element_of(self.out)
        nothing = build.full(build.constant(0.0 if dtype.is_float else 0, dtype), (self.block,))

        def body(row: Value, _: Sequence[Value]) -> Sequence[Value]:
            build.store(self.out, nothing, (batch, row, start), (1, 1, self.block), (0, 1))
            return ()

        build.loop(build.index(0), build.index(self.rows), build.index(1), (), body)

    def _add(self, batch: Value, start: Value) -> None:
        build, extents, dropped = self.builder, (1, 1, self.block), (0, 1)

        def body(place: Value, _: Sequence[Value]) -> Sequence[Value]:
            row = build.cast(build.read(self.index, (place,)), i64)
            added = build.load(self.values, (batch, place, start), extents, dropped)
            before = build.load(self.out, (batch, row, start), extents, dropped)
            total = build.arithmetic("add", before, added)
            build.store(self.out, total, (batch, row, start), extents, dropped)
            return ()

        build.loop(build.index(0), build.index(self.picked), build.index(1), (), body)
