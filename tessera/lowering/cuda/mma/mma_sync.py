"""Lower `tessera.dot` to `mma.sync`, which every GPU from sm_80 on has: 16 x 8 elements per warp and instruction.

Operands come from shared memory by `ldmatrix`, 16 rows and 32 bytes of K at a time, and are loaded one step ahead of
the MMAs that use them.  An operand A of 16 bits may be in registers: the accumulators of one MMA are laid out as
operand A of the next.  f32 becomes tf32 in registers; where K is not contiguous, f32 elements are read one by one, as
`ldmatrix` transposes 16-bit elements only.
"""

from collections.abc import Sequence
from typing import Final, Protocol

from tessera.core.layouts import Layout, accumulator, coordinates
from tessera.core.mlir import AnyOp, ir
from tessera.lowering.cuda.base.gpu_function import GpuFunction
from tessera.lowering.cuda.base.index_builder import IndexBuilder, width
from tessera.lowering.cuda.isa.sm80 import multiply
from tessera.lowering.cuda.mma.operand_fragments import Matrices, Words
from tessera.lowering.cuda.schedule.mma_selection import STEP_BYTES, operand_type
from tessera.lowering.cuda.schedule.view import ScheduleView
from tessera.lowering.cuda.storage.emit_context import TileContext
from tessera.lowering.cuda.storage.register_tiles import RegisterTile, pack
from tessera.lowering.cuda.storage.register_to_shared import staged_operands
from tessera.lowering.cuda.storage.shared_tile import SharedTile
from tessera.lowering.cuda.storage.warps import WarpSet
from tessera.lowering.tile.pack_floats import OPERAND_FORMAT
from tessera.lowering.tile.round_operands import rounded_to_tf32

_ACCUMULATORS: Final = 4
_HALF: Final = 2  # bytes of an element of 16 bits

Fragments = list[list[ir.Value]]


class MmaSyncContext(TileContext, Protocol):
    """Declare what `mma.sync` needs of the emitter."""

    frame: GpuFunction
    plan: ScheduleView


def dot(host: MmaSyncContext, op: AnyOp) -> None:
    """Emit `a b` or `acc + a b` with f32 accumulators and operands of 16 or 8 bits, or of f32 rounded to tf32."""
    build = host.build
    layout = host.layout(op.results[0])
    a_value, b_value, *accumulators = op.operands
    blocks = _Blocks.of(layout)
    operands = [b_value]
    left = _in_registers(host, a_value, layout, blocks)
    if left is None:
        operands.append(a_value)
    zeros = (build.constant(0.0, "f32"),) * layout.count
    values = list(host.tile(accumulators[0], layout).values if accumulators else zeros)
    with staged_operands(host, operands) as (second, *first):
        # Lanes may have left a wait at different times; the instructions below need whole warps.
        build.create("nvvm.bar.warp.sync", [build.word(-1)])
        right = _Right(build, host.warp_set, second, blocks)
        _multiply(host, op, blocks, left or _Left(build, host.warp_set, first[0], blocks), right, values)
    # One lane of each warp frees the operands' memory; all lanes have read it by then.
    build.create("nvvm.bar.warp.sync", [build.word(-1)])
    host.define(op.results[0], RegisterTile(layout, "f32", tuple(values)))


def _multiply(
    host: MmaSyncContext,
    op: AnyOp,
    blocks: "_Blocks",
    left: "_Left | _InRegisters",
    right: "_Right",
    values: list[ir.Value],
) -> None:
    """Emit the MMAs of all steps along K, accumulated in `values`."""
    build, element = host.build, operand_type(op)
    operand = ir.ShapedType(op.operands[0].type)
    depth, step = operand.shape[1], STEP_BYTES // (width(str(operand.element_type)) // 8)
    # Accumulators of 8-bit floats that are promoted to f32 begin at zero with each instruction.
    zeros = (
        [build.constant(0.0, "f32")] * _ACCUMULATORS
        if OPERAND_FORMAT in op.attributes and host.plan.schedule.promotion_interval
        else []
    )
    prefetched = (left.fragments(0), right.fragments(0))
    for first in range(0, depth, step):
        a, b = prefetched
        if element == "tf32":
            a, b = _rounded(host, a), _rounded(host, b)
        if first + step < depth:
            prefetched = (left.fragments(first + step), right.fragments(first + step))
        for row in range(len(blocks.rows)):
            for column in range(len(blocks.columns)):
                place = (row * len(blocks.columns) + column) * _ACCUMULATORS
                mine = values[place : place + _ACCUMULATORS]
                found = multiply(build, element, a[row], b[column], zeros or mine)
                if zeros:
                    found = [build.value("arith.addf", pair, "f32") for pair in zip(mine, found, strict=True)]
                values[place : place + _ACCUMULATORS] = found


def _rounded(host: MmaSyncContext, fragments: Fragments) -> Fragments:
    """Round f32 words to tf32, with one instruction where the chip has one."""
    build = host.build

    def rounded(word: ir.Value) -> ir.Value:
        value = build.value("arith.bitcast", [word], "f32")
        if host.frame.chip.cvt_tf32:
            return build.value("nvvm.convert.float.to.tf32", [value], "i32", {"rnd": "#nvvm.fp_rnd_mode<rn>"})
        return build.value("arith.bitcast", [rounded_to_tf32(build, value)], "i32")

    return [[rounded(word) for word in words] for words in fragments]


class _Blocks:
    """List the first rows and columns of a warp's blocks of 16 x 8, relative to the warp's own first ones."""

    def __init__(self, layout: Layout, rows: list[int], columns: list[int]) -> None:
        self.layout = layout
        self.rows = rows
        self.columns = columns

    @classmethod
    def of(cls, layout: Layout) -> "_Blocks":
        """Read the blocks from a layout: registers are in order of columns, then rows, four accumulators per block."""
        places = [
            coordinates(layout.element(register), layout.shape) for register in range(0, layout.count, _ACCUMULATORS)
        ]
        columns = [column for row, column in places if row == places[0][0]]
        return cls(layout, [row for row, column in places if column == places[0][1]], columns)


def _reader(
    build: IndexBuilder, warp_set: WarpSet, tile: SharedTile, layout: Layout, axis: int, halves: tuple[int, int]
) -> Matrices | Words:
    """Create the reader of an operand, which has axis `axis` of the accumulators."""
    along = tile.transposed == (axis == 1)
    kind = Matrices if along or tile.panels.size == _HALF else Words
    return kind(build, warp_set, tile, layout, axis, halves)


class _Left:
    """Load operand A from shared memory: for each block of 16 rows (0-7, 8-15), both halves of K."""

    def __init__(self, build: IndexBuilder, warp_set: WarpSet, tile: SharedTile, blocks: _Blocks) -> None:
        self._rows = blocks.rows
        self._reader = _reader(build, warp_set, tile, blocks.layout, 0, (3, 4))

    def fragments(self, step: int) -> Fragments:
        """Return four i32 for each block of rows."""
        return [self._reader.load(row, step, 4) for row in self._rows]


class _Right:
    """Load operand B from shared memory: for each block of 8 columns, both halves of K; two blocks at a time."""

    def __init__(self, build: IndexBuilder, warp_set: WarpSet, tile: SharedTile, blocks: _Blocks) -> None:
        self._columns = blocks.columns
        self._reader = _reader(build, warp_set, tile, blocks.layout, 1, (4, 3))

    def fragments(self, step: int) -> Fragments:
        """Return two i32 for each block of columns."""
        found: Fragments = []
        if len(self._columns) == 1:
            return [self._reader.load(self._columns[0], step, 2)]
        for column in self._columns[::2]:
            words = self._reader.load(column, step, 4)
            found += [words[:2], words[2:]]
        return found


class _InRegisters:
    """Take a 16-bit operand A from registers, which are laid out as accumulators are."""

    def __init__(self, build: IndexBuilder, tile: RegisterTile, count: int) -> None:
        self._words = [pack(build, tile.values[n : n + 2]) for n in range(0, len(tile.values), 2)]
        self._block = len(self._words) // count
        self._count = count

    def fragments(self, step: int) -> Fragments:
        """Return four i32 for each block of rows."""
        firsts = [block * self._block + step // 4 for block in range(self._count)]
        return [self._words[first : first + 4] for first in firsts]


def _in_registers(host: MmaSyncContext, value: ir.Value, layout: Layout, blocks: _Blocks) -> _InRegisters | None:
    """Return operand A if it can stay in registers; f32 cannot, as its accumulators are laid out differently."""
    kind = ir.ShapedType(value.type)
    if isinstance(host.env[value], SharedTile) or width(str(kind.element_type)) // 8 != _HALF:
        return None
    rows, depth = kind.shape
    shape = (rows, depth)
    sideways = sum(1 for basis in layout.warps if basis and basis < layout.shape[1])
    stacked = accumulator(shape, host.warp_set.bits - sideways)
    mine = Layout(shape, stacked.registers, stacked.lanes, _beside(stacked.warps, sideways))
    return _InRegisters(host.build, host.tile(value, mine), len(blocks.rows))


def _beside(warps: Sequence[int], count: int) -> tuple[int, ...]:
    """Add the bits of warps that share rows, side by side along the columns."""
    return (*warps, *(0,) * count)
