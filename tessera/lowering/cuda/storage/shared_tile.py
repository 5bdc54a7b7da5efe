"""How a tile lies in shared memory: as the copy engine and the tensor cores want it there."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tessera.lowering.cuda.base.index_builder import width

_LINE: Final = 128


@dataclass(frozen=True, slots=True)
class SwizzledPanels:
    """How a tile of rows lies in shared memory: cut into panels of at most 128 bytes of each row, one after the other.

    rows: of a panel; swizzle: bytes of a row in it, within which the hardware permutes units of 16; size: of an element
    """

    rows: int
    columns: int
    size: int

    @property
    def swizzle(self) -> int:
        """Bytes of a row of a panel."""
        return min(_LINE, self.columns * self.size)

    @property
    def width(self) -> int:
        """Elements of a row of a panel."""
        return self.swizzle // self.size

    @property
    def count(self) -> int:
        """Number of panels."""
        return self.columns // self.width

    @property
    def panel_bytes(self) -> int:
        """Bytes of a panel."""
        return self.rows * self.swizzle

    @property
    def bytes(self) -> int:
        """Bytes of all panels."""
        return self.rows * self.columns * self.size


@dataclass(frozen=True, slots=True)
class SharedTile:
    """A tile in shared memory: `address` (i32) of its panels; `transposed`: it stands for the transpose of them."""

    address: Any
    panels: SwizzledPanels
    element: str
    transposed: bool = False


def panels_of(load: Any) -> SwizzledPanels:
    """How what a load reads lies in shared memory: a vector as one row."""
    kind = load.results[0].type
    rows, columns = (1, *kind.shape)[-2:]
    return SwizzledPanels(rows, columns, width(str(kind.element_type)) // 8)


def box_of(extents: Sequence[int], dropped: Collection[int], rank: int) -> tuple[int, ...]:
    """The window of an array of `rank` axes that the copy engine moves: `extents`, and 1 along the axes dropped."""
    left = iter(extents)
    return tuple(1 if axis in dropped else next(left) for axis in range(rank))
