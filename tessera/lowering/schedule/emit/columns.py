"""Emit reductions of long columns: slabs of rows that lie side by side in memory, with partial sums in registers.

before: ROWS [map (a), reduce (s = sum a over k), map (b of a and s)], axes k (reduced) and c
after:  for c in tile.range(C, step=32):
            acc = -0.0                                  # 128 x 32
            for k in tile.range(K, step=512): acc += a[k:k+128]; acc += a[k+128:k+256]; ...
            s = sum(acc, axis=0)
            for k in tile.range(K, step=512): store b[k:k+128] of a and s; ...

A sum adds elements that are 128 apart in order, then halves the 128: the association of `core/base/reductions.py`, so
bits are those of whole columns.  What needs the reductions of a pass is computed in the next one, from memory again.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from tessera.core.base.dtypes import i64
from tessera.core.base.reductions import BLOCK, COLUMNS, identity
from tessera.core.graph.expr import Argument, Literal, apply
from tessera.core.graph.graph import Node
from tessera.core.graph.graph import Value as Tensor
from tessera.core.program.build import dtype_of
from tessera.core.program.program import Value
from tessera.core.schedule.plan import Group
from tessera.lowering.schedule.emit.blocks import BlockEmitter
from tessera.lowering.schedule.emit.tiles import Held

SLAB: Final = COLUMNS
"""Rows of a slab."""
TOGETHER: Final = 4
"""Slabs that are loaded before the first of them is added: so many are on their way at a time."""


def in_slabs(group: Group, blocks: Mapping[int, int]) -> bool:
    """Return whether a group's blocks are slabs of its columns, not whole ones."""
    return len(group.reduced) == 1 and blocks.get(group.reduced[0], 0) == SLAB < group.extents[group.reduced[0]]


class ColumnEmitter(BlockEmitter):
    """Emits one group of reductions along one axis, slab by slab."""

    def _inside(self) -> None:
        self.held.clear()
        (self.axis,) = self.group.reduced
        passes = self._passes()
        for number in range(1 + max(passes.values())):
            nodes = [each for each in self.group.members if each.op == "reduce" and passes[each.operands[0]] == number]
            stored = [each for each in self.group.outputs if self._lies_along(each) and passes[each] == number]
            if nodes or stored:
                self._pass(nodes, stored)
        for value in self.group.outputs:
            if not self._lies_along(value):
                self.tiles.store(self.arrays.written[value], self.group.stores[value], self.value(value))

    def _lies_along(self, value: Tensor) -> bool:
        return self.axis in self.group.axes[value]

    def _passes(self) -> Mapping[Tensor, int]:
        """Return in which pass each value can be computed: behind those of the reductions that it is made of."""
        found = dict.fromkeys(self.group.inputs, 0)
        for node in self.group.members:
            first = max((found[operand] for operand in node.operands), default=0)
            found.update(dict.fromkeys(node.results, first + (node.op == "reduce")))
        return found

    def _pass(self, nodes: Sequence[Node], stored: Sequence[Tensor]) -> None:
        """Reduce, and store what lies along the columns."""
        extent = self.group.extents[self.axis]
        parts = [range(first, min(first + BLOCK, extent), SLAB) for first in range(0, extent, BLOCK)]
        totals: list[list[Held]] = [self._part(part, nodes, stored) for part in parts]
        while len(totals) > 1:
            pairs = [totals[place : place + 2] for place in range(0, len(totals), 2)]
            totals = [
                pair[0] if len(pair) == 1
                else [self._combined(node, *both) for node, both in zip(nodes, zip(*pair, strict=True), strict=True)]
                for pair in pairs
            ]  # fmt: skip
        for node, total in zip(nodes, totals[0], strict=True):
            self.held[node.result] = total

    def _part(self, rows: range, nodes: Sequence[Node], stored: Sequence[Tensor]) -> list[Held]:
        """Reduce one block of the association: slab by slab, then the rows of the partial results."""
        build, tiles = self.builder, self.tiles
        together = next(count for count in (TOGETHER, 2, 1) if len(rows) % count == 0)
        before = dict(self.held)
        sums: list[Value] = []
        for node in nodes:
            number = identity(str(node.attributes["kind"]), node.result.type.dtype.numpy).item()
            sums.append(build.full(build.constant(number, node.result.type.dtype), tiles.shape(self._axes(node))))

        def body(index: Value, carried: Sequence[Value]) -> Sequence[Value]:
            starts = [index, *(build.arithmetic("add", index, build.index(n * SLAB)) for n in range(1, together))]
            slabs = [self._slab(before, start, nodes, stored) for start in starts]
            for slab in slabs:
                carried = [self._plus(node, *both) for node, *both in zip(nodes, carried, slab, strict=True)]
            return carried

        if len(rows) == together:
            sums = list(body(build.index(rows.start), sums))
        else:
            step = build.index(together * SLAB)
            end = build.index(rows.start + len(rows) * SLAB)
            sums = list(build.loop(build.index(rows.start), end, step, sums, body, "tile"))
        self.held = before
        return [self._reduced(node, each) for node, each in zip(nodes, sums, strict=True)]

    def _axes(self, node: Node) -> tuple[int, ...]:
        return self.tiles.visible(self.group.axes[node.operands[0]])

    def _slab(
        self, before: Mapping[Tensor, Held], start: Value, nodes: Sequence[Node], stored: Sequence[Tensor]
    ) -> list[Value]:
        """Store what lies in a slab, and return what is reduced, with identities behind the columns' ends."""
        self.held = dict(before)
        self.tiles.index[self.axis] = start
        for value in stored:
            self.tiles.store(self.arrays.written[value], self.group.stores[value], self.value(value))
        return [self.tiles.align(self._ended(node), self._axes(node)) for node in nodes]

    def _ended(self, node: Node) -> Held:
        held, build = self.value(node.operands[0]), self.builder
        extent = self.group.extents[self.axis]
        if extent % SLAB == 0:
            return held
        dtype = dtype_of(held.value)
        place = Held(build.arange(self.tiles.index[self.axis], SLAB), (self.axis,))
        inside = apply("cmp", Argument(1, i64), Argument(2, i64), predicate="lt")
        nothing = Literal(identity(str(node.attributes["kind"]), dtype.numpy).item(), dtype)
        body = apply("select", inside, Argument(0, dtype), nothing)
        return self.tiles.expression(body, [held, place, Held(build.index(extent))], self._axes(node))

    def _plus(self, node: Node, one: Value, other: Value) -> Value:
        kind = str(node.attributes["kind"])
        with self.builder.at(node.span):
            return self.builder.arithmetic("add" if kind == "sum" else kind, one, other)

    def _combined(self, node: Node, one: Held, other: Held) -> Held:
        return Held(self._plus(node, one.value, other.value), one.axes)

    def _reduced(self, node: Node, total: Value) -> Held:
        axes = self._axes(node)
        kept = [axis for axis in axes if axis != self.axis]
        with self.builder.at(node.span):
            return self.tiles.reduce(Held(total, axes), kept, (self.axis,), str(node.attributes["kind"]))
