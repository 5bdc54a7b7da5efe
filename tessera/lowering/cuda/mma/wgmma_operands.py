"""Describe wgmma operands in shared memory with matrix descriptors, and issue the instructions.

Rows are shared among the warp groups, 64 at a time (PTX ISA, 9.7.15 "Asynchronous Warpgroup Level Matrix Multiply").
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tessera.core.mlir import ir
from tessera.lowering.cuda.base.index_builder import IndexBuilder
from tessera.lowering.cuda.isa import sm90
from tessera.lowering.cuda.storage.shared_tile import SharedTile
from tessera.lowering.cuda.storage.warps import WarpSet

GROUP_LANES: Final = 128
_ROWS: Final = 64
_WORDS: Final = 4
_MOST_COLUMNS: Final = 256
_STEP_BYTES: Final = 32
_SWIZZLE_MODES: Final = {128: 1, 64: 2, 32: 3}
_EIGHT_ROWS: Final = 8
_UNIT: Final = 16
_FIELD: Final = 0x3FFF


@dataclass(frozen=True, slots=True)
class Operand:
    """Hold an operand in shared memory; `outer_major`: its rows (of A) or columns (of B) are contiguous, not K."""

    tile: SharedTile
    outer_major: bool

    def offset(self, outer: int, inner_bytes: int) -> int:
        """Return the bytes from the start to row (or column) `outer`, a multiple of 8, at K step `inner_bytes` / 32."""
        panels = self.tile.panels
        if self.outer_major:
            panel, rest = divmod(outer * panels.size, panels.swizzle)
            step = inner_bytes // panels.size
            return panel * panels.panel_bytes + rest + step * panels.swizzle
        panel, rest = divmod(inner_bytes, panels.swizzle)
        return panel * panels.panel_bytes + outer * panels.swizzle + rest

    def descriptor(self, build: IndexBuilder, first: ir.Value | None) -> "Descriptor":
        """Emit a matrix descriptor of the operand, `first` (i32; None: 0) bytes after its start."""
        panels = self.tile.panels
        leading = panels.panel_bytes if self.outer_major else _UNIT
        stride = _EIGHT_ROWS * panels.swizzle
        high = stride // _UNIT | _SWIZZLE_MODES[panels.swizzle] << 30
        address = self.tile.address
        if first is not None:
            address = build.value("arith.addi", [address, first], "i32")
        units = build.value("arith.shrui", [address, build.word(4)], "i32")
        # In a cluster, addresses have the number of the block in their upper bits.
        low = build.value("arith.andi", [units, build.word(_FIELD)], "i32")
        part = build.word((leading // _UNIT & _FIELD) << 16)
        return Descriptor(build.value("arith.ori", [low, part], "i32"), high)


@dataclass(frozen=True, slots=True)
class Descriptor:
    """Hold a matrix descriptor: its low word (i32), which has the address in units of 16 bytes, and its high one."""

    low: ir.Value
    high: int

    def at(self, build: IndexBuilder, offset: int) -> ir.Value:
        """Emit the descriptor, an i64, of what lies `offset` bytes further on.

        Only the low word changes: the address has two spare bits there.
        """
        low = build.value("arith.addi", [self.low, build.word(offset // _UNIT)], "i32") if offset else self.low
        high = self.high << 32
        signed = high - (1 << 64) if high >= 1 << 63 else high
        return build.value("arith.ori", [build.to_index(low), build.constant(signed, "i64")], "i64")


@dataclass(frozen=True, slots=True)
class Product:
    """Describe `a b` of m x k and k x n elements, all of the type `element`.

    element: as PTX names it
    left: operand A in shared memory; otherwise `words`: A in registers, four for each 64 rows and 32 bytes of K, with
          two elements in each, as `layouts.accumulator` has them, or one
    first: where along K the product begins in both operands
    widest: columns of one instruction, a power of two of at most 256
    """

    shape: tuple[int, int, int]
    element: str
    right: Operand
    left: Operand | None = None
    words: tuple[ir.Value, ...] = ()
    first: int = 0
    widest: int = _MOST_COLUMNS

    @property
    def columns(self) -> int:
        """Return the columns of each instruction."""
        return min(self.shape[1], self.widest)

    @property
    def block(self) -> int:
        """Return the registers of one block of 64 rows and `columns`, in order of columns, then rows."""
        return self.columns // 2

    def blocks(self, warp_set: WarpSet) -> int:
        """Return the number of such blocks of one warp group."""
        m, n, _ = self.shape
        return m * n // (warp_set.lanes // GROUP_LANES * _ROWS * self.columns)


def issue(
    build: IndexBuilder, warp_set: WarpSet, product: Product, accumulators: Sequence[ir.Value] | None,
    only: int | None = None, unless: ir.Value | None = None,
) -> list[ir.Value]:  # fmt: skip
    """Issue an MMA, added to `accumulators` if there are any; return the new ones, not to be read before a wait.

    only: the number of the one block to issue, of which `accumulators` are all
    unless: an i32; where it is 0, the result overwrites `accumulators` instead of being added
    """
    _, n, k = product.shape
    left, right = product.left, product.right
    columns, block = product.columns, product.block
    groups = warp_set.lanes // GROUP_LANES
    right_start = right.descriptor(build, None)
    left_start = _left_start(build, warp_set, left) if left is not None else None
    step = _STEP_BYTES // right.tile.panels.size
    flags = (left.outer_major if left is not None else False, right.outer_major)
    sm90.wgmma_fence(build)
    results: list[ir.Value] = []
    for number in range(product.blocks(warp_set)) if only is None else (only,):
        rows, first = divmod(number, n // columns)
        steps: list[tuple[Sequence[ir.Value], ir.Value]] = []
        for place in range(0, k, step):
            inner = (product.first + place) * _STEP_BYTES // step
            if left is not None and left_start is not None:
                a: Sequence[ir.Value] = [left_start.at(build, left.offset(rows * groups * _ROWS, inner))]
            else:
                a = product.words[_WORDS * (rows * k + place) // step :][:_WORDS]
            steps.append((a, right_start.at(build, right.offset(first * columns, inner))))
        begin = 0 if only is not None else number * block
        mine = accumulators[begin : begin + block] if accumulators is not None else None
        results += sm90.wgmma(
            build, (_ROWS, columns, step), product.element, mine, steps,
            transposed=flags, unless=unless if accumulators is not None else None,
        )  # fmt: skip
    sm90.wgmma_commit(build)
    return results


def group_number(build: IndexBuilder, warp_set: WarpSet) -> ir.Value:
    """Emit the number of this lane's warp group, an i32 that is known to be uniform in a warp."""
    number = build.to_word(build.divide(warp_set.thread, GROUP_LANES))
    operands = [build.word(-1), number, build.word(0), build.word(31)]
    return build.value("nvvm.shfl.sync", operands, "i32", {"kind": "#nvvm<shfl_kind idx>"})


def _left_start(build: IndexBuilder, warp_set: WarpSet, left: Operand) -> Descriptor:
    """Emit the descriptor of this warp group's first 64 rows."""
    if warp_set.lanes <= GROUP_LANES:
        return left.descriptor(build, None)
    mine = build.value("arith.muli", [group_number(build, warp_set), build.word(left.offset(_ROWS, 0))], "i32")
    return left.descriptor(build, mine)
