"""How each product of a kernel is computed, by how many warps, and which warp has which of its sums.

wgmma: by warp groups, on the tensor cores of sm_90a; mma: by single warps, on those of every GPU from sm_80 on
fma: exactly, by fused multiply-adds of single lanes
"""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from tessera.core.layouts import Layout, accumulator, register_blocks
from tessera.lowering.target.cuda.architectures import Architecture
from tessera.lowering.target.cuda.tiles.pipeline import is_transposed, source_load
from tessera.lowering.tile.pack_floats import FACTORS

WGMMA, MMA, FMA = "wgmma", "mma", "fma"

_WARP: Final = 32
_GROUP_ROWS: Final = 64
_WGMMA_LEAST: Final = 16
_BYTES_LEAST: Final = 32
_MMA_ROWS, _MMA_COLUMNS, _MMA_DEPTH = 16, 8, 16
_FMA_LEAST: Final = 8
_MOST_WARP_BITS: Final = 3
# 32-bit sums a lane should have: as many as leave room for the factors.
_MMA_SUMS: Final = 128
_FMA_SUMS: Final = 64
_MMA_WARP_BITS: Final = 2
"""Fewer than four warps leave some of a multiprocessor's four schedulers without work."""


def product_kind(op: Any, chip: Architecture) -> str | None:
    """How `op` is computed; None where none of the ways fits."""
    a, b = op.operands[0].type, op.operands[1].type
    (m, k), n = a.shape, b.shape[1]
    element = str(a.element_type)
    if FACTORS in op.attributes:
        return WGMMA if bytes_fit(op, chip) else None
    if str(b.element_type) != element or str(op.results[0].type.element_type) != "f32":
        return None
    if any(extent & (extent - 1) for extent in (m, n, k)) or element not in ("f32", "f16", "bf16"):
        return None
    if element != "f32" and not op.attributes["exact"].value:
        if chip.name == "sm_90a" and m % _GROUP_ROWS == 0 and min(n, k) >= _WGMMA_LEAST:
            return WGMMA
        if m >= _MMA_ROWS and n >= _MMA_COLUMNS and k >= _MMA_DEPTH:
            return MMA
    return FMA if min(m, n, k) >= _FMA_LEAST else None


def bytes_fit(op: Any, chip: Architecture) -> bool:
    """Whether the tensor cores can multiply the floats of 8 bits that `op` has as factors.

    Only those of sm_90a do so here, and they read bytes from shared memory alone, K contiguous in both factors: rows
    of the left one as they are loaded, and the right one loaded as its transpose.
    """
    a, b = list(op.operands)[:2]
    (m, k), n = a.type.shape, b.type.shape[1]
    if chip.name != "sm_90a" or op.attributes["exact"].value or any(extent & (extent - 1) for extent in (m, n, k)):
        return False
    if m % _GROUP_ROWS or n < _WGMMA_LEAST or k < _BYTES_LEAST or source_load(a) is None or source_load(b) is None:
        return False
    return not is_transposed(a) and is_transposed(b)


def product_bits(products: Mapping[Any, str], operations: Iterable[Any]) -> int:
    """The bits of the team's warp numbers: two warp groups where there are rows for them, or what the sums fill."""
    groups = [op for op, kind in products.items() if kind == WGMMA]
    if groups:
        return 2 if min(op.operands[0].type.shape[0] for op in groups) == _GROUP_ROWS else _MOST_WARP_BITS
    stacked = _stacked(products, operations)
    # Together the chains' sums should fit a lane's registers.
    chained = sum(math.prod(op.results[0].type.shape) for op, kind in products.items() if kind == FMA)
    wanted = [max(0, -(-chained // (_WARP * _FMA_SUMS)) - 1).bit_length()]
    for op, kind in products.items():
        m, n = op.results[0].type.shape
        if kind == MMA and stacked:
            wanted.append((m // _MMA_ROWS).bit_length() - 1)
        elif kind == MMA:
            filled = (m * n // (_WARP * _MMA_SUMS)).bit_length() - 1
            possible = (m * n // (_MMA_ROWS * _MMA_COLUMNS)).bit_length() - 1
            wanted.append(max(filled, min(_MMA_WARP_BITS, possible)))
    return min(_MOST_WARP_BITS, max(wanted))


def sum_layouts(
    products: Mapping[Any, str], operations: Iterable[Any], bits: int, staged: Callable[[Any], bool]
) -> dict[Any, Layout]:
    """The layout of each product's sums; `staged`: whether a load's bytes go to shared memory as they are."""
    stacked = _stacked(products, operations)
    layouts: dict[Any, Layout] = {}
    for op, kind in products.items():
        m, n = op.results[0].type.shape
        if kind == FMA:
            a, b = list(op.operands)[:2]
            rows, columns = _turned(a, staged), not _turned(b, staged)
            sideways = _columns(m, n, bits, (16 if rows else 4, 32 if columns else 8))
            layouts[op] = register_blocks((m, n), bits, sideways, (rows, columns))
        else:
            sideways = 0 if kind == WGMMA or stacked else _columns(m, n, bits, (_MMA_ROWS, 2 * _MMA_COLUMNS))
            layouts[op] = accumulator((m, n), bits, sideways)
    return layouts


def _turned(factor: Any, staged: Callable[[Any], bool]) -> bool:
    """Whether a factor lies in shared memory as the transpose of what it is."""
    load = source_load(factor)
    return load is not None and staged(load) and is_transposed(factor)


def _columns(rows: int, columns: int, bits: int, least: tuple[int, int]) -> int:
    """How many bits of the warps' numbers go along the columns: so that warps read as little as possible.

    A warp with r rows and c columns of the sums reads r + c lines of the factors; least: of r and of c
    """
    choices = [
        count
        for count in range(bits + 1)
        if rows >> (bits - count) >= least[0] and (count == 0 or columns >> count >= least[1])
    ]
    return min(choices, key=lambda count: (rows >> (bits - count)) + (columns >> count), default=0)


def _stacked(products: Mapping[Any, str], operations: Iterable[Any]) -> bool:
    """Whether a warp should have whole rows: where rows are reduced, or sums are factors of the next product."""
    computed = any(source_load(op.operands[0]) is None for op in products)
    return computed or any(op.name == "tessera.reduce" for op in operations)
