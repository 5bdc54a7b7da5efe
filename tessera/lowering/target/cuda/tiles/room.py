"""Shared memory that code borrows for a moment: to move tiles between layouts, and to gather what is stored."""

import math
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

from tessera.lowering.target.cuda.arena import Piece
from tessera.lowering.target.cuda.build import width
from tessera.lowering.target.cuda.frame import Frame
from tessera.lowering.target.cuda.tiles.values import RegisterTile

_ALIGNMENT = 1024


class NeedsRoomError(Exception):
    """Shared memory is full: the kernel has to be generated again with fewer stages."""


class Room:
    """The part of a block's shared memory that rings leave."""

    def __init__(self, frame: Frame) -> None:
        self._frame = frame

    @contextmanager
    def scratch(self, tile: RegisterTile) -> Generator[Any]:
        """A pointer to memory for a whole tile, inside the `with`."""
        piece = self.take(math.prod(tile.shape) * max(8, width(tile.element)) // 8)
        try:
            yield self._frame.build.offset(self._frame.shared_base, piece.start, "i8")
        finally:
            self.give_back(piece)

    def take(self, size: int) -> Piece:
        """Reserve `size` bytes.

        Raises:
            NeedsRoomError: there are not so many.
        """
        piece = self._frame.shared.take(size, _ALIGNMENT)
        if piece is None:
            raise NeedsRoomError
        return piece

    def give_back(self, piece: Piece) -> None:
        """Allow these bytes to be reserved again."""
        self._frame.shared.give_back(piece)

    def address(self, piece: Piece) -> Any:
        """An i32: the address of a piece."""
        build = self._frame.build
        pointer = build.offset(self._frame.shared_base, piece.start, "i8")
        return build.value("llvm.ptrtoint", [pointer], "i32")
