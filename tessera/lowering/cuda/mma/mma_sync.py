"""`tessera.dot` on the tensor cores that every GPU from sm_80 on has: 16 x 8 elements a warp and instruction.

Factors come from shared memory by `ldmatrix`, 16 rows and 32 bytes of K at a time, and are loaded one step ahead of
the products that use them.  A left factor of 16 bits may be in registers: sums of one product are laid out as factors
of the next.  f32 become tf32 in registers; where K is not contiguous, they are read one by one, as `ldmatrix`
transposes elements of 16 bits only.
"""

from collections.abc import Sequence
from typing import Any, Final, Protocol

from tessera.core.layouts import Layout, accumulator, coordinates
from tessera.lowering.cuda.base.gpu_function import GpuFunction
from tessera.lowering.cuda.base.index_builder import IndexBuilder, width
from tessera.lowering.cuda.isa.sm80 import multiply
from tessera.lowering.cuda.mma.operand_fragments import Matrices, Words
from tessera.lowering.cuda.schedule.mma_selection import STEP_BYTES, factor_type
from tessera.lowering.cuda.schedule.view import ScheduleView
from tessera.lowering.cuda.storage.emit_context import TileContext
from tessera.lowering.cuda.storage.register_tiles import RegisterTile, pack
from tessera.lowering.cuda.storage.register_to_shared import staged_operands
from tessera.lowering.cuda.storage.shared_tile import SharedTile
from tessera.lowering.cuda.storage.warps import WarpSet
from tessera.lowering.tile.pack_floats import FACTORS
from tessera.lowering.tile.round_operands import rounded_to_tf32

_SUMS: Final = 4
_HALF: Final = 2  # bytes of an element of 16 bits

Fragments = list[list[Any]]


class MmaSyncContext(TileContext, Protocol):
    """What products ask of the code around them."""

    frame: GpuFunction
    plan: ScheduleView


def dot(host: MmaSyncContext, op: Any) -> None:
    """`a b`, or `acc + a b`: f32 sums of factors of 16 or 8 bits, or of f32 rounded to tf32."""
    build = host.build
    layout = host.layout(op.results[0])
    a_value, b_value, *sums = op.operands
    blocks = _Blocks.of(layout)
    factors = [b_value]
    left = _in_registers(host, a_value, layout, blocks)
    if left is None:
        factors.append(a_value)
    zeros = (build.constant(0.0, "f32"),) * layout.count
    values = list(host.tile(sums[0], layout).values if sums else zeros)
    with staged_operands(host, factors) as (second, *first):
        # Lanes may have come out of a wait at different times; the instructions below are for whole warps.
        build.create("nvvm.bar.warp.sync", [build.word(-1)])
        right = _Right(build, host.team, second, blocks)
        _multiply(host, op, blocks, left or _Left(build, host.team, first[0], blocks), right, values)
    # What frees the factors' memory is done by one lane of each warp: all have read by then.
    build.create("nvvm.bar.warp.sync", [build.word(-1)])
    host.define(op.results[0], RegisterTile(layout, "f32", tuple(values)))


def _multiply(
    host: MmaSyncContext, op: Any, blocks: "_Blocks", left: "_Left | _InRegisters", right: "_Right", values: list[Any]
) -> None:
    """Add all products to `values`."""
    build, element = host.build, factor_type(op)
    size = width(str(op.operands[0].type.element_type)) // 8
    depth, step = op.operands[0].type.shape[1], STEP_BYTES // size
    # Sums of floats of 8 bits that are added in f32 begin anew with each instruction.
    zeros = (
        [build.constant(0.0, "f32")] * _SUMS
        if FACTORS in op.attributes and host.plan.schedule.promotion_interval
        else []
    )
    ahead = (left.fragments(0), right.fragments(0))
    for first in range(0, depth, step):
        a, b = ahead
        if element == "tf32":
            a, b = _rounded(host, a), _rounded(host, b)
        if first + step < depth:
            ahead = (left.fragments(first + step), right.fragments(first + step))
        for row in range(len(blocks.rows)):
            for column in range(len(blocks.columns)):
                place = (row * len(blocks.columns) + column) * _SUMS
                mine = values[place : place + _SUMS]
                found = multiply(build, element, a[row], b[column], zeros or mine)
                if zeros:
                    found = [build.value("arith.addf", pair, "f32") for pair in zip(mine, found, strict=True)]
                values[place : place + _SUMS] = found


def _rounded(host: MmaSyncContext, fragments: Fragments) -> Fragments:
    """The words, which are f32, as tf32: by one instruction where the chip has one."""
    build = host.build

    def rounded(word: Any) -> Any:
        value = build.value("arith.bitcast", [word], "f32")
        if host.frame.chip.cvt_tf32:
            return build.value("nvvm.convert.float.to.tf32", [value], "i32", {"rnd": "#nvvm.fp_rnd_mode<rn>"})
        return build.value("arith.bitcast", [rounded_to_tf32(build, value)], "i32")

    return [[rounded(word) for word in words] for words in fragments]


class _Blocks:
    """The first rows and columns of a warp's blocks of 16 x 8, relative to the warp's own first ones."""

    def __init__(self, layout: Layout, rows: list[int], columns: list[int]) -> None:
        self.layout = layout
        self.rows = rows
        self.columns = columns

    @classmethod
    def of(cls, layout: Layout) -> "_Blocks":
        """Registers are in order of columns, then rows, four sums a block."""
        places = [coordinates(layout.element(register), layout.shape) for register in range(0, layout.count, _SUMS)]
        columns = [column for row, column in places if row == places[0][0]]
        return cls(layout, [row for row, column in places if column == places[0][1]], columns)


def _reader(
    build: IndexBuilder, team: WarpSet, tile: SharedTile, layout: Layout, axis: int, halves: tuple[int, int]
) -> Matrices | Words:
    """What reads a factor, which has axis `axis` of the sums."""
    along = tile.transposed == (axis == 1)
    kind = Matrices if along or tile.panels.size == _HALF else Words
    return kind(build, team, tile, layout, axis, halves)


class _Left:
    """A left factor in shared memory: for each block of 16 rows (0-7, 8-15) x both halves of K."""

    def __init__(self, build: IndexBuilder, team: WarpSet, tile: SharedTile, blocks: _Blocks) -> None:
        self._rows = blocks.rows
        self._reader = _reader(build, team, tile, blocks.layout, 0, (3, 4))

    def fragments(self, step: int) -> Fragments:
        """Four i32 for each block of rows."""
        return [self._reader.load(row, step, 4) for row in self._rows]


class _Right:
    """A right factor in shared memory: for each block of 8 columns, both halves of K; two blocks are read at a time."""

    def __init__(self, build: IndexBuilder, team: WarpSet, tile: SharedTile, blocks: _Blocks) -> None:
        self._columns = blocks.columns
        self._reader = _reader(build, team, tile, blocks.layout, 1, (4, 3))

    def fragments(self, step: int) -> Fragments:
        """Two i32 for each block of columns."""
        found: Fragments = []
        if len(self._columns) == 1:
            return [self._reader.load(self._columns[0], step, 2)]
        for column in self._columns[::2]:
            words = self._reader.load(column, step, 4)
            found += [words[:2], words[2:]]
        return found


class _InRegisters:
    """A left factor of 16 bits in registers, laid out as sums are."""

    def __init__(self, build: IndexBuilder, tile: RegisterTile, count: int) -> None:
        self._words = [pack(build, tile.values[n : n + 2]) for n in range(0, len(tile.values), 2)]
        self._block = len(self._words) // count
        self._count = count

    def fragments(self, step: int) -> Fragments:
        """Four i32 for each block of rows."""
        firsts = [block * self._block + step // 4 for block in range(self._count)]
        return [self._words[first : first + 4] for first in firsts]


def _in_registers(host: MmaSyncContext, value: Any, layout: Layout, blocks: _Blocks) -> _InRegisters | None:
    """A left factor that is in registers, where it can stay there: not f32, whose sums lie otherwise."""
    if isinstance(host.env[value], SharedTile) or width(str(value.type.element_type)) // 8 != _HALF:
        return None
    shape: tuple[int, int] = tuple(value.type.shape)  # pyright: ignore[reportAssignmentType] - a product's factor
    sideways = sum(1 for basis in layout.warps if basis and basis < layout.shape[1])
    stacked = accumulator(shape, host.team.bits - sideways)
    mine = Layout(shape, stacked.registers, stacked.lanes, _beside(stacked.warps, sideways))
    return _InRegisters(host.build, host.tile(value, mine), len(blocks.rows))


def _beside(warps: Sequence[int], count: int) -> tuple[int, ...]:
    """Warps beside each other have the same rows."""
    return (*warps, *(0,) * count)
