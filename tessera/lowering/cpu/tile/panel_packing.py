"""Copies that put the operands of a matrix product in the order in which the inner loop reads them.

Columns (B) become panels: [panel][k][column of the panel].  Rows (A) become dense, row by row: k by k, a block of them
would lie in as many cache lines as there are steps.  Rows of an array that lie so already are read where they are
(`rows_in_place`).  Everything is read through the operand's rows, so a masked load, a transpose or a widening is part
of the copy.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tessera.core.mlir import Index, ir
from tessera.lowering.base.emit import Emitter, required
from tessera.lowering.base.indices import Indices
from tessera.lowering.base.structured_control import (
    branch,
    for_range,
    for_vectors,
    lanes_for,
    padded,
    run_either,
)
from tessera.lowering.cpu.tile.blocking import Blocking
from tessera.lowering.cpu.tile.destinations import MemoryBlock
from tessera.lowering.cpu.tile.loop_nests import for_blocks, versions
from tessera.lowering.cpu.tile.memory import Memory, bytes_of
from tessera.lowering.cpu.tile.operands import Frame, Row, Source
from tessera.lowering.cpu.tile.transposition import transpose
from tessera.lowering.math.algebra import shaped

_PREFETCH_DISTANCE: Final = 8
"""Rows asked for before they are copied: each lies in pages of its own, where the processor does not look by itself."""
_MATRIX: Final = 2
_PAGE: Final = 4096
_MOST_BYTES: Final = 2 << 20
"""Of a buffer whose rows are as far apart as the array's."""


@dataclass(frozen=True, slots=True)
class Strided:
    """A matrix in memory of our own; strides are in elements."""

    pointer: ir.Value
    strides: tuple[int, int]


@dataclass(frozen=True, slots=True)
class RowPacker:
    """Packs rows of `a`, `depth` steps of K from `first_depth` on, to `buffer`.

    buffer: None where every row is read in place
    by_macro_block: whether the buffer has room for some rows only, so that one band takes the place of the other
    asked: whether they were asked for before, so that the copy need not
    """

    emitter: Emitter
    a: Source
    buffer: ir.Value | None
    blocking: Blocking
    first_depth: Index
    depth: int
    by_macro_block: bool = False
    asked: bool = False

    @property
    def by_depth(self) -> bool:
        """Return whether all rows are packed at once, step by step of K: too few lie across them to be turned."""
        return lies_across(self.a) and not self._turned

    @property
    def _turned(self) -> bool:
        """Return whether squares are turned in registers, since the vectors of `a` run across its rows."""
        return lies_across(self.a) and min(self.a.shape[0], self.depth) >= self.blocking.lanes > 1

    def packed(self, lower: Index) -> Strided:
        """Return the matrix that rows from `lower` on are in, once they are packed."""
        if self.by_depth:
            return Strided(required(self.buffer), (1, padded(self.a.shape[0])))
        there = rows_in_place(self.a, self.blocking)
        if there is None:
            return self._buffered(lower)
        indices = Indices(self.emitter)
        place = Memory(self.emitter).address(there.origin, self.first_depth, there.element)
        inside = indices.all(there.guards)
        if inside is not None:
            buffered = self._buffered(lower).pointer
            place = self.emitter.value("arith.select", [inside, place, buffered], place.type)
        return Strided(place, (rows_stride(self.a, self.blocking, self.depth), 1))

    def _buffered(self, lower: Index) -> Strided:
        indices, stride, start = Indices(self.emitter), rows_stride(self.a, self.blocking, self.depth), 0
        if self.by_macro_block:
            start = indices.mul(indices.sub(_slack(self.a, self.blocking), lower), stride)
        return Strided(Memory(self.emitter).address(required(self.buffer), start, self.a.element), (stride, 1))

    def pack(self, lower: Index, upper: Index) -> None:
        """Pack rows [lower, upper), or all of them where `by_depth`."""
        emit = self._turn if self._turned else self._copy
        there = rows_in_place(self.a, self.blocking)
        if there is None:
            versions(self.emitter, (self.a,), lambda inside: emit(lower, upper, inside))
        elif there.guards:
            whole = Indices(self.emitter).both(*there.guards)
            branch(self.emitter, whole, lambda: (), lambda: emit(lower, upper, False) or ())

    def _copy(self, lower: Index, upper: Index, inside: bool) -> None:
        packed = self.packed(lower) if self.by_depth else self._buffered(lower)
        emitter, memory, indices = self.emitter, Memory(self.emitter), Indices(self.emitter)
        turned = self.by_depth
        inner, outer_axis = (self.a.shape[0], 1) if turned else (self.depth, 0)
        prefetch = None if self.asked else (outer_axis, _PREFETCH_DISTANCE)

        def one_row(number: Index, _: list[ir.Value]) -> tuple[()]:
            point = (0, indices.add(self.first_depth, number)) if turned else (number, 0)
            row = Frame(emitter, point, 1 - outer_axis, inside=inside, prefetch=prefetch).row(self.a)
            start = memory.address(packed.pointer, indices.mul(number, packed.strides[outer_axis]), self.a.element)

            def one_vector(index: Index, count: int, valid: int | None) -> None:
                place = index if turned else indices.add(self.first_depth, index)
                value = row.at(place, count, valid)
                memory.store(value, memory.address(start, index, self.a.element), count, self.a.element)

            for_vectors(emitter, inner, lanes_for(inner), one_vector)
            return ()

        first, past = (0, self.depth) if turned else (lower, upper)
        for_range(emitter, first, past, 1, one_row)

    def _turn(self, lower: Index, upper: Index, inside: bool) -> None:
        """Read squares across the rows, and turn them in registers: along K, then along the rows.

        The last squares overlap those before them; where there are fewer rows than a square has, it takes neighbours.
        """
        emitter, memory, indices = self.emitter, Memory(self.emitter), Indices(self.emitter)
        packed, lanes, element = self._buffered(lower), self.blocking.lanes, self.a.element
        most = self.a.shape[0] - lanes

        def one_square(step: Index, row: Index) -> None:
            vectors: list[ir.Value] = []
            for lane in range(lanes):
                point = (0, indices.add(self.first_depth, indices.add(step, lane)))
                vectors.append(Frame(emitter, point, 0, inside=inside, prefetch=(1, lanes)).row(self.a).at(row, lanes))
            for lane, value in enumerate(transpose(emitter, vectors, shaped(lanes, element))):
                place = indices.add(indices.mul(indices.add(row, lane), packed.strides[0]), step)
                memory.store(value, memory.address(packed.pointer, place, element), lanes, element)

        def one_step(step: Index) -> None:
            def one_row(row: Index, _: list[ir.Value]) -> tuple[()]:
                one_square(step, indices.min(row, most))
                return ()

            for_range(emitter, lower, upper, lanes, one_row)

        for_blocks(emitter, self.depth, lanes, one_step)


def lies_across(a: Source) -> bool:
    """Return whether the vectors of `a` run across its rows."""
    return a.axis == 0 and a.shape[0] > 1


def rows_in_place(a: Source, blocking: Blocking) -> MemoryBlock | None:
    """Return the block of an array whose rows need no copy where it lies inside: along K they are contiguous.

    A copy where it sticks out has the same distance between rows, so that one loop reads either.  Rows a multiple of a
    page apart would share few sets of the caches.
    """
    if not isinstance(a, MemoryBlock) or len(a.shape) != _MATRIX or a.only is not None or lies_across(a):
        return None
    stride, along = a.strides
    if not isinstance(stride, int) or not isinstance(along, int) or along != 1:
        return None
    elements, size = stride * blocking.rows, bytes_of(a.element)
    fits = padded(blocking.depth_block) <= stride and elements * size <= _MOST_BYTES
    return a if fits and stride * size % _PAGE else None


def rows_stride(a: Source, blocking: Blocking, depth: int) -> int:
    """Return the distance between rows in a `RowPacker`'s buffer, of blocks of `depth` steps."""
    there = rows_in_place(a, blocking)
    stride = None if there is None else there.strides[0]
    return stride if isinstance(stride, int) else padded(depth)


def _slack(a: Source, blocking: Blocking) -> int:
    """Rows beside those of a band that a square may reach."""
    return blocking.lanes - 1 if lies_across(a) else 0


def rows_elements(a: Source, blocking: Blocking, *, by_macro_block: bool) -> int:
    """Elements a `RowPacker` may write."""
    rows = blocking.rows
    if by_macro_block:
        rows = min(rows, blocking.macro_block * blocking.step) + 2 * _slack(a, blocking)
    return max(
        rows * rows_stride(a, blocking, blocking.depth_block),
        blocking.depth_block * padded(blocking.rows) if lies_across(a) else 0,
    )


@dataclass(frozen=True, slots=True)
class PanelPacker:
    """Packs panels of `b`, `depth` steps of K from `first_depth` on, to `buffer`.

    asked: whether they were asked for before, so that the copy need not
    """

    emitter: Emitter
    b: Source
    buffer: ir.Value
    blocking: Blocking
    first_depth: Index
    depth: int
    asked: bool

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

    def _place(self, panel: Index, depth: Index, vector: int) -> ir.Value:
        """Return the address of vector `vector` of step `depth` of packed panel `panel`."""
        indices, blocking = Indices(self.emitter), self.blocking
        step = indices.add(indices.mul(panel, self.depth), depth)
        offset = indices.mul(step, blocking.width)
        memory = Memory(self.emitter)
        start = memory.address(self.buffer, offset, self.b.element)
        return memory.address(start, vector * blocking.lanes, self.b.element)

    def _rows(self, first: Index, lower: Index, upper: Index, partial: int | None, inside: bool) -> None:
        """Panels [lower, upper) from rows of `b`: one vector after the other."""
        emitter, indices, blocking = self.emitter, Indices(self.emitter), self.blocking

        def one_step(step: Index, _: list[ir.Value]) -> tuple[()]:
            point = (indices.add(self.first_depth, step), 0)
            row = Frame(emitter, point, 1, inside=inside, prefetch=None if self.asked else (0, _PREFETCH_DISTANCE)).row(
                self.b
            )

            def one_panel(panel: Index, _: list[ir.Value]) -> tuple[()]:
                column = indices.mul(indices.add(first, panel), blocking.width)
                for vector in range(blocking.vectors):
                    value = self._vector(row, indices.add(column, vector * blocking.lanes), vector, partial)
                    self._store(value, self._place(panel, step, vector))
                return ()

            for_range(emitter, lower, upper, 1, one_panel)
            return ()

        for_range(emitter, 0, self.depth, 1, one_step)

    def _vector(self, row: Row, column: Index, vector: int, partial: int | None) -> ir.Value:
        """Return one vector of a row: zeros past the last column of a partial panel."""
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
            vectors: list[ir.Value] = []
            for lane in range(lanes):
                place = indices.add(column, lane)
                place = place if partial is None else indices.min(place, last_column)
                row = Frame(emitter, (0, place), 0, inside=inside).row(self.b)
                vectors.append(row.at(indices.add(self.first_depth, step), lanes, valid))
            turned = transpose(emitter, vectors, shaped(lanes, self.b.element))
            for lane, value in enumerate(turned[:valid]):
                self._store(value, self._place(panel, indices.add(step, lane), vector))

        def one_panel(panel: Index, _: list[ir.Value]) -> tuple[()]:
            for vector in range(blocking.vectors):
                for_vectors(
                    emitter, self.depth, lanes, lambda step, _, valid, vector=vector: square(panel, vector, step, valid)
                )
            return ()

        for_range(emitter, lower, upper, 1, one_panel)

    def _store(self, value: ir.Value, address: ir.Value) -> None:
        Memory(self.emitter).store(value, address, self.blocking.lanes, self.b.element)


VectorReader = Callable[[Index, int, int], ir.Value]
"""`read(k, unrolled step, vector)`: a vector of columns for the inner loop."""
