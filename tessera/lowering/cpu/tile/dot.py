"""`tessera.dot`: a chain of fused multiply-adds per element in the order of K, from the accumulator on.

    for each block of K:                      (the accumulator stays in memory between them)
        for each block of panels of B:        (packed, unless there are few rows)
            for each band of rows of A:       (packed when it is used first, unless it lies in memory as it should)
                each panel times each block of rows: see `micro_kernel.py`

Each element's chain is the same whatever the blocks are, so the bits are the same on every machine.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tessera.core.mlir import Index, ir
from tessera.lowering.base.emit import Emitter
from tessera.lowering.base.indices import Indices
from tessera.lowering.base.structured_control import for_range, run_either
from tessera.lowering.cpu.tile.blocking import Blocking
from tessera.lowering.cpu.tile.destinations import Scratch
from tessera.lowering.cpu.tile.loop_nests import copy, versions
from tessera.lowering.cpu.tile.memory import Memory, bytes_of
from tessera.lowering.cpu.tile.micro_kernel import MicroKernel
from tessera.lowering.cpu.tile.operands import Computed, Frame, Function, Moved, Source, Splat
from tessera.lowering.cpu.tile.panel_packing import (
    PanelPacker,
    RowPacker,
    Strided,
    VectorReader,
    rows_elements,
    rows_in_place,
)
from tessera.lowering.cpu.tile.prefetch import Ask, Prefetcher
from tessera.lowering.math.algebra import shaped
from tessera.lowering.math.float_conversions import convert

_IN_PLACE_BYTES: Final = 24 << 10
"""Columns no larger than this stay in the first-level cache as they are, whatever their strides."""


@dataclass(frozen=True, slots=True)
class Dot:
    """One product: `result` (in scratch, of the type that sums have) = `start` + a @ b.

    start: the accumulator's source (maybe `result` itself), or None for zero
    scratch: gives room for a number of bytes
    """

    emitter: Emitter
    a: Source
    b: Source
    start: Source | None
    result: Scratch
    blocking: Blocking
    scratch: Callable[[int], ir.Value]

    @property
    def element(self) -> str:
        """Return the type of sums, and of the operands."""
        return self.result.element

    def emit(self) -> None:
        """Emit the product."""
        blocking = self.blocking
        whole, rest = divmod(blocking.depth, blocking.depth_block)
        buffers = self._buffers()
        start = self._prepare(single=whole + bool(rest) == 1)

        def one_block(first: Index, depth: int) -> None:
            self._block(first, depth, start, buffers)

        def full(first: Index, _: list[ir.Value]) -> tuple[()]:
            one_block(first, blocking.depth_block)
            return ()

        for_range(self.emitter, 0, whole * blocking.depth_block, blocking.depth_block, full)
        if rest:
            one_block(whole * blocking.depth_block, rest)

    def _prepare(self, single: bool) -> Source | None:
        """Return the source of the initial sums: the accumulator if it is read once, else `result`, filled from it."""
        start = self.start
        if single and (start is None or (not start.guards and self.blocking.columns % self.blocking.lanes == 0)):
            return start
        if start is None:
            start = _zero(self.result)
        if not (isinstance(start, Scratch) and start.pointer is self.result.pointer):
            copy(self.emitter, start, self.result, 1 << 30)
        return self.result

    def _buffers(self) -> tuple[ir.Value | None, ir.Value | None]:
        """Room for packed rows and columns; None where they are not packed."""
        blocking, size = self.blocking, bytes_of(self.element)
        rows = columns = None
        packed = not blocking.stream and self._columns_in_place() is None
        there = rows_in_place(self.a, blocking)
        if strided(self.a, self.element) is None and (there is None or there.guards):
            count = rows_elements(self.a, blocking, by_macro_block=packed and blocking.one_pass)
            rows = self.scratch(count * size + 256)
        if packed:
            panels = min(blocking.panels_packed, blocking.panels)
            columns = self.scratch(panels * blocking.depth_block * blocking.width * size + 256)
        return rows, columns

    def _columns_in_place(self) -> Strided | None:
        """Return the columns as they are, where the inner loop can read them so."""
        found = strided(self.b, self.element) if isinstance(self.b, Scratch) else None
        if found is None or found.strides[1] != 1:
            return None
        size = self.blocking.depth * found.strides[0] * bytes_of(self.element)
        return found if size <= _IN_PLACE_BYTES else None

    # -- one block of K ----------------------------------------------------------------------------------------

    def _block(
        self, first: Index, depth: int, start: Source | None, buffers: tuple[ir.Value | None, ir.Value | None]
    ) -> None:
        rows, columns = buffers
        panels = MicroKernel(self.emitter, start, self.result, self.blocking, depth)
        if columns is not None:
            self._packed(panels, rows, columns, first)
            return
        a = self._all_rows(rows, first, depth)
        if self.blocking.stream:
            versions(self.emitter, (self.b,), lambda inside: self._stream(panels, a, first, inside))
            return
        in_place = self._columns_in_place()
        assert in_place is not None, "columns are read in place, packed or streamed"
        offset = Indices(self.emitter).mul(first, in_place.strides[0])
        b = Strided(Memory(self.emitter).address(in_place.pointer, offset, self.element), in_place.strides)
        panels.run(0, self.blocking.panels, self._reader(b, self.blocking.width), lambda _lower, _upper: (a, ()))

    def _all_rows(self, buffer: ir.Value | None, first: Index, depth: int) -> Strided:
        """Return all rows, from step `first` of K on: packed, or without a buffer where they are."""
        if buffer is not None or rows_in_place(self.a, self.blocking) is not None:
            packer = RowPacker(self.emitter, self.a, buffer, self.blocking, first, depth)
            packer.pack(0, self.blocking.rows)
            return packer.packed(0)
        found = strided(self.a, self.element)
        assert found is not None, "rows without a buffer are read in place"
        offset = Indices(self.emitter).mul(first, found.strides[1])
        return Strided(Memory(self.emitter).address(found.pointer, offset, self.element), found.strides)

    def _packed(self, panels: MicroKernel, buffer_a: ir.Value | None, buffer_b: ir.Value, first: Index) -> None:
        """Blocks of panels: pack, then run all rows over them; a band of rows is packed when it is used first."""
        blocking, indices, depth = self.blocking, Indices(self.emitter), panels.depth
        prefetcher = Prefetcher(self.emitter, self.a, self.b, blocking, first, depth)
        columns = PanelPacker(self.emitter, self.b, buffer_b, blocking, first, depth, prefetcher.asks_columns)
        rows = RowPacker(
            self.emitter, self.a, buffer_a, blocking, first, depth, blocking.one_pass, prefetcher.asks_rows
        )
        scratch = strided(self.a, self.element) is not None
        whole = self._all_rows(buffer_a, first, depth) if scratch or rows.by_depth else None
        reader = self._reader(Strided(buffer_b, (blocking.width, 1)), depth * blocking.width)

        def one_block(first_panel: Index, _: list[ir.Value]) -> tuple[()]:
            columns.pack(first_panel)
            count = indices.min(blocking.panels_packed, indices.sub(blocking.panels, first_panel))
            asks = [prefetcher.columns(first_panel)] if prefetcher.asks_columns else []

            def begin(lower: Index, upper: Index) -> tuple[Strided, Sequence[Ask]]:
                if whole is not None:
                    return whole, asks
                macro_block = rows.packed(lower)
                if blocking.one_pass:
                    rows.pack(lower, upper)
                else:
                    at_first = indices.at_most(first_panel, 0)
                    run_either(self.emitter, at_first, lambda: rows.pack(lower, upper))
                return macro_block, [
                    *asks,
                    *([prefetcher.rows(first_panel, lower, upper)] if prefetcher.asks_rows else []),
                ]

            panels.run(first_panel, count, reader, begin)
            return ()

        for_range(self.emitter, 0, blocking.panels, blocking.panels_packed, one_block)

    def _stream(self, panels: MicroKernel, a: Strided, first: Index, inside: bool) -> None:
        """Multiply all panels, with columns read where they are."""
        emitter, indices, blocking = self.emitter, Indices(self.emitter), self.blocking

        def run(lower: int, count: int, partial: int | None) -> None:
            def reader(panel: Index) -> VectorReader:
                column = indices.mul(indices.add(lower, panel), blocking.width)

                def read(k: Index, step: int, vector: int) -> ir.Value:
                    valid = None if partial is None else partial - vector * blocking.lanes
                    if valid is not None and valid <= 0:
                        return emitter.constant(0, shaped(blocking.lanes, self.element))
                    valid = None if valid is None or valid >= blocking.lanes else valid
                    point = (indices.add(indices.add(first, k), step), 0)
                    row = Frame(emitter, point, 1, inside=inside).row(self.b)
                    return row.at(indices.add(column, vector * blocking.lanes), blocking.lanes, valid)

                return read

            panels.run(lower, count, reader, lambda _lower, _upper: (a, ()))

        if blocking.full_panels:
            run(0, blocking.full_panels, None)
        if blocking.panels > blocking.full_panels:
            run(blocking.full_panels, 1, blocking.columns - blocking.full_panels * blocking.width)

    def _reader(self, b: Strided, panel_stride: int) -> Callable[[Index], VectorReader]:
        """Reads vectors of columns from memory: `panel_stride` elements from one panel to the next."""
        memory, indices, lanes = Memory(self.emitter), Indices(self.emitter), self.blocking.lanes
        depth_stride = b.strides[0]

        def reader(panel: Index) -> VectorReader:
            start = memory.address(b.pointer, indices.mul(panel, panel_stride), self.element)
            last: list[tuple[Index, ir.Value]] = []

            def read(k: Index, step: int, vector: int) -> ir.Value:
                if not last or last[0][0] is not k:
                    last[:] = [(k, memory.address(start, indices.mul(k, depth_stride), self.element))]
                address = memory.address(last[0][1], step * depth_stride + vector * lanes, self.element)
                return memory.load(address, lanes, self.element)

            return read

        return reader


def strided(source: Source, element: str) -> Strided | None:
    """Return the memory behind a matrix of `element`, if it is in scratch, maybe transposed."""
    if isinstance(source, Moved) and source.axes == (1, 0):
        found = strided(source.source, element)
        return None if found is None else Strided(found.pointer, (found.strides[1], found.strides[0]))
    if isinstance(source, Scratch) and source.element == element:
        return Strided(source.pointer, (source.strides[0], source.strides[1]))
    return None


def accumulator_element(operand: str, result: str) -> str:
    """Return the type of sums of products: f32 (f64 for f64), i32 for integers (i64 for an i64 result)."""
    if operand.startswith(("f", "b")):
        return "f64" if "f64" in (operand, result) else "f32"
    return "i64" if "i64" in (operand, result) else "i32"


def as_element(source: Source, element: str, *, unsigned: bool = False) -> Source:
    """`source` converted to `element`: floats rounded, integers extended or cut off."""
    if source.element == element:
        return source

    def emit(emitter: Emitter, operands: Sequence[ir.Value], lanes: int) -> ir.Value:
        if element.startswith(("f", "b")):
            return convert(emitter, operands[0], element)
        wider = bytes_of(element) > bytes_of(source.element)
        extension = "arith.extui" if unsigned else "arith.extsi"
        return emitter.value(extension if wider else "arith.trunci", operands, shaped(lanes, element))

    return Computed(source.shape, Function(element, emit), (source,))


def turned(source: Source) -> Source:
    """Return the transpose of a matrix."""
    return Moved(source.shape[::-1], source, (1, 0))


def _zero(like: Source) -> Source:
    element = like.element
    return Splat(like.shape, element, lambda emitter: emitter.constant(0, element))
