"""Choose how a tile may be stored: by the copy engine, by each warp group alone, or row by row."""

import math
from typing import Any, Final

from tessera.core.layouts import Layout, axis_bits
from tessera.core.program.types import Array
from tessera.lowering.base.attributes import dropped_axes
from tessera.lowering.cuda.base.index_builder import width
from tessera.lowering.cuda.storage.global_access import before_array, begins_aligned
from tessera.lowering.cuda.storage.shared_tile import SwizzledPanels

_LINE: Final = 128
_GROUP_BITS: Final = 2
_ROWS: Final = 8
"""Rows of a product's sums that a warp holds in one register pair of each lane."""
_MOST_ROWS: Final = 128


def copied_panels(op: Any, layout: Layout, array: Array) -> SwizzledPanels | None:
    """How one column block of a stored tile is gathered for the copy engine; None where that may not store it.

    It takes tiles of at most 128 rows whose lanes hold parts of every column block: the results of products.  It would
    store the padding of a tile too.
    """
    kind = op.operands[1].type
    if len(layout.shape) != 2 or layout.shape[0] > _MOST_ROWS or tuple(kind.shape) != layout.shape:
        return None
    if not may_copy(op, array):
        return None
    size = width(str(kind.element_type)) // 8
    panels = SwizzledPanels(layout.shape[0], min(layout.shape[1], _LINE // size), size)
    outer = [bit for bit in axis_bits(layout.shape, 1) if bit >= panels.columns]
    return panels if panels.swizzle == _LINE and all(bit in layout.registers for bit in outer) else None


def may_copy(op: Any, array: Array) -> bool:
    """Whether the copy engine may store a tile, as far as the place goes: it faults elsewhere.

    It takes aligned places in aligned arrays that certainly begin inside.  Along axes that the tile lacks nothing has
    to be known: a lane looks whether `is_there`.
    """
    dropped = dropped_axes(op)
    if not array.aligned or len(array.shape) - 1 in dropped or not begins_aligned(array, list(op.operands)[-1]):
        return False
    return before_array(op) <= dropped


def own_rows(layout: Layout, warps: int) -> bool:
    """Whether each warp group holds rows of its own: the first part of them, the second, and so on."""
    groups = warps >> _GROUP_BITS
    if groups < 2 or len(layout.shape) != 2:
        return False
    part = math.prod(layout.shape) // groups
    inner, outer = layout.warps[:_GROUP_BITS], layout.warps[_GROUP_BITS:]
    return outer == tuple(part << bit for bit in range(len(outer))) and all(
        basis < part for basis in (*layout.registers, *layout.lanes, *inner)
    )


def fits_rows(layout: Layout, element: str) -> bool:
    """Whether a warp holds whole rows, eight at a time, of which each lane has pairs of neighbours."""
    if len(layout.shape) != 2 or width(element) != 16:
        return False
    columns = layout.shape[1]
    pairs = columns >= _ROWS and layout.registers[:1] == (1,)
    return (
        pairs
        and tuple(layout.lanes) == (2, 4, columns, 2 * columns, 4 * columns)
        and all(basis % columns == 0 for basis in layout.warps)
    )
