"""Reduce tiles in the fixed association of `core/base/reductions.py`, by lanes that exchange partial results.

A row of n elements is cut into blocks of 4096; in a block, 128 columns each add every 128th element in order, and the
columns are added by halving.  `width` columns can be other than the identity, so that many are kept: `members` lanes
hold them, lane m the columns m, m + members, ...; halving adds a lane's own columns first, then those of neighbours by
shuffles.  The blocks of one row are then added pairwise, neighbours first.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tessera.core.base.reductions import BLOCK, COLUMNS
from tessera.core.mlir import Index, ir
from tessera.lowering.cuda.base.gpu_function import WARP
from tessera.lowering.cuda.base.index_builder import IndexBuilder
from tessera.lowering.cuda.base.memory import read, split, write
from tessera.lowering.cuda.base.scalars import scalar_operation
from tessera.lowering.cuda.simt.synchronization import Sync
from tessera.lowering.cuda.simt.tile_values import NOTHING, Buffer, TileBuffers, TileValue

_COMBINE: Final = {
    "sum": ("arith.addf", "arith.addi", "arith.ori"),
    "max": ("arith.maximumf", "arith.maxsi", "arith.ori"),
    "min": ("arith.minimumf", "arith.minsi", "arith.andi"),
}
_HALVES: Final = ("f16", "bf16")


@dataclass(frozen=True, slots=True)
class Rule:
    """Combine two elements: `kind` is sum, max or min, in f32 for 16-bit floats; `signed` for integers."""

    kind: str
    element: str
    signed: bool = True

    @property
    def wide(self) -> str:
        """Return the type in which partial results are kept."""
        return "f32" if self.element in _HALVES else self.element

    @property
    def any_order(self) -> bool:
        """Return whether the result has the same bits in any order of the elements."""
        return self.kind != "sum" or self.wide[0] == "i"

    def combine(self, build: IndexBuilder, a: ir.Value, b: ir.Value) -> ir.Value:
        """Emit the combination of two partial results."""
        floating, integer, boolean = _COMBINE[self.kind]
        name = boolean if self.wide == "i1" else (integer if self.wide[0] == "i" else floating)
        if not self.signed:
            name = name.replace("maxsi", "maxui").replace("minsi", "minui")
        return scalar_operation(build, name, [a, b], self.wide, {})

    def identity(self, build: IndexBuilder) -> ir.Value:
        """Emit the identity of the reduction."""
        if self.kind == "sum":
            return build.constant(-0.0 if self.wide[0] != "i" else 0, self.wide)
        if self.wide[0] != "i":
            return build.constant(-math.inf if self.kind == "max" else math.inf, self.wide)
        return build.constant(self._limit(int(self.wide[1:])), self.wide)

    def _limit(self, bits: int) -> int:
        """Return the least integer for max, the greatest for min, as the signed number with its bits."""
        least = self.kind == "max"
        if bits == 1 or not self.signed:
            return 0 if least else -1
        return -(1 << (bits - 1)) if least else (1 << (bits - 1)) - 1

    def widen(self, build: IndexBuilder, value: ir.Value) -> ir.Value:
        """Convert an element to a partial result."""
        return build.value("arith.extf", [value], self.wide) if self.wide != self.element else value

    def narrow(self, build: IndexBuilder, value: ir.Value) -> ir.Value:
        """Convert a result to an element."""
        return build.value("arith.truncf", [value], self.element) if self.wide != self.element else value


@dataclass(frozen=True, slots=True)
class ReductionRows:
    """Describe what is reduced: `count` rows of `length` elements; `at(row, k)` emits code for element k of a row."""

    count: int
    length: int
    at: Callable[[Index, Index], ir.Value]


def rows_of(build: IndexBuilder, tile: TileValue, axis: int | None) -> ReductionRows:
    """Return the rows along `axis`; None: one row of all elements in row-major order."""
    if axis is None:
        return ReductionRows(1, math.prod(tile.shape), lambda _, k: tile.at(split(build, k, tile.shape)))
    left = tile.shape[:axis] + tile.shape[axis + 1 :]

    def at(row: Index, k: Index) -> ir.Value:
        indices = split(build, row, left) if left else []
        return tile.at([*indices[:axis], k, *indices[axis:]])

    return ReductionRows(math.prod(left), tile.shape[axis], at)


def reduce_tile(tiles: TileBuffers, sync: Sync, tile: TileValue, rule: Rule, axis: int | None) -> Buffer:
    """Reduce `tile` into a new buffer of the remaining shape ((1,) when nothing is left)."""
    rows = rows_of(tiles.build, tile, axis)
    left = () if axis is None else tile.shape[:axis] + tile.shape[axis + 1 :]
    result = tiles.required(left or (1,), rule.element)
    blocks = max(1, -(-rows.length // BLOCK))
    if blocks == 1:
        _partials(tiles, sync, tile, rows, rule, result, blocks)
        return result
    partial = tiles.required((rows.count, blocks), rule.wide)
    _partials(tiles, sync, tile, rows, rule, partial, blocks)
    while blocks > 1:
        partial, blocks = _halve(tiles, partial, rows.count, blocks, rule, result)
    return result


def _partials(
    tiles: TileBuffers, sync: Sync, tile: TileValue, rows: ReductionRows, rule: Rule, target: Buffer, blocks: int
) -> None:
    """Reduce each block of 4096 of each row to one element of `target`, which has `blocks` a row."""
    build, computing_lanes = tiles.build, tiles.computing_lanes
    columns = min(COLUMNS, 1 << (rows.length - 1).bit_length())
    members = min(WARP, columns, 1 << (computing_lanes.lanes.bit_length() - 1))
    member = build.remainder(computing_lanes.lane, members)
    tiles.access(tile.classes, _class(target))

    def one(item: Index) -> None:
        row, block = build.divide(item, blocks), build.remainder(item, blocks)
        partials = _columns(build, rows, rule, row, build.mul(block, BLOCK), member, columns, members)
        while len(partials) > 1:
            half = len(partials) // 2
            partials = [rule.combine(build, a, b) for a, b in zip(partials[:half], partials[half:], strict=True)]
        total, distance = partials[0], members // 2
        while distance:
            total = rule.combine(build, total, sync.butterfly(total, distance, members))
            distance //= 2
        with build.when(build.compare("eq", member, 0) if members > 1 else None):
            last = rule.narrow(build, total) if target.element == rule.element else total
            _put(build, target, item, last)

    _share(tiles, rows.count * blocks, members, one)


def _columns(
    build: IndexBuilder,
    rows: ReductionRows,
    rule: Rule,
    row: Index,
    start: Index,
    member: Index,
    columns: int,
    members: int,
) -> list[ir.Value]:
    """Emit one lane's columns of a block, each of which adds its elements in order."""
    steps = min(BLOCK, rows.length)
    whole = rows.length % (BLOCK if rows.length > BLOCK else columns) == 0

    def element(base: Index, column: int) -> ir.Value:
        k = build.add(build.add(start, base), build.add(member, column * members))
        load = lambda: rule.widen(build, rows.at(row, k))  # noqa: E731 - emitted in one of two places
        if whole:
            return load()
        return build.choose(build.inside(k, rows.length), load, lambda: rule.identity(build), rule.wide)

    count = columns // members
    if steps <= columns:
        return [element(0, column) for column in range(count)]

    def step(base: Index, partials: list[ir.Value]) -> Sequence[ir.Value]:
        return [rule.combine(build, total, element(base, column)) for column, total in enumerate(partials)]

    return build.loop(0, steps, COLUMNS, [rule.identity(build) for _ in range(count)], step)


def _share(tiles: TileBuffers, items: int, members: int, body: Callable[[Index], None]) -> None:
    """Run `body(item)` for every item, each by `members` neighbouring lanes together."""
    build, computing_lanes = tiles.build, tiles.computing_lanes
    teams = computing_lanes.lanes // members
    number = build.divide(computing_lanes.lane, members)

    def step(index: Index, _: list[ir.Value]) -> list[ir.Value]:
        body(index)
        return []

    if items <= teams:
        spare = items * members < computing_lanes.lanes
        with build.when(build.inside(number, items) if spare else None):
            body(number)
        return
    with build.when(build.inside(number, teams) if teams * members < computing_lanes.lanes else None):
        build.loop(number, items, teams, [], step)


def _halve(
    tiles: TileBuffers, partial: Buffer, rows: int, blocks: int, rule: Rule, result: Buffer
) -> tuple[Buffer, int]:
    """Add neighbouring blocks of each row; a lone last one passes.  The last step writes `result`."""
    build = tiles.build
    left = -(-blocks // 2)
    target = result if left == 1 else tiles.required((rows, left), rule.wide)
    tiles.access(_class(partial), _class(target))

    def add(number: Index) -> None:
        row, pair = build.divide(number, left), build.remainder(number, left)
        first = build.mul(pair, 2)
        value = _get(build, partial, row, first)
        second = build.add(first, 1)
        if blocks % 2:
            value = build.choose(
                build.inside(second, blocks),
                lambda: rule.combine(build, value, _get(build, partial, row, second)),
                lambda: value,
                rule.wide,
            )
        else:
            value = rule.combine(build, value, _get(build, partial, row, second))
        _put(build, target, number, rule.narrow(build, value) if left == 1 else value)

    tiles.each(rows * left, add)
    tiles.free(partial)
    return target, left


def _get(build: IndexBuilder, buffer: Buffer, row: Index, column: Index) -> ir.Value:
    return read(build, buffer.memory, [row, column], buffer.element, [True, True])


def _put(build: IndexBuilder, buffer: Buffer, number: Index, value: ir.Value) -> None:
    write(build, buffer.memory, value, split(build, number, buffer.shape), [True] * len(buffer.shape))


def _class(buffer: Buffer) -> frozenset[int]:
    return NOTHING if buffer.arena is None else frozenset((buffer.number,))
