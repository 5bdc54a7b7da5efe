"""`tessera.dot`: a chain of fused multiply-adds per element in the order of K, from the accumulator on.

    for each block of K:                      (the accumulator stays in memory between them)
        pack the rows of A                    (unless they are in memory as they should be)
        for each block of panels of B:        (pack it, unless there are few rows)
            for each panel, each block of rows:
                sums in registers; for k: sums += a[row, k] * b[k, panel]

Each element's chain is the same whatever the blocks are, so the bits are the same on every machine.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tessera.lowering.emit import Emitter
from tessera.lowering.target.cpu.tile.blocking import Blocking
from tessera.lowering.target.cpu.tile.memory import Memory, bytes_of
from tessera.lowering.target.cpu.tile.nests import copy, versions
from tessera.lowering.target.cpu.tile.pack import PanelPacker, Strided, VectorReader, pack_rows, rows_elements
from tessera.lowering.target.cpu.tile.places import Scratch
from tessera.lowering.target.cpu.tile.sources import Computed, Frame, Function, Moved, Source, Splat
from tessera.lowering.target.functions.algebra import shaped
from tessera.lowering.target.functions.half import convert
from tessera.lowering.target.indices import Index, Indices
from tessera.lowering.target.loops import for_range

_UNROLL: Final = 2
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
    scratch: Callable[[int], Any]

    @property
    def element(self) -> str:
        """The type of sums, and of the operands."""
        return self.result.element

    def emit(self) -> None:
        """Emit the product."""
        blocking = self.blocking
        whole, rest = divmod(blocking.depth, blocking.depth_block)
        buffers = self._buffers()
        start = self._prepare(single=whole + bool(rest) == 1)

        def one_block(first: Index, depth: int) -> None:
            self._block(first, depth, start, buffers)

        def full(first: Index, _: list[Any]) -> tuple[()]:
            one_block(first, blocking.depth_block)
            return ()

        for_range(self.emitter, 0, whole * blocking.depth_block, blocking.depth_block, full)
        if rest:
            one_block(whole * blocking.depth_block, rest)

    def _prepare(self, single: bool) -> Source | None:
        """Where sums start from: the accumulator itself if it is read once, else `result`, filled from it."""
        start = self.start
        if single and (start is None or (not start.guards and self.blocking.columns % self.blocking.lanes == 0)):
            return start
        if start is None:
            start = _zero(self.result)
        if not (isinstance(start, Scratch) and start.pointer is self.result.pointer):
            copy(self.emitter, start, self.result, 1 << 30)
        return self.result

    def _buffers(self) -> tuple[Any, Any]:
        """Room for packed rows and columns; None where they are not packed."""
        blocking, size = self.blocking, bytes_of(self.element)
        rows = columns = None
        if strided(self.a, self.element) is None:
            rows = self.scratch(rows_elements(blocking.rows, blocking.depth_block) * size + 256)
        if not blocking.stream and self._columns_in_place() is None:
            panels = min(blocking.panels_packed, blocking.panels)
            columns = self.scratch(panels * blocking.depth_block * blocking.width * size + 256)
        return rows, columns

    def _columns_in_place(self) -> Strided | None:
        """The columns as they are, where the inner loop can read them so."""
        found = strided(self.b, self.element) if isinstance(self.b, Scratch) else None
        if found is None or found.strides[1] != 1 or not isinstance(found.strides[0], int):
            return None
        size = self.blocking.depth * found.strides[0] * bytes_of(self.element)
        return found if size <= _IN_PLACE_BYTES else None

    # -- one block of K ----------------------------------------------------------------------------------------

    def _block(self, first: Index, depth: int, start: Source | None, buffers: tuple[Any, Any]) -> None:
        rows, columns = buffers
        indices, memory = Indices(self.emitter), Memory(self.emitter)
        if rows is None:
            found = strided(self.a, self.element)
            assert found is not None, "rows without a buffer are read in place"
            offset = indices.mul(first, found.strides[1])
            a = Strided(memory.address(found.pointer, offset, self.element), found.strides)
        else:
            a = pack_rows(self.emitter, self.a, rows, first, depth)
        if self.blocking.stream:
            versions(self.emitter, (self.b,), lambda inside: self._stream(a, first, depth, start, inside))
            return
        in_place = self._columns_in_place()
        if in_place is not None:
            offset = indices.mul(first, in_place.strides[0])
            b = Strided(memory.address(in_place.pointer, offset, self.element), in_place.strides)
            self._panels(0, self.blocking.panels, a, self._reader(b, self.blocking.width), depth, start)
            return
        self._packed(a, columns, first, depth, start)

    def _packed(self, a: Strided, buffer: Any, first: Index, depth: int, start: Source | None) -> None:
        """Blocks of panels: pack, then run all rows over them."""
        blocking, indices = self.blocking, Indices(self.emitter)
        packer = PanelPacker(self.emitter, self.b, buffer, blocking, first, depth)
        reader = self._reader(Strided(buffer, (blocking.width, 1)), depth * blocking.width)

        def one_block(first_panel: Index, _: list[Any]) -> tuple[()]:
            packer.pack(first_panel)
            count = indices.min(blocking.panels_packed, indices.sub(blocking.panels, first_panel))
            self._panels(first_panel, count, a, reader, depth, start)
            return ()

        for_range(self.emitter, 0, blocking.panels, blocking.panels_packed, one_block)

    def _stream(self, a: Strided, first: Index, depth: int, start: Source | None, inside: bool) -> None:
        """All panels, columns read where they are."""
        emitter, indices, blocking = self.emitter, Indices(self.emitter), self.blocking

        def panels(lower: int, count: int, partial: int | None) -> None:
            def reader(panel: Index) -> VectorReader:
                column = indices.mul(indices.add(lower, panel), blocking.width)

                def read(k: Index, step: int, vector: int) -> Any:
                    valid = None if partial is None else partial - vector * blocking.lanes
                    if valid is not None and valid <= 0:
                        return emitter.constant(0, shaped(blocking.lanes, self.element))
                    valid = None if valid is None or valid >= blocking.lanes else valid
                    point = (indices.add(indices.add(first, k), step), 0)
                    row = Frame(emitter, point, 1, inside=inside).row(self.b)
                    return row.at(indices.add(column, vector * blocking.lanes), blocking.lanes, valid)

                return read

            self._panels(lower, count, a, reader, depth, start)

        if blocking.full_panels:
            panels(0, blocking.full_panels, None)
        if blocking.panels > blocking.full_panels:
            panels(blocking.full_panels, 1, blocking.columns - blocking.full_panels * blocking.width)

    def _reader(self, b: Strided, panel_stride: int) -> Callable[[Index], VectorReader]:
        """Reads vectors of columns from memory: `panel_stride` elements from one panel to the next."""
        memory, indices, lanes = Memory(self.emitter), Indices(self.emitter), self.blocking.lanes
        depth_stride = b.strides[0]
        assert isinstance(depth_stride, int), "packed columns have fixed strides"

        def reader(panel: Index) -> VectorReader:
            start = memory.address(b.pointer, indices.mul(panel, panel_stride), self.element)
            last: list[tuple[Index, Any]] = []

            def read(k: Index, step: int, vector: int) -> Any:
                if not last or last[0][0] is not k:
                    last[:] = [(k, memory.address(start, indices.mul(k, depth_stride), self.element))]
                address = memory.address(last[0][1], step * depth_stride + vector * lanes, self.element)
                return memory.load(address, lanes, self.element)

            return read

        return reader

    # -- the inner loops ---------------------------------------------------------------------------------------

    def _panels(
        self,
        first: Index,
        count: Index,
        a: Strided,
        reader: Callable[[Index], VectorReader],
        depth: int,
        start: Source | None,
    ) -> None:
        """Panels [first, first + count), one band of rows after the other: `reader` counts panels from 0."""
        indices, blocking = Indices(self.emitter), self.blocking

        def one_band(top: Index, height: int) -> tuple[()]:
            def one_panel(panel: Index, _: list[Any]) -> tuple[()]:
                read = reader(panel)
                column = indices.mul(indices.add(first, panel), blocking.width)
                for row, blocks, rows in blocking.row_blocks(height):

                    def one_block(index: Index, _: list[Any], rows: int = rows) -> tuple[()]:
                        self._micro(indices.add(top, index), rows, column, a, read, depth, start)
                        return ()

                    for_range(self.emitter, row, row + blocks * rows, rows, one_block)
                return ()

            for_range(self.emitter, 0, count, 1, one_panel)
            return ()

        for top, bands, height in blocking.bands():
            end = top + bands * height
            for_range(self.emitter, top, end, height, lambda row, _, height=height: one_band(row, height))

    def _micro(
        self, row: Index, rows: int, column: Index, a: Strided, read: VectorReader, depth: int, start: Source | None
    ) -> None:
        """`rows` x one panel: sums in registers over `depth` steps."""
        emitter, indices, memory, blocking = self.emitter, Indices(self.emitter), Memory(self.emitter), self.blocking
        begin = memory.address(a.pointer, indices.mul(row, a.strides[0]), self.element)
        elements = self._row_reader(begin, a.strides, rows)
        unroll = _UNROLL if depth % _UNROLL == 0 else 1

        def steps(k: Index, sums: list[Any]) -> Sequence[Any]:
            at_k = elements(k)
            for step in range(unroll):
                columns = [read(k, step, vector) for vector in range(blocking.vectors)]
                for r in range(rows):
                    factor = memory.splat(at_k(r, step), blocking.lanes)
                    for vector, value in enumerate(columns):
                        place = r * blocking.vectors + vector
                        sums[place] = self._multiply_add(factor, value, sums[place])
            return sums

        initial = self._initial(row, rows, column, start)
        for r in range(rows):  # the next block's sums, which may have to come from far
            memory.prefetch(self._result_row(indices.add(row, rows + r), column))
        sums = for_range(emitter, 0, depth, unroll, steps, initial)
        for r in range(rows):
            begin = self._result_row(indices.add(row, r), column)
            for vector in range(blocking.vectors):
                address = memory.address(begin, vector * blocking.lanes, self.element)
                memory.store(sums[r * blocking.vectors + vector], address, blocking.lanes, self.element)

    def _row_reader(
        self, start: Any, strides: tuple[Index, Index], rows: int
    ) -> Callable[[Index], Callable[[int, int], Any]]:
        """Reads single elements of the rows: `reader(k)(row, step)`."""
        memory, indices = Memory(self.emitter), Indices(self.emitter)
        across, along = strides
        fixed = isinstance(across, int) and isinstance(along, int)
        begins = (
            [start] if fixed else [memory.address(start, indices.mul(across, r), self.element) for r in range(rows)]
        )

        def at(k: Index) -> Callable[[int, int], Any]:
            places = [memory.address(begin, indices.mul(k, along), self.element) for begin in begins]

            def element(row: int, step: int) -> Any:
                offset = indices.mul(along, step)
                if fixed:
                    offset = indices.add(offset, indices.mul(across, row))
                address = memory.address(places[0 if fixed else row], offset, self.element)
                return memory.load(address, 0, self.element)

            return element

        return at

    def _initial(self, row: Index, rows: int, column: Index, start: Source | None) -> list[Any]:
        emitter, indices, blocking = self.emitter, Indices(self.emitter), self.blocking
        if start is None:
            zero = emitter.constant(0, shaped(blocking.lanes, self.element))
            return [zero] * (rows * blocking.vectors)
        sums: list[Any] = []
        for r in range(rows):
            source = Frame(emitter, (indices.add(row, r), 0), 1).row(start)
            columns = [indices.add(column, vector * blocking.lanes) for vector in range(blocking.vectors)]
            sums += [source.at(place, blocking.lanes) for place in columns]
        return sums

    def _result_row(self, row: Index, column: Index) -> Any:
        indices = Indices(self.emitter)
        offset = indices.dot((row, column), self.result.strides)
        return Memory(self.emitter).address(self.result.pointer, offset, self.element)

    def _multiply_add(self, a: Any, b: Any, c: Any) -> Any:
        if self.element.startswith("f"):
            return self.emitter.value("math.fma", [a, b, c], c.type)
        product = self.emitter.value("arith.muli", [a, b], c.type)
        return self.emitter.value("arith.addi", [product, c], c.type)


def strided(source: Source, element: str) -> Strided | None:
    """The memory behind a matrix of `element`, if it is in scratch, maybe transposed."""
    if isinstance(source, Moved) and source.axes == (1, 0):
        found = strided(source.source, element)
        return None if found is None else Strided(found.pointer, (found.strides[1], found.strides[0]))
    if isinstance(source, Scratch) and source.element == element:
        return Strided(source.pointer, (source.strides[0], source.strides[1]))
    return None


def sum_element(factor: str, result: str) -> str:
    """The type of sums of products: f32 (f64 for f64), i32 for integers (i64 for an i64 result)."""
    if factor.startswith(("f", "b")):
        return "f64" if "f64" in (factor, result) else "f32"
    return "i64" if "i64" in (factor, result) else "i32"


def as_element(source: Source, element: str, *, unsigned: bool = False) -> Source:
    """`source` converted to `element`: floats rounded, integers extended or cut off."""
    if source.element == element:
        return source

    def emit(emitter: Emitter, operands: Sequence[Any], lanes: int) -> Any:
        if element.startswith(("f", "b")):
            return convert(emitter, operands[0], element)
        wider = bytes_of(element) > bytes_of(source.element)
        extension = "arith.extui" if unsigned else "arith.extsi"
        return emitter.value(extension if wider else "arith.trunci", operands, shaped(lanes, element))

    return Computed(source.shape, Function(element, emit), (source,))


def turned(source: Source) -> Source:
    """The transpose of a matrix."""
    return Moved(source.shape[::-1], source, (1, 0))


def _zero(like: Source) -> Source:
    element = like.element
    return Splat(like.shape, element, lambda emitter: emitter.constant(0, element))
