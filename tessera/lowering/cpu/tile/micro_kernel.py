"""The inner loops of a matrix product: blocks of rows times panels of columns, with sums in registers.

for each band of rows:               (it stays in the second-level cache)
    for each panel:                  (in the first)
        for each block of rows:
            sums from the accumulator; for k: sums += a[row, k] * b[k, panel]; sums to the result
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tessera.core.mlir import Index, ir
from tessera.lowering.base.emit import Emitter
from tessera.lowering.base.indices import Indices
from tessera.lowering.base.structured_control import for_range
from tessera.lowering.cpu.tile.blocking import Blocking, unrolled
from tessera.lowering.cpu.tile.destinations import Scratch
from tessera.lowering.cpu.tile.memory import Memory, bytes_of
from tessera.lowering.cpu.tile.operands import Frame, Source
from tessera.lowering.cpu.tile.panel_packing import Strided, VectorReader
from tessera.lowering.cpu.tile.prefetch import LINE_BYTES, Ask, PrefetchWork
from tessera.lowering.math.algebra import shaped

Begin = Callable[[Index, Index], tuple[Strided, Sequence[Ask]]]
"""`begin(lower, upper)`: what comes before the band of rows [lower, upper): where these lie, and what to ask for."""


@dataclass(frozen=True, slots=True)
class MicroKernel:
    """Multiplies rows in memory by panels of columns, over `depth` steps of K.

    start: where sums start from; None: zero
    """

    emitter: Emitter
    start: Source | None
    result: Scratch
    blocking: Blocking
    depth: int

    def run(self, first: Index, count: Index, reader: Callable[[Index], VectorReader], begin: Begin) -> None:
        """Panels [first, first + count), one band of rows after the other: `reader` counts panels from 0."""
        indices, blocking = Indices(self.emitter), self.blocking

        def one_macro_block(lower: Index, _: list[ir.Value]) -> tuple[()]:
            upper = indices.min(indices.add(lower, blocking.macro_block), blocking.blocks)
            a, asks = begin(self.row(lower), self.row(upper))

            def one_panel(panel: Index, _: list[ir.Value]) -> tuple[()]:
                column = indices.mul(indices.add(first, panel), blocking.width)
                self._rows((lower, upper), panel, column, _Operands(a, reader(panel), asks))
                return ()

            for_range(self.emitter, 0, count, 1, one_panel)
            return ()

        for_range(self.emitter, 0, blocking.blocks, blocking.macro_block, one_macro_block)

    def row(self, block: Index) -> Index:
        """Return the first row of a block of rows."""
        indices, blocking = Indices(self.emitter), self.blocking
        low = blocking.heights[-1]
        if low.first == 0:
            return indices.mul(block, low.rows)
        return indices.add(indices.mul(block, low.rows), indices.min(block, low.first))

    def _rows(self, macro_block: tuple[Index, Index], panel: Index, column: Index, operands: "_Operands") -> None:
        """Multiply a band's blocks of rows by one panel."""
        indices = Indices(self.emitter)
        for height in self.blocking.heights:

            def one_block(
                block: Index, _: list[ir.Value], rows: int = height.rows, origin: int = height.origin
            ) -> tuple[()]:
                row = indices.add(indices.mul(block, rows), origin)
                self._block(
                    PrefetchWork(row, rows, panel, self.depth // self.blocking.segment(self.depth)), column, operands
                )
                return ()

            first, past = indices.max(macro_block[0], height.first), indices.min(macro_block[1], height.past)
            for_range(self.emitter, first, past, 1, one_block)

    def _block(self, work: PrefetchWork, column: Index, operands: "_Operands") -> None:
        """Multiply one block of rows by one panel: accumulators stay in registers over `depth` steps."""
        emitter, indices, memory, blocking = self.emitter, Indices(self.emitter), Memory(self.emitter), self.blocking
        length = self.depth // work.segments
        step = unrolled(length)

        def segment(first: Index, accumulators: list[ir.Value]) -> Sequence[ir.Value]:
            number = indices.divide(first, length)
            self._prefetch_accumulators(work, column, number)
            for ask in operands.asks:
                ask(work, number)

            def steps(k: Index, accumulators: list[ir.Value]) -> Sequence[ir.Value]:
                return self._steps(work, k, step, operands, accumulators)

            return for_range(emitter, first, indices.add(first, length), step, steps, accumulators)

        accumulators = for_range(emitter, 0, self.depth, length, segment, self._initial(work, column))
        for r in range(work.rows):
            place = self._result_row(indices.add(work.row, r), column)
            for vector in range(blocking.vectors):
                address = memory.address(place, vector * blocking.lanes, self.result.element)
                memory.store(accumulators[r * blocking.vectors + vector], address, blocking.lanes, self.result.element)

    def _steps(
        self, work: PrefetchWork, k: Index, count: int, operands: "_Operands", initial: Sequence[ir.Value]
    ) -> Sequence[ir.Value]:
        """`count` steps of the chains from `k` on."""
        indices, memory, blocking = Indices(self.emitter), Memory(self.emitter), self.blocking
        across, along = operands.a.strides
        element = self.result.element
        begin = memory.address(operands.a.pointer, indices.mul(work.row, across), element)
        start = memory.address(begin, indices.mul(k, along), element)
        accumulators = list(initial)
        for step in range(count):
            columns = [operands.read(k, step, vector) for vector in range(blocking.vectors)]
            for r in range(work.rows):
                address = memory.address(start, along * step + across * r, element)
                broadcast = memory.splat(memory.load(address, 0, element), blocking.lanes)
                for vector, value in enumerate(columns):
                    place = r * blocking.vectors + vector
                    accumulators[place] = self._multiply_add(broadcast, value, accumulators[place])
        return accumulators

    def _initial(self, work: PrefetchWork, column: Index) -> list[ir.Value]:
        emitter, indices, blocking = self.emitter, Indices(self.emitter), self.blocking
        if self.start is None:
            zero = emitter.constant(0, shaped(blocking.lanes, self.result.element))
            return [zero] * (work.rows * blocking.vectors)
        accumulators: list[ir.Value] = []
        for r in range(work.rows):
            source = Frame(emitter, (indices.add(work.row, r), 0), 1).row(self.start)
            columns = [indices.add(column, vector * blocking.lanes) for vector in range(blocking.vectors)]
            accumulators += [source.at(place, blocking.lanes) for place in columns]
        return accumulators

    def _prefetch_accumulators(self, work: PrefetchWork, column: Index, segment: Index) -> None:
        """Ask for a segment's part of the next block's sums, which may have to come from far."""
        indices, memory = Indices(self.emitter), Memory(self.emitter)
        count = -(-work.rows // work.segments)
        row = indices.add(indices.add(work.row, work.rows), indices.mul(segment, count))
        for r in range(count):
            begin = self._result_row(indices.add(row, r), column)
            for place in range(0, self.blocking.width, LINE_BYTES // bytes_of(self.result.element)):
                memory.prefetch(memory.address(begin, place, self.result.element))

    def _result_row(self, row: Index, column: Index) -> ir.Value:
        indices = Indices(self.emitter)
        offset = indices.dot((row, column), self.result.strides)
        return Memory(self.emitter).address(self.result.pointer, offset, self.result.element)

    def _multiply_add(self, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        if self.result.element.startswith("f"):
            return self.emitter.value("math.fma", [a, b, c], c.type)
        product = self.emitter.value("arith.muli", [a, b], c.type)
        return self.emitter.value("arith.addi", [product, c], c.type)


@dataclass(frozen=True, slots=True)
class _Operands:
    """The inputs of a panel's blocks: rows, the vectors of its columns, and prefetch hints."""

    a: Strided
    read: VectorReader
    asks: Sequence[Ask]
