"""Sums down the rows of a few vectors side by side, in the one association of `core/base/reductions.py`.

The running columns of a block are rows of a small table, whose halves are then added until one is left.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tessera.core.base.reductions import COLUMNS
from tessera.core.mlir import Index, ir
from tessera.lowering.base.emit import Emitter, required
from tessera.lowering.base.indices import Indices
from tessera.lowering.base.structured_control import for_range
from tessera.lowering.cpu.tile.combine import Combine
from tessera.lowering.cpu.tile.memory import Memory


@dataclass(frozen=True, slots=True)
class ColumnSums:
    """Sums across rows of `count` vectors of `lanes`: `at(i)` reads them at index i of the reduced axis.

    element: the type of what is read and summed; table: where COLUMNS rows of running sums find room
    """

    emitter: Emitter
    combine: Combine
    element: str
    at: Callable[[Index], list[ir.Value]]
    count: int
    lanes: int
    table: ir.Value | None

    def block(self, base: Index, count: int) -> list[ir.Value]:
        """Return the sums of a block of `count` elements from `base` on."""
        emitter, indices = self.emitter, Indices(self.emitter)
        columns = min(count, COLUMNS)
        if columns == 1:
            return self.at(base)
        half = 1 << (columns - 1).bit_length() - 1
        pairs = columns - half

        def paired(column: Index, _: list[ir.Value]) -> tuple[()]:
            left, right = self._chain(base, column, count), self._chain(base, indices.add(column, half), count)
            self._write(column, self._add(left, right))
            return ()

        def lone(column: Index, _: list[ir.Value]) -> tuple[()]:
            self._write(column, self._chain(base, column, count))
            return ()

        for_range(emitter, 0, pairs, 1, paired)
        if pairs < half:
            for_range(emitter, pairs, half, 1, lone)
        self._halve(half)
        return self._read(0)

    def _chain(self, base: Index, column: Index, count: int) -> list[ir.Value]:
        """Return the running sum of one column over the steps of a block."""
        emitter, indices = self.emitter, Indices(self.emitter)
        steps, rest = divmod(count, COLUMNS)
        start = indices.add(base, column)
        if not steps:
            return self.at(start)

        def one(step: Index, carried: list[ir.Value]) -> Sequence[ir.Value]:
            return self._add(carried, self.at(indices.add(start, indices.mul(step, COLUMNS))))

        if not rest:
            return list(for_range(emitter, 1, steps, 1, one, self.at(start))) if steps > 1 else self.at(start)
        # Columns before `rest` have one step more.
        more = emitter.value("arith.extui", [indices.less(column, rest)], "i64")
        return list(for_range(emitter, 1, indices.add(more, steps), 1, one, self.at(start)))

    def _halve(self, width: int) -> None:
        """table[c] += table[c + w] for w = width / 2, ..., 1."""
        emitter, indices = self.emitter, Indices(self.emitter)

        def level(_: Index, carried: list[ir.Value]) -> Sequence[ir.Value]:
            half = indices.divide(carried[0], 2)

            def one(column: Index, _: list[ir.Value]) -> tuple[()]:
                self._write(column, self._add(self._read(column), self._read(indices.add(column, half))))
                return ()

            for_range(emitter, 0, half, 1, one)
            return [indices.value(half)]

        if width > 1:
            for_range(emitter, 0, width.bit_length() - 1, 1, level, [indices.value(width)])

    def _add(self, a: list[ir.Value], b: list[ir.Value]) -> list[ir.Value]:
        return [self.combine(x, y) for x, y in zip(a, b, strict=True)]

    def _place(self, column: Index) -> ir.Value:
        indices, memory = Indices(self.emitter), Memory(self.emitter)
        offset = indices.mul(column, self.count * self.lanes)
        return memory.address(required(self.table), offset, self.element)

    def _read(self, column: Index) -> list[ir.Value]:
        memory, element, start = Memory(self.emitter), self.element, self._place(column)
        return [
            memory.load(memory.address(start, v * self.lanes, element), self.lanes, element) for v in range(self.count)
        ]

    def _write(self, column: Index, values: list[ir.Value]) -> None:
        memory, element, start = Memory(self.emitter), self.element, self._place(column)
        for v, value in enumerate(values):
            memory.store(value, memory.address(start, v * self.lanes, element), self.lanes, element)
