"""Describe tiles in shared memory, in the swizzled layouts that TMA writes and tensor cores read."""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from tessera.core.mlir import AnyOp, ir
from tessera.lowering.cuda.base.index_builder import width

_LINE: Final = 128
BLOCK_ROWS: Final = 128
"""Rows of a tile that are stored at a time."""


@dataclass(frozen=True, slots=True)
class SwizzledPanels:
    """The layout of a tile in shared memory: panels of at most 128 bytes of each row, one after the other.

    rows: of a panel; swizzle: bytes of a row in it, within which the hardware permutes units of 16; size: of an element
    """

    rows: int
    columns: int
    size: int

    @property
    def swizzle(self) -> int:
        """Return the bytes of a row of a panel."""
        return min(_LINE, self.columns * self.size)

    @property
    def width(self) -> int:
        """Return the elements of a row of a panel."""
        return self.swizzle // self.size

    @property
    def count(self) -> int:
        """Return the number of panels."""
        return self.columns // self.width

    @property
    def panel_bytes(self) -> int:
        """Return the bytes of a panel."""
        return self.rows * self.swizzle

    @property
    def bytes(self) -> int:
        """Return the bytes of all panels."""
        return self.rows * self.columns * self.size


@dataclass(frozen=True, slots=True)
class SharedTile:
    """A tile in shared memory: `address` (i32) of its panels; `transposed`: it stands for the transpose of them."""

    address: ir.Value
    panels: SwizzledPanels
    element: str
    transposed: bool = False


def panels_of(load: AnyOp) -> SwizzledPanels:
    """Return the layout in shared memory of the tile that a load reads; a vector is one row, a box one a pixel."""
    kind = ir.ShapedType(load.results[0].type)
    *outer, columns = kind.shape
    return SwizzledPanels(math.prod(outer), columns, width(str(kind.element_type)) // 8)


def box_of(extents: Sequence[int], dropped: Collection[int], rank: int) -> tuple[int, ...]:
    """Return the TMA box for an array of `rank` axes: `extents`, and 1 along the axes dropped."""
    left = iter(extents)
    return tuple(1 if axis in dropped else next(left) for axis in range(rank))


def row_blocks(shape: Sequence[int]) -> int:
    """Return how many blocks of 128 rows a stored box of several axes has, one after the other; a matrix is one."""
    *outer, _ = shape
    return max(1, math.prod(outer) // BLOCK_ROWS) if len(outer) > 1 else 1
