"""Select the MMA instruction of each product, the number of warps, and the layout of its accumulator.

wgmma: by warp groups, on the tensor cores of sm_90a; mma: by single warps, on those of every GPU from sm_80 on
fma: exactly, by fused multiply-adds of single lanes
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from tessera.core.base.source import NOWHERE
from tessera.core.errors.catalog import BadKernelOption
from tessera.core.layouts import Change, Layout, accumulator, axis_bits, bits_of, register_blocks
from tessera.core.mlir import AnyOp, ir
from tessera.core.targets import Architecture
from tessera.core.tile.dialect import COMPUTE
from tessera.core.tile.location import spans
from tessera.core.tile.schedule_attributes import FMA, MMA, WGMMA
from tessera.lowering.base.ir_walk import element_of, shape_of
from tessera.lowering.cuda.base.index_builder import width
from tessera.lowering.cuda.schedule.multibuffer import is_transposed, readers, source_load
from tessera.lowering.tile.pack_floats import OPERAND_FORMAT

_WARP: Final = 32
_GROUP_ROWS: Final = 64
_GROUP_WARPS: Final = 4
_MOST_GROUPS: Final = 4
"""Warp groups that leave lanes of a block for the producer warp."""
_WGMMA_LEAST: Final = 16
_MMA_ROWS, _MMA_COLUMNS = 16, 8
STEP_BYTES: Final = 32
"""Of K, that one instruction of the tensor cores multiplies, whatever the elements are."""
_ROW_16_BIT: Final = 4
"""The bit of a row's number that says which 16 rows it is in."""
_FMA_LEAST: Final = 8
MOST_WARP_BITS: Final = 3
# 32-bit accumulators per lane: as many as leave registers for the operands.
_MMA_ACCUMULATORS: Final = 128
_FMA_ACCUMULATORS: Final = 64
_MMA_WARP_BITS: Final = 2
"""Fewer than four warps leave some of a multiprocessor's four schedulers without work."""


def product_kind(op: AnyOp, chip: Architecture, copied: Callable[[AnyOp], bool], warps: int = 0) -> str | None:
    """Return the kind of instruction that computes `op`; None where none fits.

    copied: whether TMA can copy what a load reads
    warps: the number that the user asks for, or 0
    """
    a, b = list(op.operands)[:2]
    (m, k), n = shape_of(a), shape_of(b)[1]
    if OPERAND_FORMAT in op.attributes:
        return byte_kind(op, chip, warps)
    element, exact = element_of(a), is_exact(op)
    if element_of(b) != element or element_of(op.results[0]) != "f32":
        return None
    if is_padded(op) or element not in ("f32", "f16", "bf16"):
        return None
    if COMPUTE in op.attributes or (element != "f32" and not exact):
        if _suits_groups(op, chip, warps) and (COMPUTE not in op.attributes or _rounded_on_the_way(op, copied)):
            return WGMMA
        if fills_instruction(op):
            return MMA
    return FMA if min(m, n, k) >= _FMA_LEAST else None


def is_exact(op: AnyOp) -> bool:
    """Return whether a product adds in f32 as the kernel says, without rounding its operands."""
    return bool(ir.BoolAttr(op.attributes["exact"]).value)


def multiplies_tf32(op: AnyOp) -> bool:
    """Return whether tensor cores compute a product in tf32: on every chip, if its tiles fill an instruction."""
    return not is_padded(op) and fills_instruction(op)


def is_padded(op: AnyOp) -> bool:
    """Return whether an extent of a product is not a power of two."""
    return any(extent & (extent - 1) for v in list(op.operands)[:2] for extent in shape_of(v))


def _suits_groups(op: AnyOp, chip: Architecture, warps: int) -> bool:
    """Return whether wgmma can compute a product, with rows and columns enough for the warps that are asked for."""
    (m, k), n = shape_of(op.operands[0]), shape_of(op.operands[1])[1]
    rows, columns = (n, m) if is_swapped(op) else (m, n)
    size = width(element_of(op.operands[0])) // 8
    groups, rest = divmod(warps or _GROUP_WARPS, _GROUP_WARPS)
    if rest or groups > _MOST_GROUPS or rows % (_GROUP_ROWS * groups):
        return False
    return chip.wgmma and columns >= _WGMMA_LEAST and k * size >= STEP_BYTES


def _rounded_on_the_way(op: AnyOp, copied: Callable[[AnyOp], bool]) -> bool:
    """Return whether TMA can round both operands to tf32 for wgmma, which would truncate them.

    It does so for every reader, which must round them too.  One operand has to lie along K; the other may come from
    registers.
    """
    loads = [source_load(operand) for operand in list(op.operands)[:2]]
    return any(lies_along_k(op)) and all(
        load is not None and copied(load) and _rounded_alike(readers(load.results[0]), op) for load in loads
    )


def _rounded_alike(found: list[AnyOp], op: AnyOp) -> bool:
    """Return whether all readers of a tile are products that round it as `op` does, which reads it once."""
    alike = all(COMPUTE in each.attributes and each.attributes[COMPUTE] == op.attributes[COMPUTE] for each in found)
    return alike and found.count(op) == 1


def lies_along_k(op: AnyOp) -> tuple[bool, bool]:
    """Return for each operand whether it is loaded with K contiguous: A as it is, B as its transpose."""
    a, b = list(op.operands)[:2]
    return source_load(a) is not None and not is_transposed(a), source_load(b) is not None and is_transposed(b)


def is_swapped(op: AnyOp) -> bool:
    """Return whether wgmma computes the transpose of a product: only its A operand may lie across K.

    It reads 32-bit elements from shared memory along K, and A from registers too.
    """
    return COMPUTE in op.attributes and lies_along_k(op) == (True, False)


def lies_across_k(op: AnyOp) -> bool:
    """Return whether wgmma takes a loaded operand from registers, because K is not contiguous in it."""
    return COMPUTE in op.attributes and not all(lies_along_k(op))


def may_run_on(products: Mapping[AnyOp, str], dot: AnyOp) -> bool:
    """Return whether a product may run asynchronously: it is wgmma, and no register that it reads is written."""
    return products[dot] == WGMMA and not lies_across_k(dot)


def operand_type(op: AnyOp) -> str:
    """Return the operand type of an MMA as PTX names it: "bf16", "tf32", "e4m3"."""
    for name in (OPERAND_FORMAT, COMPUTE):
        if name in op.attributes:
            return str(ir.StringAttr(op.attributes[name]).value)
    return element_of(op.operands[0])


def byte_kind(op: AnyOp, chip: Architecture, warps: int = 0) -> str | None:
    """Return the kind of MMA that multiplies the 8-bit floats that `op` has as operands; None where there is none.

    Tensor cores read bytes from shared memory alone, K contiguous in both operands.
    """
    if is_exact(op) or is_padded(op) or not all(lies_along_k(op)):
        return None
    if _suits_groups(op, chip, warps):
        return WGMMA
    return MMA if chip.fp8_mma and fills_instruction(op) else None


def fills_instruction(op: AnyOp) -> bool:
    """Return whether a product fills an instruction of the tensor cores of a single warp."""
    (m, k), n = shape_of(op.operands[0]), shape_of(op.operands[1])[1]
    return all(extent >= least for extent, least in zip((m, n, k), least_extents(op), strict=True))


def least_extents(op: AnyOp) -> tuple[int, int, int]:
    """Return M, N and K of the smallest product that fills an instruction of a single warp."""
    return _MMA_ROWS, _MMA_COLUMNS, STEP_BYTES * 8 // width(element_of(op.operands[0]))


def product_bits(products: Mapping[AnyOp, str], operations: Iterable[AnyOp]) -> int:
    """Return the log2 of the number of warps: two warp groups where the rows suffice, or what the accumulators fill."""
    groups = [op for op, kind in products.items() if kind == WGMMA]
    if groups:
        rows = [shape_of(op.results[0])[1 if is_swapped(op) else 0] for op in groups]
        return 2 if min(rows) == _GROUP_ROWS else MOST_WARP_BITS
    stacked = _stacked(products, operations)
    # Together the accumulators of FMA should fit a lane's registers.
    chained = sum(math.prod(shape_of(op.results[0])) for op, kind in products.items() if kind == FMA)
    wanted = [max(0, -(-chained // (_WARP * _FMA_ACCUMULATORS)) - 1).bit_length()]
    for op, kind in products.items():
        m, n = shape_of(op.results[0])
        if kind == MMA and stacked:
            wanted.append((m // _MMA_ROWS).bit_length() - 1)
        elif kind == MMA:
            # With bytes, an instruction has accumulators of its own beside those they are promoted to.
            accumulators = _MMA_ACCUMULATORS // 2 if OPERAND_FORMAT in op.attributes else _MMA_ACCUMULATORS
            filled = (m * n // (_WARP * accumulators)).bit_length() - 1
            possible = (m * n // (_MMA_ROWS * _MMA_COLUMNS)).bit_length() - 1
            wanted.append(max(filled, min(_MMA_WARP_BITS, possible)))
    return min(MOST_WARP_BITS, max(wanted))


def accumulator_layouts(
    products: Mapping[AnyOp, str],
    operations: Iterable[AnyOp],
    bits: int,
    staged: Callable[[AnyOp], bool],
    beside: int = 0,
) -> dict[AnyOp, Layout]:
    """Return the layout of each product's accumulator; `staged`: whether a load is copied to shared memory unchanged.

    beside: the number of warps along the columns, a power of two; 0: the one with which warps read least

    Raises:
        BadKernelOption: a product cannot be divided in that way.
    """
    stacked = _stacked(products, operations)
    layouts: dict[AnyOp, Layout] = {}
    for op, kind in products.items():
        m, n = shape_of(op.results[0])
        if kind == FMA:
            a, b = list(op.operands)[:2]
            rows, columns = _turned(a, staged), not _turned(b, staged)
            sideways = _columns(op, _ways(m, n, bits, (16 if rows else 4, 32 if columns else 8)), bits, beside)
            layouts[op] = register_blocks((m, n), bits, sideways, (rows, columns))
        else:
            whole = kind == WGMMA or stacked
            ways = [0] if whole else _ways(m, n, bits, (_MMA_ROWS, 2 * _MMA_COLUMNS))
            sideways = _columns(op, ways, bits, beside)
            swapped = kind == WGMMA and is_swapped(op)
            plain = accumulator((n, m), bits).transposed((1, 0)) if swapped else accumulator((m, n), bits, sideways)
            layouts[op] = _without_bank_conflicts(plain, op, staged) if COMPUTE in op.attributes else plain
    return layouts


def _without_bank_conflicts(layout: Layout, op: AnyOp, staged: Callable[[AnyOp], bool]) -> Layout:
    """Avoid bank conflicts where f32 lie across K: blocks of 8 rows (or columns) become two times 4, 16 apart.

    Lanes read such operands word by word, 4 along K at a time, whose lines are swizzled into 4 neighbouring units of
    16 bytes: 4 rows and the next 4 would share them.
    """
    a, b = list(op.operands)[:2]
    for axis, across in enumerate((_turned(a, staged), not _turned(b, staged))):
        bits = axis_bits(layout.shape, axis)
        if across and len(bits) > _ROW_16_BIT:
            total = sum(map(bits_of, layout.shape))
            layout = layout.map(Change.exchange(total, bits[2], bits[_ROW_16_BIT]), layout.shape)
    return layout


def _turned(operand: ir.Value, staged: Callable[[AnyOp], bool]) -> bool:
    """Return whether an operand lies in shared memory as its transpose."""
    load = source_load(operand)
    return load is not None and staged(load) and is_transposed(operand)


def _ways(rows: int, columns: int, bits: int, least: tuple[int, int]) -> list[int]:
    """Return how many bits of warp numbers may go along the columns; `least`: rows and columns of a warp's part."""
    ways = [
        count
        for count in range(bits + 1)
        if rows >> (bits - count) >= least[0] and (count == 0 or columns >> count >= least[1])
    ]
    return ways or [0]


def _columns(op: AnyOp, ways: Sequence[int], bits: int, beside: int) -> int:
    """Return how many bits go along the columns: as `beside` asks, or so that warps read as little as possible.

    A warp with r rows and c columns of the accumulator reads r + c lines of the operands.
    """
    rows, columns = shape_of(op.results[0])
    if not beside:
        return min(ways, key=lambda count: (rows >> (bits - count)) + (columns >> count))
    if beside.bit_length() - 1 not in ways:
        legal = " or ".join(str(1 << count) for count in ways)
        raise BadKernelOption(
            f"{1 << bits} warps that share this product of {rows} x {columns} have warp_columns={legal}, not {beside}",
            next(iter(spans(op.location)), NOWHERE), "warp groups, and warps that reduce rows, have whole rows: 1",
        )  # fmt: skip
    return beside.bit_length() - 1


def _stacked(products: Mapping[AnyOp, str], operations: Iterable[AnyOp]) -> bool:
    """Return whether a warp should have whole rows: they are reduced, or are operands of the next product."""
    computed = any(source_load(op.operands[0]) is None for op in products)
    return computed or any(op.name == "tessera.reduce" for op in operations)
