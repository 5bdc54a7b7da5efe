"""Cut one dimension over mesh axes: block, cyclic and block-cyclic distributions, by one formula.

Indices lie in blocks, and the blocks go around the pieces: index i belongs to piece (i // block) % pieces.  With blocks
of one element that is a cyclic distribution, with one block a piece the block distribution, the default.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Split:
    """How a dimension is cut.

    axes: the mesh axes, the slowest first; () leaves the dimension whole on every device
    block: elements that stay together; 0: an even share, one block a piece
    """

    axes: tuple[str, ...] = ()
    block: int = 0


def even_share(extent: int, pieces: int) -> int:
    """Return the elements of one piece where one block a piece is as even as whole elements allow; at least 1."""
    return max(1, -(-extent // pieces))


@dataclass(frozen=True, slots=True)
class Pieces:
    """A dimension of `extent` elements in `pieces` pieces, in blocks of `block`."""

    extent: int
    pieces: int
    block: int

    @classmethod
    def of(cls, extent: int, pieces: int, block: int = 0) -> "Pieces":
        """Return the pieces of a split; block 0: an even share."""
        return cls(extent, pieces, block or even_share(extent, pieces))

    @property
    def even(self) -> bool:
        """True where all pieces have the same number of elements, whole blocks of them."""
        return self.extent % (self.block * self.pieces) == 0

    @property
    def contiguous(self) -> bool:
        """True where each piece is one range of indices."""
        return self.block * self.pieces >= self.extent

    @property
    def padded(self) -> int:
        """The elements that each piece has room for: those of the largest."""
        return self.count(0)

    def owner(self, index: int) -> int:
        """Return the piece that an index belongs to."""
        return index // self.block % self.pieces

    def local(self, index: int) -> int:
        """Return the place of an index in its piece."""
        return index // (self.block * self.pieces) * self.block + index % self.block

    def index(self, piece: int, local: int) -> int:
        """Return the index at a place of a piece."""
        return (local // self.block * self.pieces + piece) * self.block + local % self.block

    def count(self, piece: int) -> int:
        """Return the number of elements of a piece."""
        rounds, rest = divmod(self.extent, self.block * self.pieces)
        return rounds * self.block + min(max(rest - piece * self.block, 0), self.block)

    def indices(self, piece: int) -> slice | NDArray[np.int64]:
        """Return the indices of a piece, rising: a slice where there is a step between them, else an array."""
        if self.contiguous:
            return slice(min(piece * self.block, self.extent), min((piece + 1) * self.block, self.extent))
        if self.block == 1:
            return slice(piece, self.extent, self.pieces)
        local = np.arange(self.count(piece), dtype=np.int64)
        return (local // self.block * self.pieces + piece) * self.block + local % self.block
