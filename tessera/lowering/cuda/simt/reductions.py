"""Reductions with the one association of `core/base/reductions.py`, by groups of lanes that exchange partial sums.

A row of n elements is cut into blocks of 4096; in a block, 128 columns each add every 128th element in order, and the
columns are added by halving.  `width` columns can be other than the identity, so that many are kept: `members` lanes
hold them, lane m the columns m, m + members, ...; halving adds a lane's own columns first, then those of neighbours by
shuffles.  The blocks of one row are then added pairwise, neighbours first.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tessera.core.base.reductions import BLOCK, COLUMNS
from tessera.lowering.cuda.base.gpu_function import WARP
from tessera.lowering.cuda.base.index_builder import IndexBuilder
from tessera.lowering.cuda.base.memory import read, split, write
from tessera.lowering.cuda.base.scalars import scalar_operation
from tessera.lowering.cuda.simt.synchronization import Sync
from tessera.lowering.cuda.simt.tile_values import NOTHING, Buffer, Tiles, TileValue

_COMBINE: Final = {
    "sum": ("arith.addf", "arith.addi", "arith.ori"),
    "max": ("arith.maximumf", "arith.maxsi", "arith.ori"),
    "min": ("arith.minimumf", "arith.minsi", "arith.andi"),
}
_HALVES: Final = ("f16", "bf16")


@dataclass(frozen=True, slots=True)
class Rule:
    """How two elements are combined: `kind` is sum, max or min, in f32 for 16-bit floats; `signed` for integers."""

    kind: str
    element: str
    signed: bool = True

    @property
    def wide(self) -> str:
        """The type in which partial results are kept."""
        return "f32" if self.element in _HALVES else self.element

    @property
    def any_order(self) -> bool:
        """Whether the order of the elements changes no bit of the result."""
        return self.kind != "sum" or self.wide[0] == "i"

    def combine(self, build: IndexBuilder, a: Any, b: Any) -> Any:
        """The combination of two partial results."""
        floating, integer, boolean = _COMBINE[self.kind]
        name = boolean if self.wide == "i1" else (integer if self.wide[0] == "i" else floating)
        if not self.signed:
            name = name.replace("maxsi", "maxui").replace("minsi", "minui")
        return scalar_operation(build, name, [a, b], self.wide, {})

    def identity(self, build: IndexBuilder) -> Any:
        """The value that changes nothing."""
        if self.kind == "sum":
            return build.constant(-0.0 if self.wide[0] != "i" else 0, self.wide)
        if self.wide[0] != "i":
            return build.constant(-math.inf if self.kind == "max" else math.inf, self.wide)
        return build.constant(self._limit(int(self.wide[1:])), self.wide)

    def _limit(self, bits: int) -> int:
        """The least integer for max, the greatest for min, as the signed number with its bits."""
        least = self.kind == "max"
        if bits == 1 or not self.signed:
            return 0 if least else -1
        return -(1 << (bits - 1)) if least else (1 << (bits - 1)) - 1

    def widen(self, build: IndexBuilder, value: Any) -> Any:
        """An element as a partial result."""
        return build.value("arith.extf", [value], self.wide) if self.wide != self.element else value

    def narrow(self, build: IndexBuilder, value: Any) -> Any:
        """A result as an element."""
        return build.value("arith.truncf", [value], self.element) if self.wide != self.element else value


@dataclass(frozen=True, slots=True)
class Rows:
    """What is reduced: `count` rows of `length` elements; `at(row, k)` emits code for element k of a row."""

    count: int
    length: int
    at: Callable[[Any, Any], Any]


def rows_of(build: IndexBuilder, tile: TileValue, axis: int | None) -> Rows:
    """The rows along `axis`; None: one row of all elements in row-major order."""
    if axis is None:
        return Rows(1, math.prod(tile.shape), lambda _, k: tile.at(split(build, k, tile.shape)))
    left = tile.shape[:axis] + tile.shape[axis + 1 :]

    def at(row: Any, k: Any) -> Any:
        indices = split(build, row, left) if left else []
        return tile.at([*indices[:axis], k, *indices[axis:]])

    return Rows(math.prod(left), tile.shape[axis], at)


def reduce_tile(tiles: Tiles, sync: Sync, tile: TileValue, rule: Rule, axis: int | None) -> Buffer:
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


def _partials(tiles: Tiles, sync: Sync, tile: TileValue, rows: Rows, rule: Rule, target: Buffer, blocks: int) -> None:
    """Reduce each block of 4096 of each row to one element of `target`, which has `blocks` a row."""
    build, team = tiles.build, tiles.team
    columns = min(COLUMNS, 1 << (rows.length - 1).bit_length())
    members = min(WARP, columns, 1 << (team.lanes.bit_length() - 1))
    member = build.remainder(team.lane, members)
    tiles.access(tile.classes, _class(target))

    def one(item: Any) -> None:
        row, block = build.divide(item, blocks), build.remainder(item, blocks)
        sums = _columns(build, rows, rule, row, build.mul(block, BLOCK), member, columns, members)
        while len(sums) > 1:
            half = len(sums) // 2
            sums = [rule.combine(build, a, b) for a, b in zip(sums[:half], sums[half:], strict=True)]
        total, distance = sums[0], members // 2
        while distance:
            total = rule.combine(build, total, sync.butterfly(total, distance, members))
            distance //= 2
        with build.when(build.compare("eq", member, 0) if members > 1 else None):
            last = rule.narrow(build, total) if target.element == rule.element else total
            _put(build, target, item, last)

    _share(tiles, rows.count * blocks, members, one)


def _columns(
    build: IndexBuilder, rows: Rows, rule: Rule, row: Any, start: Any, member: Any, columns: int, members: int
) -> list[Any]:
    """One lane's columns of a block: each adds its elements in order."""
    steps = min(BLOCK, rows.length)
    whole = rows.length % (BLOCK if rows.length > BLOCK else columns) == 0

    def element(base: Any, column: int) -> Any:
        k = build.add(build.add(start, base), build.add(member, column * members))
        load = lambda: rule.widen(build, rows.at(row, k))  # noqa: E731 - emitted in one of two places
        if whole:
            return load()
        return build.choose(build.inside(k, rows.length), load, lambda: rule.identity(build), rule.wide)

    count = columns // members
    if steps <= columns:
        return [element(0, column) for column in range(count)]

    def step(base: Any, sums: list[Any]) -> Sequence[Any]:
        return [rule.combine(build, total, element(base, column)) for column, total in enumerate(sums)]

    return build.loop(0, steps, COLUMNS, [rule.identity(build) for _ in range(count)], step)


def _share(tiles: Tiles, items: int, members: int, body: Callable[[Any], None]) -> None:
    """Run `body(item)` for every item, each by `members` neighbouring lanes together."""
    build, team = tiles.build, tiles.team
    teams = team.lanes // members
    number = build.divide(team.lane, members)

    def step(index: Any, _: list[Any]) -> list[Any]:
        body(index)
        return []

    if items <= teams:
        spare = items * members < team.lanes
        with build.when(build.inside(number, items) if spare else None):
            body(number)
        return
    with build.when(build.inside(number, teams) if teams * members < team.lanes else None):
        build.loop(number, items, teams, [], step)


def _halve(tiles: Tiles, partial: Buffer, rows: int, blocks: int, rule: Rule, result: Buffer) -> tuple[Buffer, int]:
    """Add neighbouring blocks of each row; a lone last one passes.  The last step writes `result`."""
    build = tiles.build
    left = -(-blocks // 2)
    target = result if left == 1 else tiles.required((rows, left), rule.wide)
    tiles.access(_class(partial), _class(target))

    def add(number: Any) -> None:
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


def _get(build: IndexBuilder, buffer: Buffer, row: Any, column: Any) -> Any:
    return read(build, buffer.memory, [row, column], buffer.element, [True, True])


def _put(build: IndexBuilder, buffer: Buffer, number: Any, value: Any) -> None:
    write(build, buffer.memory, value, split(build, number, buffer.shape), [True] * len(buffer.shape))


def _class(buffer: Buffer) -> frozenset[int]:
    return NOTHING if buffer.arena is None else frozenset((buffer.number,))
