"""Check how a tile may be stored: by TMA, by each warp group alone, or row by row."""

import math
from typing import Final

from tessera.core.layouts import Layout, axis_bits
from tessera.core.mlir import AnyOp
from tessera.core.program.types import Array
from tessera.lowering.base.attributes import dropped_axes
from tessera.lowering.base.ir_walk import element_of, shape_of
from tessera.lowering.cuda.base.index_builder import width
from tessera.lowering.cuda.storage.global_access import before_array, begins_aligned
from tessera.lowering.cuda.storage.shared_tile import SwizzledPanels

_LINE: Final = 128
_GROUP_BITS: Final = 2
_ROWS: Final = 8
"""Rows of an accumulator that a warp holds in one register pair of each lane."""
_MOST_ROWS: Final = 128


def copied_panels(op: AnyOp, layout: Layout, array: Array) -> SwizzledPanels | None:
    """Return the swizzled panels that stage one column block of a tile for a TMA store; None where TMA cannot.

    TMA stores tiles of at most 128 rows whose lanes hold parts of every column block: accumulators.  It would store
    the padding of a tile too.
    """
    stored = op.operands[1]
    if len(layout.shape) != 2 or layout.shape[0] > _MOST_ROWS or tuple(shape_of(stored)) != layout.shape:
        return None
    if not may_copy(op, array):
        return None
    size = width(element_of(stored)) // 8
    panels = SwizzledPanels(layout.shape[0], min(layout.shape[1], _LINE // size), size)
    outer = [bit for bit in axis_bits(layout.shape, 1) if bit >= panels.columns]
    return panels if panels.swizzle == _LINE and all(bit in layout.registers for bit in outer) else None


def may_copy(op: AnyOp, array: Array) -> bool:
    """Return whether TMA may store a tile at this address; it faults elsewhere.

    It takes aligned addresses in aligned arrays that certainly begin inside.  Along axes that the tile lacks nothing
    has to be proven: a lane checks `is_there`.
    """
    dropped = dropped_axes(op)
    if not array.aligned or len(array.shape) - 1 in dropped or not begins_aligned(array, list(op.operands)[-1]):
        return False
    return before_array(op) <= dropped


def own_rows(layout: Layout, warps: int) -> bool:
    """Return whether each warp group holds rows of its own: the first part of them, the second, and so on."""
    groups = warps >> _GROUP_BITS
    if groups < 2 or len(layout.shape) != 2:
        return False
    part = math.prod(layout.shape) // groups
    inner, outer = layout.warps[:_GROUP_BITS], layout.warps[_GROUP_BITS:]
    return outer == tuple(part << bit for bit in range(len(outer))) and all(
        basis < part for basis in (*layout.registers, *layout.lanes, *inner)
    )


def fits_rows(layout: Layout, element: str) -> bool:
    """Return whether a warp holds whole rows, eight at a time, in which each lane has pairs of adjacent elements."""
    if len(layout.shape) != 2 or width(element) != 16:
        return False
    columns = layout.shape[1]
    pairs = columns >= _ROWS and layout.registers[:1] == (1,)
    return (
        pairs
        and tuple(layout.lanes) == (2, 4, columns, 2 * columns, 4 * columns)
        and all(basis % columns == 0 for basis in layout.warps)
    )
