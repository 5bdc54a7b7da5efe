"""`tessera.reduce`: sums in the one association of `core/base/reductions.py`, largest and smallest with NaN winning.

Along the axis of the vectors a row is 128 running columns, eight vectors of 16; along any other axis the same
columns are rows of a small table, and vectors run across independent sums.  Either way a virtual operand is read once
and never kept.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tessera.core.base.reductions import BLOCK, COLUMNS
from tessera.core.mlir import Index, ir
from tessera.lowering.base.emit import Emitter, required
from tessera.lowering.base.indices import Indices
from tessera.lowering.base.structured_control import LANES, for_points, for_range, lanes_for
from tessera.lowering.cpu.base.cache_model import CacheModel
from tessera.lowering.cpu.tile.column_sums import ColumnSums
from tessera.lowering.cpu.tile.combine import Combine
from tessera.lowering.cpu.tile.loop_nests import versions
from tessera.lowering.cpu.tile.memory import Memory, bytes_of
from tessera.lowering.cpu.tile.operands import Frame, Row, Source, vector_axis

Write = Callable[[tuple[Index, ...], int, ir.Value, Index, int, int | None], None]
"""`write(point, axis, value, index, lanes, valid)`: the result at `point`, from `index` of `axis` on.

0 lanes: a scalar; `valid` as in `Row.at`.  The reduced axis of `point` is 0.
"""

_STRIPE: Final = {"sum": 8, "max": 4, "min": 4}
"""Most vectors side by side when reducing across rows: with fewer, too little is read of each row at a time."""
_PREFETCH_DISTANCE: Final = 8
"""Rows to ask for in time where they are visited one after the other; each may lie in a page of its own."""


@dataclass(frozen=True, slots=True)
class Reduction:
    """Reduces `source`, of a type that sums are made in, along `axis`; results go to `write`.

    scratch: gives room for a number of bytes
    """

    emitter: Emitter
    source: Source
    axis: int
    combine: Combine
    machine: CacheModel
    scratch: Callable[[int], ir.Value]

    def emit(self, write: Write) -> None:
        """Emit the reduction."""
        source = self.source
        along = vector_axis(source.shape) if source.axis is None else source.axis
        by_row = along == self.axis or source.shape[along] == 1
        buffers = self._partials(along)

        def emit(inside: bool) -> None:
            if by_row:
                self._rows(inside, buffers, write)
            else:
                self._columns(along, inside, buffers, write)

        versions(self.emitter, (source,), emit)

    @property
    def extent(self) -> int:
        """Elements put together."""
        return self.source.shape[self.axis]

    @property
    def blocks(self) -> int:
        """Blocks of a sum; one for the others."""
        return -(-self.extent // BLOCK) if self.combine.kind == "sum" else 1

    def _partials(self, along: int) -> tuple[ir.Value | None, ir.Value | None]:
        """Room for the sums of blocks, and for the table of columns."""
        size = bytes_of(self.source.element)
        stripe = 1 if along == self.axis else self._stripe(along) * LANES
        partials = self.scratch(self.blocks * stripe * size + 256) if self.blocks > 1 else None
        table = None
        if stripe > 1 and self.combine.kind == "sum" and self.extent > 1:
            table = self.scratch(COLUMNS // 2 * stripe * size)
        return partials, table

    def _stripe(self, along: int) -> int:
        """Vectors side by side when reducing across rows, a power of two."""
        return 1 << max(1, min(_STRIPE[self.combine.kind], self.source.shape[along] // LANES)).bit_length() - 1

    # -- along the vectors -------------------------------------------------------------------------------------

    def _rows(self, inside: bool, buffers: tuple[ir.Value | None, ir.Value | None], write: Write) -> None:
        emitter = self.emitter

        def one_row(point: tuple[Index, ...]) -> None:
            row = Frame(emitter, point, self.axis, inside=inside).row(self.source)
            value = self._sum_row(row, buffers[0]) if self.combine.kind == "sum" else self._extreme_row(row)
            write(point, self.axis, value, 0, 0, None)

        for_points(emitter, self.source.shape, (self.axis,), one_row)

    def _sum_row(self, row: Row, partials: ir.Value | None) -> ir.Value:
        whole, rest = divmod(self.extent, BLOCK)
        if self.blocks == 1:
            return self._sum_block(row, 0, self.extent)
        partials = required(partials)
        memory, element = Memory(self.emitter), self.source.element

        def one_block(block: Index, _: list[ir.Value]) -> tuple[()]:
            value = self._sum_block(row, Indices(self.emitter).mul(block, BLOCK), BLOCK)
            memory.store(value, memory.address(partials, block, element), 0, element)
            return ()

        for_range(self.emitter, 0, whole, 1, one_block)
        if rest:
            value = self._sum_block(row, whole * BLOCK, rest)
            memory.store(value, memory.address(partials, whole, element), 0, element)
        self._pairwise(partials, 1, 0)
        return memory.load(partials, 0, element)

    def _sum_block(self, row: Row, base: Index, count: int) -> ir.Value:
        """Return the sum of `count` elements from `base` on, at most a block."""
        lanes = LANES if count >= LANES else lanes_for(count)
        if not lanes:
            return row.at(base, 0)
        columns = -(-min(count, COLUMNS) // lanes)
        together = max(
            1, self.machine.registers * self.machine.vector_bytes // (2 * lanes * bytes_of(self.source.element))
        )
        partials: list[ir.Value] = []
        for first in range(0, columns, together):
            partials += self._chains(row, base, count, lanes, range(first, min(first + together, columns)))
        width = COLUMNS // LANES
        while width > 1:
            width //= 2
            partials = [
                self.combine(s, partials[c + width]) if c + width < len(partials) else s
                for c, s in enumerate(partials[:width])
            ]
        return self.combine.halve(partials[0])

    def _chains(self, row: Row, base: Index, count: int, lanes: int, columns: range) -> list[ir.Value]:
        """Return the running sums of some columns (vectors of them) over the steps of a block."""
        indices, steps = Indices(self.emitter), count // COLUMNS
        rest = count % COLUMNS
        partials: list[ir.Value | None] = [None] * len(columns)
        if steps:

            def one_step(offset: Index, carried: list[ir.Value]) -> Sequence[ir.Value]:
                start = indices.add(base, offset)
                vectors = [row.at(indices.add(start, column * lanes), lanes) for column in columns]
                return [self.combine(s, v) for s, v in zip(carried, vectors, strict=True)]

            initial = [self.combine.identity(lanes)] * len(columns)
            partials[:] = for_range(self.emitter, 0, steps * COLUMNS, COLUMNS, one_step, initial)
        for place, column in enumerate(columns):
            left = rest - column * lanes
            if left > 0:
                start = indices.add(base, steps * COLUMNS + column * lanes)
                value = self._partial(row, start, lanes, min(left, lanes))
                before = partials[place]
                partials[place] = value if before is None else self.combine(before, value)
        return [required(found) for found in partials]

    def _partial(self, row: Row, start: Index, lanes: int, valid: int) -> ir.Value:
        """Return a vector whose lanes past `valid` hold the identity."""
        if valid == lanes:
            return row.at(start, lanes)
        value = row.at(start, lanes, valid)
        mask = Memory(self.emitter).first_lanes(valid, lanes)
        return self.emitter.value("arith.select", [mask, value, self.combine.identity(lanes)], value.type)

    def _extreme_row(self, row: Row) -> ir.Value:
        """Return the largest or smallest of a row: several vectors run side by side."""
        extent, combine = self.extent, self.combine
        lanes = LANES if extent >= LANES else lanes_for(extent)
        if not lanes:
            return row.at(0, 0)
        together = next((t for t in (4, 2) if extent >= t * lanes), 1)
        watches = combine.watches

        def one_step(start: Index, carried: list[ir.Value]) -> Sequence[ir.Value]:
            indices = Indices(self.emitter)
            values = [row.at(indices.add(start, v * lanes), lanes) for v in range(together)]
            return self._watched(carried, values)

        whole = extent - extent % (together * lanes)
        carried = [*combine.unwatched(lanes), *([combine.identity(lanes)] * together)]
        carried = for_range(self.emitter, 0, whole, together * lanes, one_step, carried) if whole else carried
        for start in range(whole, extent, lanes):
            value = self._partial(row, start, lanes, min(lanes, extent - start))
            carried = [*self._watched(carried[: watches + 1], [value]), *carried[watches + 1 :]]
        best = carried[watches:]
        while len(best) > 1:
            best = [combine(a, b) for a, b in zip(best[::2], best[1::2], strict=True)]
        value = combine.halve(best[0])
        return combine.settle(value, combine.across(carried[:watches]))

    def _watched(self, carried: list[ir.Value], values: list[ir.Value]) -> list[ir.Value]:
        """Emit one step of largest or smallest: what is watched first."""
        combine = self.combine
        seen, best = carried[: combine.watches], carried[combine.watches :]
        for pair in range(0, len(values), 2):
            seen = combine.watch(seen, values[pair : pair + 2])
        return [*seen, *(combine(b, v) for b, v in zip(best, values, strict=True))]

    # -- across the vectors ------------------------------------------------------------------------------------

    def _columns(
        self, along: int, inside: bool, buffers: tuple[ir.Value | None, ir.Value | None], write: Write
    ) -> None:
        """Vectors run along `along`; each lane reduces on its own."""
        emitter, extent = self.emitter, self.source.shape[along]
        lanes = lanes_for(extent, 4)
        # A sum visits every 128th row: then asking helps no more than it costs.
        prefetch = None if self.combine.kind == "sum" else (self.axis, _PREFETCH_DISTANCE)

        def one_line(point: tuple[Index, ...]) -> None:
            def at(number: Index, starts: Sequence[Index], valid: int | None) -> list[ir.Value]:
                place = [number if a == self.axis else i for a, i in enumerate(point)]
                row = Frame(emitter, place, along, inside=inside, prefetch=prefetch).row(self.source)
                return [row.at(start, lanes, valid) for start in starts]

            def stripe(index: Index, count: int, valid: int | None) -> None:
                starts = [Indices(emitter).add(index, v * lanes) for v in range(count)]
                values = self._reduce_stripe(lambda number: at(number, starts, valid), count, lanes, buffers)
                for start, value in zip(starts, values, strict=True):
                    write(point, along, value, start, lanes, valid)

            rest = 0
            for count in dict.fromkeys((self._stripe(along), 1)):
                whole = extent - (extent - rest) % (count * lanes)
                if whole > rest:
                    bounds = (rest, whole, count * lanes)
                    for_range(emitter, *bounds, lambda index, _, count=count: stripe(index, count, None) or ())
                rest = max(rest, whole)
            if rest < extent:
                stripe(rest, 1, extent - rest)

        for_points(emitter, self.source.shape, (self.axis, along), one_line)

    def _reduce_stripe(
        self,
        at: Callable[[Index], list[ir.Value]],
        count: int,
        lanes: int,
        buffers: tuple[ir.Value | None, ir.Value | None],
    ) -> list[ir.Value]:
        if self.combine.kind != "sum":
            return self._extreme_stripe(at, count, lanes)
        stripe = ColumnSums(self.emitter, self.combine, self.source.element, at, count, lanes, buffers[1])
        if self.blocks == 1:
            return stripe.block(0, self.extent)
        memory, element, partials = Memory(self.emitter), self.source.element, required(buffers[0])
        whole, rest = divmod(self.extent, BLOCK)
        width = count * lanes

        def keep(block: Index, values: list[ir.Value]) -> None:
            start = memory.address(partials, Indices(self.emitter).mul(block, width), element)
            for v, value in enumerate(values):
                memory.store(value, memory.address(start, v * lanes, element), lanes, element)

        def one_block(block: Index, _: list[ir.Value]) -> tuple[()]:
            keep(block, stripe.block(Indices(self.emitter).mul(block, BLOCK), BLOCK))
            return ()

        for_range(self.emitter, 0, whole, 1, one_block)
        if rest:
            keep(whole, stripe.block(whole * BLOCK, rest))
        self._pairwise(partials, count, lanes)
        return [memory.load(memory.address(partials, v * lanes, element), lanes, element) for v in range(count)]

    def _extreme_stripe(self, at: Callable[[Index], list[ir.Value]], count: int, lanes: int) -> list[ir.Value]:
        combine = self.combine
        watches, all_watches = combine.watches, combine.watches * count

        def one(number: Index, carried: list[ir.Value]) -> Sequence[ir.Value]:
            values = at(number)
            seen = [
                w for v, value in enumerate(values) for w in combine.watch(carried[watches * v :][:watches], [value])
            ]
            return [*seen, *(combine(b, v) for b, v in zip(carried[all_watches:], values, strict=True))]

        initial = [*(combine.unwatched(lanes) * count), *([combine.identity(lanes)] * count)]
        carried = for_range(self.emitter, 0, self.extent, 1, one, initial)
        return [combine.settle(best, carried[watches * v :][:watches]) for v, best in enumerate(carried[all_watches:])]

    # -- blocks ------------------------------------------------------------------------------------------------

    def _pairwise(self, partials: ir.Value, count: int, lanes: int) -> None:
        """Add the sums of blocks, neighbours first, in place: the total is the first.  Each is `count` vectors."""
        emitter, indices, memory = self.emitter, Indices(self.emitter), Memory(self.emitter)
        element, width = self.source.element, count * max(1, lanes)

        def read(place: Index) -> list[ir.Value]:
            start = memory.address(partials, indices.mul(place, width), element)
            return [memory.load(memory.address(start, v * lanes, element), lanes, element) for v in range(count)]

        def keep(place: Index, values: list[ir.Value]) -> None:
            start = memory.address(partials, indices.mul(place, width), element)
            for v, value in enumerate(values):
                memory.store(value, memory.address(start, v * lanes, element), lanes, element)

        def level(_: Index, carried: list[ir.Value]) -> Sequence[ir.Value]:
            pairs = indices.divide(carried[0], 2)

            def one_pair(pair: Index, _: list[ir.Value]) -> tuple[()]:
                left = indices.mul(pair, 2)
                both = zip(read(left), read(indices.add(left, 1)), strict=True)
                keep(pair, [self.combine(a, b) for a, b in both])
                return ()

            for_range(emitter, 0, pairs, 1, one_pair)
            # Without a lone last one this copies a sum to memory that is not read any more.
            keep(pairs, read(indices.sub(carried[0], 1)))
            return [indices.value(indices.sub(carried[0], pairs))]

        levels = (self.blocks - 1).bit_length()
        for_range(emitter, 0, levels, 1, level, [indices.value(self.blocks)])
