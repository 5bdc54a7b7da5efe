"""Prefetch what is packed next while a matrix product multiplies: memory is idle then, and packing need not wait.

Between the segments of their chains, the blocks of rows times a panel ask for a few cache lines each of the rows and
of the columns that are packed next: together they ask for all of them.  Many at once would hold up the loads of sums.
These are hints: they change no result, and may be of any address.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tessera.core.mlir import Index, ir
from tessera.lowering.base.emit import Emitter
from tessera.lowering.base.indices import Indices
from tessera.lowering.base.structured_control import run_either
from tessera.lowering.cpu.tile.blocking import Blocking
from tessera.lowering.cpu.tile.destinations import MemoryBlock
from tessera.lowering.cpu.tile.memory import bytes_of
from tessera.lowering.cpu.tile.operands import Computed, Moved, Source
from tessera.lowering.cpu.tile.panel_packing import lies_across

LINE_BYTES: Final = 64
_MOST: Final = 8
"""Lines of a factor a segment may ask for: where more are to come, packing is much of the work, and asks by itself."""


@dataclass(frozen=True, slots=True)
class PrefetchWork:
    """A part of the product: `rows` rows from `row` on times panel `panel` of those packed, in `segments` segments."""

    row: Index
    rows: int
    panel: Index
    segments: int


Ask = Callable[[PrefetchWork, Index], None]
"""`ask(work, segment)`: the hints before one segment."""


@dataclass(frozen=True, slots=True)
class Prefetcher:
    """Asks for what is packed after `depth` steps of K of a @ b, from `first_depth` on."""

    emitter: Emitter
    a: Source
    b: Source
    blocking: Blocking
    first_depth: Index
    depth: int

    @property
    def asks_rows(self) -> bool:
        """Return whether rows are asked for before they are packed."""
        rows, lines = self._lines_of_rows(self.blocking.step)
        return not lies_across(self.a) and rows * lines <= _MOST * self._segments

    @property
    def asks_columns(self) -> bool:
        """Return whether columns are asked for before they are packed."""
        rows, lines = self._lines_of_columns(self.blocking.step)
        return rows * lines <= _MOST * self._segments

    def rows(self, first_panel: Index, lower: Index, upper: Index) -> Ask:
        """Asks, during the band of rows [lower, upper), for the next band, or for the first one further along K.

        Bands are packed for the first panels, so these ask for the next band, and the last ones for that along K.
        """
        indices, blocking = Indices(self.emitter), self.blocking
        distance, depth = indices.sub(0, lower), self._next_depth(self.a, 1)
        wanted = None if blocking.one_pass else self._at_last_panels(first_panel)
        if blocking.macro_block < blocking.blocks:
            last = indices.at_most(blocking.rows, upper)
            distance = indices.select(last, distance, indices.sub(upper, lower))
            depth = indices.select(last, depth, self.first_depth)
            if wanted is not None:
                at_first = indices.at_most(first_panel, 0)
                wanted = self.emitter.value("arith.select", [last, wanted, at_first], "i1")

        def hint(work: PrefetchWork, segment: Index) -> None:
            def emit() -> None:
                self._ask_rows(indices.add(work.row, distance), depth, work, segment)

            if wanted is None:
                emit()
            else:
                run_either(self.emitter, wanted, emit)

        return hint

    def columns(self, first_panel: Index) -> Ask:
        """Asks, during the panels from `first_panel` on, for the next ones, or for the first ones further along K.

        Where K ends, the next columns of the array are likely to follow, from the beginning of K on.
        """
        indices, blocking = Indices(self.emitter), self.blocking
        column, depth = 0, self._next_depth(self.b, 0)
        if blocking.depth_block >= blocking.depth:
            column = indices.select(indices.at_most(depth, 0), blocking.columns, 0)
        if not blocking.one_pass:
            last = self._at_last_panels(first_panel)
            beyond = indices.mul(indices.add(first_panel, blocking.panels_packed), blocking.width)
            column = indices.select(last, column, beyond)
            depth = indices.select(last, depth, self.first_depth)
        return lambda work, segment: self._ask_columns(column, depth, work, segment)

    def _next_depth(self, source: Source, axis: int) -> Index:
        """Return the step of K that is packed next: in this product, or in the next one of a loop."""
        if self.blocking.depth_block >= self.blocking.depth:
            return onward(self.emitter, source, axis)
        return Indices(self.emitter).add(self.first_depth, self.depth)

    def _at_last_panels(self, first_panel: Index) -> ir.Value:
        indices, blocking = Indices(self.emitter), self.blocking
        return indices.at_most(blocking.panels, indices.add(first_panel, blocking.panels_packed))

    def _lines_of_rows(self, rows: int) -> tuple[int, int]:
        """How many rows a block of `rows` asks for, and how many lines of each: those in the turn of its panel."""
        panels = min(self.blocking.panels, self.blocking.panels_packed)
        return rows, -(-self.depth // (_per_line(self.a) * panels))

    def _lines_of_columns(self, rows: int) -> tuple[int, int]:
        """How many rows of b (columns, where those are contiguous) a block of `rows` asks for, and lines of each.

        They belong to the panel that comes into the place of its own, and are its rows' share of that.
        """
        across, along = self._panel
        return -(-rows * across // self.blocking.rows), -(-along // _per_line(self.b))

    @property
    def _segments(self) -> int:
        return self.depth // self.blocking.segment(self.depth)

    @property
    def _panel(self) -> tuple[int, int]:
        """Return the extents of a panel across and along the lines of b."""
        width = self.blocking.width
        return (width, self.depth) if self.b.axis == 0 else (self.depth, width)

    def _ask_rows(self, row: Index, first_depth: Index, work: PrefetchWork, segment: Index) -> None:
        indices = Indices(self.emitter)
        lines = self._lines_of_rows(work.rows)
        place = indices.add(first_depth, indices.mul(work.panel, lines[1] * _per_line(self.a)))
        for number, line in self._parts(lines, segment):
            along = indices.add(place, indices.mul(line, _per_line(self.a)))
            ask(self.emitter, self.a, (indices.add(row, number), along))

    def _ask_columns(self, column: Index, first_depth: Index, work: PrefetchWork, segment: Index) -> None:
        indices = Indices(self.emitter)
        first = indices.divide(indices.mul(work.row, self._panel[0]), self.blocking.rows)
        begin = indices.add(column, indices.mul(work.panel, self.blocking.width))
        for number, line in self._parts(self._lines_of_columns(work.rows), segment):
            across, along = indices.add(first, number), indices.mul(line, _per_line(self.b))
            step, place = (along, across) if self.b.axis == 0 else (across, along)
            ask(self.emitter, self.b, (indices.add(first_depth, step), indices.add(begin, place)))

    def _parts(self, lines: tuple[int, int], segment: Index) -> list[tuple[Index, Index]]:
        """Return one segment's part of lines[0] rows of lines[1] lines each: numbers of rows, and of lines in them."""
        indices = Indices(self.emitter)
        count = -(-lines[0] * lines[1] // self._segments)
        places = [indices.add(indices.mul(segment, count), number) for number in range(count)]
        return [(indices.divide(place, lines[1]), indices.modulo(place, lines[1])) for place in places]


def ask(emitter: Emitter, source: Source, point: Sequence[Index]) -> None:
    """Ask for what the element at `point` is read from in arrays: the rest is near."""
    if isinstance(source, MemoryBlock):
        source.ask(emitter, point)
    elif isinstance(source, Moved):
        ask(emitter, source.source, [0 if axis is None else point[axis] for axis in source.axes])
    elif isinstance(source, Computed):
        for operand in source.operands:
            ask(emitter, operand, point)


def onward(emitter: Emitter, source: Source, axis: int) -> Index:
    """How far along `axis` what is likely to be read next begins: see `MemoryBlock.onward`."""
    if isinstance(source, MemoryBlock):
        return source.onward(emitter, axis)
    if isinstance(source, Moved) and axis in source.axes:
        return onward(emitter, source.source, source.axes.index(axis))
    if isinstance(source, Computed) and source.operands:
        return onward(emitter, source.operands[0], axis)
    return source.shape[axis]


def _per_line(source: Source) -> int:
    """Elements of a cache line."""
    return LINE_BYTES // bytes_of(source.element)
