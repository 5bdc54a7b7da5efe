"""Lower matrix products to chains of fused multiply-adds in K order: the same bits for every shape of the group.

Every lane computes small blocks of the result, `rows` x `columns` elements spread over the tile so that neighbouring
lanes read neighbouring columns; both operands lie in shared memory if they fit.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tessera.core.mlir import Index, ir
from tessera.lowering.cuda.base.index_builder import IndexBuilder
from tessera.lowering.cuda.base.memory import write
from tessera.lowering.cuda.simt.tile_values import NOTHING, Buffer, TileBuffers, TileValue

_HALVES: Final = ("f16", "bf16")
_LARGEST_BLOCK: Final = 8


@dataclass(frozen=True, slots=True)
class DotProduct:
    """Describe `acc + a @ b`: a is [M, K], b [K, N]; `signed` for integer operands that are widened."""

    a: TileValue
    b: TileValue
    acc: TileValue | None
    element: str
    signed: bool = True

    @property
    def wide(self) -> str:
        """Return the type in which a chain accumulates."""
        return "f32" if self.element in _HALVES else self.element


def dot_tile(tiles: TileBuffers, product: DotProduct, target: Buffer) -> None:
    """Compute `product` into `target`, which may be the buffer of its accumulator."""
    held = [_stage(tiles, operand) for operand in (product.a, product.b)]
    a, b = (
        operand if buffer is None else tiles.value(buffer)
        for operand, buffer in zip((product.a, product.b), held, strict=True)
    )
    acc = product.acc
    reads = a.classes | b.classes | (acc.classes if acc is not None else NOTHING)
    tiles.access(reads, NOTHING if target.arena is None else frozenset((target.number,)))
    (m, k), n = a.shape, b.shape[1]
    rows, columns = _block(m, n, tiles.computing_lanes.lanes)
    build = tiles.build

    def block(number: Index) -> None:
        first_row = build.divide(number, n // columns)
        first_column = build.remainder(number, n // columns)
        places = [
            (build.add(first_row, r * (m // rows)), build.add(first_column, c * (n // columns)))
            for r in range(rows)
            for c in range(columns)
        ]
        start = [_initial(build, product, place) for place in places]

        def step(index: Index, accumulators: list[ir.Value]) -> Sequence[ir.Value]:
            left = [_wide(build, a.at([places[r * columns][0], index]), product) for r in range(rows)]
            right = [_wide(build, b.at([index, places[c][1]]), product) for c in range(columns)]
            return [
                _multiply_add(build, left[i // columns], right[i % columns], total)
                for i, total in enumerate(accumulators)
            ]

        for place, total in zip(places, build.loop(0, k, 1, start, step), strict=True):
            value = build.value("arith.truncf", [total], product.element) if product.wide != product.element else total
            write(build, target.memory, value, place, [True, True])

    tiles.each((m // rows) * (n // columns), block)
    for buffer in held:
        if buffer is not None:
            tiles.free(buffer)


def _stage(tiles: TileBuffers, operand: TileValue) -> Buffer | None:
    """Stage the operand in shared memory; None if it is in a buffer already, or does not fit."""
    if tiles.computing_lanes.serial or operand.is_buffer:
        return None
    buffer = tiles.buffer(operand.shape, operand.element, optional=True)
    if buffer is not None:
        tiles.fill(buffer, operand)
    return buffer


def _block(m: int, n: int, lanes: int) -> tuple[int, int]:
    """Return rows and columns of a lane's block: the largest, up to 8 x 8, of which every lane has one."""
    rows = columns = 1
    while True:
        grown = [
            (r, c)
            for r, c in ((rows, columns * 2), (rows * 2, columns))
            if r <= _LARGEST_BLOCK and c <= _LARGEST_BLOCK and m % r == 0 and n % c == 0 and m * n >= r * c * lanes
        ]
        if not grown:
            return rows, columns
        rows, columns = min(grown, key=lambda block: abs(block[0] - block[1]))


def _initial(build: IndexBuilder, product: DotProduct, place: Sequence[Index]) -> ir.Value:
    if product.acc is None:
        return build.constant(0, product.wide)
    value = product.acc.at(list(place))
    return build.value("arith.extf", [value], product.wide) if product.wide != product.element else value


def _wide(build: IndexBuilder, value: ir.Value, product: DotProduct) -> ir.Value:
    """Convert an operand's element to the accumulator's type."""
    kind, wide = str(value.type), product.wide
    if kind == wide:
        return value
    if wide[0] == "i":
        return build.value("arith.extsi" if product.signed else "arith.extui", [value], wide)
    return build.value("arith.extf", [value], wide)


def _multiply_add(build: IndexBuilder, a: ir.Value, b: ir.Value, total: ir.Value) -> ir.Value:
    kind = str(total.type)
    if kind[0] == "i":
        return build.value("arith.addi", [build.value("arith.muli", [a, b], kind), total], kind)
    return build.value("math.fma", [a, b, total], kind)
