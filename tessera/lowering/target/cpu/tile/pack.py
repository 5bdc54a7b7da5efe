"""Copies that put the operands of a matrix product in the order in which the inner loop reads them.

Columns (B) become panels: [panel][k][column of the panel].  Rows (A) become dense, row by row or k by k, whichever way
their vectors lie.  Everything is read through the operand's rows, so a masked load, a transpose or a widening is part
of the copy.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tessera.lowering.emit import Emitter
from tessera.lowering.target.cpu.tile.blocking import Blocking
from tessera.lowering.target.cpu.tile.memory import Memory
from tessera.lowering.target.cpu.tile.nests import versions
from tessera.lowering.target.cpu.tile.sources import Frame, Source
from tessera.lowering.target.cpu.tile.transposition import transpose
from tessera.lowering.target.functions.algebra import shaped
from tessera.lowering.target.indices import Index, Indices
from tessera.lowering.target.loops import for_range, for_vectors, lanes_for, padded, run_either

_AHEAD: Final = 8
"""Rows asked for before they are copied: each lies in pages of its own, where the processor does not look by itself."""


@dataclass(frozen=True, slots=True)
class Strided:
    """A matrix in memory: strides in elements, numbers or `i64` values."""

    pointer: Any
    strides: tuple[Index, Index]


def pack_rows(emitter: Emitter, a: Source, buffer: Any, first: Index, depth: int) -> Strided:
    """Copy columns [first, first + depth) of `a` to `buffer`; at most `rows_bytes` are written."""
    rows = a.shape[0]
    by_depth = a.axis == 0 and rows > 1
    outer, inner = (depth, rows) if by_depth else (rows, depth)
    stride = padded(inner)
    memory, indices = Memory(emitter), Indices(emitter)
    lanes = lanes_for(inner)

    def emit(inside: bool) -> None:
        def one_row(number: Index, _: list[Any]) -> tuple[()]:
            point = (0, indices.add(first, number)) if by_depth else (number, 0)
            outer_axis = 1 if by_depth else 0
            row = Frame(emitter, point, 1 - outer_axis, inside=inside, ahead=(outer_axis, _AHEAD)).row(a)
            start = memory.address(buffer, indices.mul(number, stride), a.element)

            def one_vector(index: Index, count: int, valid: int | None) -> None:
                place = index if by_depth else indices.add(first, index)
                memory.store(row.at(place, count, valid), memory.address(start, index, a.element), count, a.element)

            for_vectors(emitter, inner, lanes, one_vector)
            return ()

        for_range(emitter, 0, outer, 1, one_row)

    versions(emitter, (a,), emit)
    return Strided(buffer, (1, stride) if by_depth else (stride, 1))


def rows_elements(rows: int, depth: int) -> int:
    """Elements `pack_rows` may need."""
    return max(rows * padded(depth), depth * padded(rows))


@dataclass(frozen=True, slots=True)
class PanelPacker:
    """Packs panels of `b`, `depth` steps of K from `first_depth` on, to `buffer`."""

    emitter: Emitter
    b: Source
    buffer: Any
    blocking: Blocking
    first_depth: Index
    depth: int

    def pack(self, first_panel: Index) -> None:
        """Pack `panels_packed` panels from `first_panel` on, or as many as there are."""
        turned = self.b.axis == 0 and self.depth >= self.blocking.lanes > 1
        versions(self.emitter, (self.b,), lambda inside: self._pack(first_panel, inside, turned))

    def _pack(self, first_panel: Index, inside: bool, turned: bool) -> None:
        indices, blocking = Indices(self.emitter), self.blocking
        full = indices.min(blocking.panels_packed, indices.sub(blocking.full_panels, first_panel))
        emit = self._turned if turned else self._rows
        if blocking.full_panels:
            emit(first_panel, 0, full, None, inside)
        if blocking.panels > blocking.full_panels:
            partial = blocking.columns - blocking.full_panels * blocking.width
            last = indices.sub(blocking.full_panels, first_panel)

            def tail() -> None:
                emit(first_panel, last, indices.add(last, 1), partial, inside)

            if isinstance(last, int):
                tail()
            else:
                run_either(self.emitter, indices.less(last, blocking.panels_packed), tail)

    def _place(self, panel: Index, depth: Index, vector: int) -> Any:
        """Where vector `vector` of step `depth` of packed panel `panel` goes."""
        indices, blocking = Indices(self.emitter), self.blocking
        step = indices.add(indices.mul(panel, self.depth), depth)
        offset = indices.mul(step, blocking.width)
        memory = Memory(self.emitter)
        start = memory.address(self.buffer, offset, self.b.element)
        return memory.address(start, vector * blocking.lanes, self.b.element)

    def _rows(self, first: Index, lower: Index, upper: Index, partial: int | None, inside: bool) -> None:
        """Panels [lower, upper) from rows of `b`: one vector after the other."""
        emitter, indices, blocking = self.emitter, Indices(self.emitter), self.blocking

        def one_step(step: Index, _: list[Any]) -> tuple[()]:
            point = (indices.add(self.first_depth, step), 0)
            row = Frame(emitter, point, 1, inside=inside, ahead=(0, _AHEAD)).row(self.b)

            def one_panel(panel: Index, _: list[Any]) -> tuple[()]:
                column = indices.mul(indices.add(first, panel), blocking.width)
                for vector in range(blocking.vectors):
                    value = self._vector(row, indices.add(column, vector * blocking.lanes), vector, partial)
                    self._store(value, self._place(panel, step, vector))
                return ()

            for_range(emitter, lower, upper, 1, one_panel)
            return ()

        for_range(emitter, 0, self.depth, 1, one_step)

    def _vector(self, row: Any, column: Index, vector: int, partial: int | None) -> Any:
        """One vector of a row: zeros past the last column of a partial panel."""
        lanes = self.blocking.lanes
        valid = None if partial is None else partial - vector * lanes
        if valid is not None and valid <= 0:
            return self.emitter.constant(0, shaped(lanes, self.b.element))
        return row.at(column, lanes, None if valid is None or valid >= lanes else valid)

    def _turned(self, first: Index, lower: Index, upper: Index, partial: int | None, inside: bool) -> None:
        """Panels [lower, upper) from columns of `b`: squares read along K and turned in registers."""
        emitter, indices, blocking = self.emitter, Indices(self.emitter), self.blocking
        lanes = blocking.lanes
        last_column = blocking.columns - 1

        def square(panel: Index, vector: int, step: Index, valid: int | None) -> None:
            column = indices.add(indices.mul(indices.add(first, panel), blocking.width), vector * lanes)
            vectors: list[Any] = []
            for lane in range(lanes):
                place = indices.add(column, lane)
                place = place if partial is None else indices.min(place, last_column)
                row = Frame(emitter, (0, place), 0, inside=inside).row(self.b)
                vectors.append(row.at(indices.add(self.first_depth, step), lanes, valid))
            turned = transpose(emitter, vectors, shaped(lanes, self.b.element))
            for lane, value in enumerate(turned[:valid]):
                self._store(value, self._place(panel, indices.add(step, lane), vector))

        def one_panel(panel: Index, _: list[Any]) -> tuple[()]:
            for vector in range(blocking.vectors):
                for_vectors(
                    emitter, self.depth, lanes, lambda step, _, valid, vector=vector: square(panel, vector, step, valid)
                )
            return ()

        for_range(emitter, lower, upper, 1, one_panel)

    def _store(self, value: Any, address: Any) -> None:
        Memory(self.emitter).store(value, address, self.blocking.lanes, self.b.element)


VectorReader = Callable[[Index, int, int], Any]
"""`read(k, unrolled step, vector)`: a vector of columns for the inner loop."""
