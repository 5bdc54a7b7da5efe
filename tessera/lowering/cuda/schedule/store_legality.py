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
from tessera.lowering.cuda.storage.shared_tile import SwizzledPanels, row_blocks

_LINE: Final = 128
_GROUP_BITS: Final = 2
_ROWS: Final = 8
"""Rows of an accumulator that a warp holds in one register pair of each lane."""
_MOST_ROWS: Final = 128


def copied_panels(op: AnyOp, layout: Layout, array: Array) -> SwizzledPanels | None:
    """Return the swizzled panels that stage one column block of a tile for a TMA store; None where TMA cannot.

    TMA stores tiles of at most 128 rows, and boxes of several axes 128 rows at a time, whose lanes hold parts of every
    column block: accumulators.  It would store the padding of a tile too.
    """
    stored = op.operands[1]
    if len(layout.shape) < 2 or tuple(shape_of(stored)) != layout.shape:
        return None
    blocks, outer_extent = row_blocks(layout.shape), layout.shape[0]
    rows, columns = (layout := of_matrix(layout)).shape
    if rows > _MOST_ROWS * blocks or outer_extent % blocks or not may_copy(op, array):
        return None
    size = width(element_of(stored)) // 8
    panels = SwizzledPanels(rows // blocks, min(columns, _LINE // size), size)
    outer = [bit for bit in axis_bits(layout.shape, 1) if bit >= panels.columns]
    # Each lane stores its part of every block: lanes and warps of other layouts hold whole blocks of rows.
    outer += [bit for bit in axis_bits(layout.shape, 0) if bit >= panels.rows * columns]
    return panels if panels.swizzle == _LINE and all(bit in layout.registers for bit in outer) else None


def of_matrix(layout: Layout) -> Layout:
    """Return the layout of a box of several axes as that of a matrix: its last axis are columns, the others rows."""
    *outer, columns = layout.shape
    return layout.reshaped((math.prod(outer), columns)) if len(outer) > 1 else layout


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
    """Return whether each warp group holds rows of its own: the first part of them, the second, and so on.

    Of a box of several axes these are parts of each block of 128 rows, which all have the same registers.
    """
    groups = warps >> _GROUP_BITS
    if groups < 2 or len(layout.shape) < 2:
        return False
    blocks = row_blocks(layout.shape)
    if blocks > 1 and layout.shape[0] % (blocks * groups):
        return False
    block = math.prod(layout.shape) // blocks
    part = block // groups
    inner, outer = layout.warps[:_GROUP_BITS], layout.warps[_GROUP_BITS:]
    return (
        outer == tuple(part << bit for bit in range(len(outer)))
        and all(basis < part for basis in (*layout.lanes, *inner))
        and all(basis < part or basis >= block for basis in layout.registers)
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
