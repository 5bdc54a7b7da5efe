"""How each product of a kernel is computed, by how many warps, and which warp has which of its sums.

wgmma: by warp groups, on the tensor cores of sm_90a; mma: by single warps, on those of every GPU from sm_80 on
fma: exactly, by fused multiply-adds of single lanes
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from tessera.core.base.source import NOWHERE
from tessera.core.errors.catalog import BadKernelOption
from tessera.core.layouts import Change, Layout, accumulator, axis_bits, bits_of, register_blocks
from tessera.core.mlir import ir
from tessera.core.targets import Architecture
from tessera.core.tile.dialect import COMPUTE
from tessera.core.tile.location import spans
from tessera.core.tile.schedule_attributes import FMA, MMA, WGMMA
from tessera.lowering.cuda.base.index_builder import width
from tessera.lowering.cuda.schedule.multibuffer import is_transposed, readers, source_load
from tessera.lowering.tile.pack_floats import FACTORS

_WARP: Final = 32
_GROUP_ROWS: Final = 64
_GROUP_WARPS: Final = 4
_MOST_GROUPS: Final = 4
"""Warp groups that leave lanes of a block for the one that copies."""
_WGMMA_LEAST: Final = 16
_MMA_ROWS, _MMA_COLUMNS = 16, 8
STEP_BYTES: Final = 32
"""Of K, that one instruction of the tensor cores multiplies, whatever the elements are."""
_APART: Final = 4
"""The bit of a row's number that says which 16 rows it is in."""
_FMA_LEAST: Final = 8
MOST_WARP_BITS: Final = 3
# 32-bit sums a lane should have: as many as leave room for the factors.
_MMA_SUMS: Final = 128
_FMA_SUMS: Final = 64
_MMA_WARP_BITS: Final = 2
"""Fewer than four warps leave some of a multiprocessor's four schedulers without work."""


def product_kind(op: Any, chip: Architecture, copied: Callable[[Any], bool], warps: int = 0) -> str | None:
    """How `op` is computed; None where none of the ways fits.

    copied: whether the copy engine can bring what a load reads
    warps: how many the user asks for, or 0
    """
    a, b = op.operands[0].type, op.operands[1].type
    (m, k), n = a.shape, b.shape[1]
    if FACTORS in op.attributes:
        return byte_kind(op, chip, warps)
    element, exact = str(a.element_type), op.attributes["exact"].value
    if str(b.element_type) != element or str(op.results[0].type.element_type) != "f32":
        return None
    if is_padded(op) or element not in ("f32", "f16", "bf16"):
        return None
    if COMPUTE in op.attributes or (element != "f32" and not exact):
        if _suits_groups(op, chip, warps) and (COMPUTE not in op.attributes or _rounded_on_the_way(op, copied)):
            return WGMMA
        if fills_instruction(op):
            return MMA
    return FMA if min(m, n, k) >= _FMA_LEAST else None


def multiplies_tf32(op: Any) -> bool:
    """Whether tensor cores round the factors of a product on tf32: every chip's do, of tiles that fill them."""
    return not is_padded(op) and fills_instruction(op)


def is_padded(op: Any) -> bool:
    """Whether an extent of a product is no power of two."""
    return any(extent & (extent - 1) for v in list(op.operands)[:2] for extent in v.type.shape)


def _suits_groups(op: Any, chip: Architecture, warps: int) -> bool:
    """Whether there are warp groups that multiply, and enough rows and columns for as many as somebody asks for."""
    (m, k), n = op.operands[0].type.shape, op.operands[1].type.shape[1]
    rows, columns = (n, m) if is_swapped(op) else (m, n)
    size = width(str(op.operands[0].type.element_type)) // 8
    groups, rest = divmod(warps or _GROUP_WARPS, _GROUP_WARPS)
    if rest or groups > _MOST_GROUPS or rows % (_GROUP_ROWS * groups):
        return False
    return chip.wgmma and columns >= _WGMMA_LEAST and k * size >= STEP_BYTES


def _rounded_on_the_way(op: Any, copied: Callable[[Any], bool]) -> bool:
    """Whether the copy engine can round both factors for warp groups, which would cut off what is too long.

    It does so for all who read them.  One factor has to lie along K; the other one may come from registers.
    """
    loads = [source_load(factor) for factor in list(op.operands)[:2]]
    return any(lies_along_k(op)) and all(
        load is not None and copied(load) and readers(load.results[0]) == [op] for load in loads
    )


def lies_along_k(op: Any) -> tuple[bool, bool]:
    """Whether each factor is loaded with K contiguous: rows of the left one, and the right one as its transpose."""
    a, b = list(op.operands)[:2]
    return source_load(a) is not None and not is_transposed(a), source_load(b) is not None and is_transposed(b)


def is_swapped(op: Any) -> bool:
    """Whether warp groups compute the transpose of a product: only their left factor may lie across K.

    They read 32-bit elements from shared memory along K, and a left factor from registers too.
    """
    return COMPUTE in op.attributes and lies_along_k(op) == (True, False)


def lies_across_k(op: Any) -> bool:
    """Whether warp groups read one of a product's loaded factors into registers, as K is not contiguous there."""
    return COMPUTE in op.attributes and not all(lies_along_k(op))


def may_run_on(products: Mapping[Any, str], dot: Any) -> bool:
    """Whether a product may go on beside others: warp groups do it, and nobody writes registers it still reads."""
    return products[dot] == WGMMA and not lies_across_k(dot)


def factor_type(op: Any) -> str:
    """What a product's factors are to the tensor cores, as PTX names it: "bf16", "tf32", "e4m3"."""
    for name in (FACTORS, COMPUTE):
        if name in op.attributes:
            return str(ir.StringAttr(op.attributes[name]).value)
    return str(op.operands[0].type.element_type)


def byte_kind(op: Any, chip: Architecture, warps: int = 0) -> str | None:
    """How the tensor cores can multiply the floats of 8 bits that `op` has as factors; None where they cannot.

    They read bytes from shared memory alone, K contiguous in both factors.
    """
    if op.attributes["exact"].value or is_padded(op) or not all(lies_along_k(op)):
        return None
    if _suits_groups(op, chip, warps):
        return WGMMA
    return MMA if chip.fp8_mma and fills_instruction(op) else None


def fills_instruction(op: Any) -> bool:
    """Whether a product fills an instruction of the tensor cores of a single warp."""
    (m, k), n = op.operands[0].type.shape, op.operands[1].type.shape[1]
    return all(extent >= least for extent, least in zip((m, n, k), least_extents(op), strict=True))


def least_extents(op: Any) -> tuple[int, int, int]:
    """Rows, columns and steps of K of the smallest product that fills an instruction of a single warp."""
    return _MMA_ROWS, _MMA_COLUMNS, STEP_BYTES * 8 // width(str(op.operands[0].type.element_type))


def product_bits(products: Mapping[Any, str], operations: Iterable[Any]) -> int:
    """The bits of the team's warp numbers: two warp groups where there are rows for them, or what the sums fill."""
    groups = [op for op, kind in products.items() if kind == WGMMA]
    if groups:
        rows = [op.results[0].type.shape[1 if is_swapped(op) else 0] for op in groups]
        return 2 if min(rows) == _GROUP_ROWS else MOST_WARP_BITS
    stacked = _stacked(products, operations)
    # Together the chains' sums should fit a lane's registers.
    chained = sum(math.prod(op.results[0].type.shape) for op, kind in products.items() if kind == FMA)
    wanted = [max(0, -(-chained // (_WARP * _FMA_SUMS)) - 1).bit_length()]
    for op, kind in products.items():
        m, n = op.results[0].type.shape
        if kind == MMA and stacked:
            wanted.append((m // _MMA_ROWS).bit_length() - 1)
        elif kind == MMA:
            # Of bytes, an instruction's own sums are there beside those they are added to.
            sums = _MMA_SUMS // 2 if FACTORS in op.attributes else _MMA_SUMS
            filled = (m * n // (_WARP * sums)).bit_length() - 1
            possible = (m * n // (_MMA_ROWS * _MMA_COLUMNS)).bit_length() - 1
            wanted.append(max(filled, min(_MMA_WARP_BITS, possible)))
    return min(MOST_WARP_BITS, max(wanted))


def sum_layouts(
    products: Mapping[Any, str], operations: Iterable[Any], bits: int, staged: Callable[[Any], bool], beside: int = 0
) -> dict[Any, Layout]:
    """The layout of each product's sums; `staged`: whether a load's bytes go to shared memory as they are.

    beside: how many warps somebody wants side by side along the columns, a power of two; 0: so that they read least
    Raises BadKernelOption where a product cannot be shared out in that way.
    """
    stacked = _stacked(products, operations)
    layouts: dict[Any, Layout] = {}
    for op, kind in products.items():
        m, n = op.results[0].type.shape
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
            layouts[op] = _apart(plain, op, staged) if COMPUTE in op.attributes else plain
    return layouts


def _apart(layout: Layout, op: Any, staged: Callable[[Any], bool]) -> Layout:
    """Give blocks of 8 rows (or columns) two times 4 neighbours, 16 apart, where f32 lie across K.

    Lanes read such factors word by word, 4 of K at a time, whose lines are swizzled into 4 neighbouring units of 16
    bytes: 4 rows and the next 4 would be in the same ones.
    """
    a, b = list(op.operands)[:2]
    for axis, across in enumerate((_turned(a, staged), not _turned(b, staged))):
        bits = axis_bits(layout.shape, axis)
        if across and len(bits) > _APART:
            total = sum(map(bits_of, layout.shape))
            layout = layout.map(Change.exchange(total, bits[2], bits[_APART]), layout.shape)
    return layout


def _turned(factor: Any, staged: Callable[[Any], bool]) -> bool:
    """Whether a factor lies in shared memory as the transpose of what it is."""
    load = source_load(factor)
    return load is not None and staged(load) and is_transposed(factor)


def _ways(rows: int, columns: int, bits: int, least: tuple[int, int]) -> list[int]:
    """How many bits of the warps' numbers may go along the columns; `least`: rows and columns of a warp's part."""
    ways = [
        count
        for count in range(bits + 1)
        if rows >> (bits - count) >= least[0] and (count == 0 or columns >> count >= least[1])
    ]
    return ways or [0]


def _columns(op: Any, ways: Sequence[int], bits: int, beside: int) -> int:
    """How many bits go along the columns: as somebody wants it, else so that warps read as little as possible.

    A warp with r rows and c columns of the sums reads r + c lines of the factors.
    """
    rows, columns = op.results[0].type.shape
    if not beside:
        return min(ways, key=lambda count: (rows >> (bits - count)) + (columns >> count))
    if beside.bit_length() - 1 not in ways:
        legal = " or ".join(str(1 << count) for count in ways)
        raise BadKernelOption(
            f"{1 << bits} warps that share this product of {rows} x {columns} have warp_columns={legal}, not {beside}",
            next(iter(spans(op.location)), NOWHERE), "warp groups, and warps that reduce rows, have whole rows: 1",
        )  # fmt: skip
    return beside.bit_length() - 1


def _stacked(products: Mapping[Any, str], operations: Iterable[Any]) -> bool:
    """Whether a warp should have whole rows: where rows are reduced, or sums are factors of the next product."""
    computed = any(source_load(op.operands[0]) is None for op in products)
    return computed or any(op.name == "tessera.reduce" for op in operations)
