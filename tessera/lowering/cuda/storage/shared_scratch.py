"""Shared memory that code borrows for a moment: to move tiles between layouts, and to gather what is stored."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any, Final

from tessera.lowering.cuda.base.buffer_allocation import Allocation
from tessera.lowering.cuda.base.gpu_function import GpuFunction
from tessera.lowering.cuda.storage.warps import WarpSet

_ALIGNMENT: Final = 1024


class SharedScratch:
    """The part of a block's shared memory that rings leave.

    What lanes may still be reading stays reserved until the team has waited again, so that one wait an exchange is
    enough: the next one is given other memory.
    """

    def __init__(self, frame: GpuFunction) -> None:
        self._frame = frame
        self._read: list[Allocation] = []
        self._team: WarpSet | None = None

    @contextmanager
    def exchange(self, team: WarpSet, size: int) -> Generator[Any]:
        """A pointer to `size` bytes that no lane still reads; the code inside the `with` waits and calls `waited`."""
        self._team = team
        piece = self.take(size)
        yield self._frame.build.offset(self._frame.shared_base, piece.start, "i8")
        self._read.append(piece)

    def waited(self) -> None:
        """The team has waited since everything that was exchanged before was read."""
        for piece in self._read:
            self.give_back(piece)
        self._read.clear()

    def settle(self) -> None:
        """Wait where lanes may still be reading: at the borders of loops and branches, past which nothing is known."""
        if self._read and self._team is not None:
            self._team.wait()
            self.waited()

    def take(self, size: int, alignment: int = _ALIGNMENT) -> Allocation:
        """Reserve `size` bytes at a multiple of `alignment`: beyond the end of shared memory where it is full."""
        piece = self._frame.shared.take(size, alignment)
        if piece is None and self._read:
            self.settle()
            piece = self._frame.shared.take(size, alignment)
        return piece if piece is not None else self._frame.shared.take_beyond(size, alignment)

    def give_back(self, piece: Allocation) -> None:
        """Allow these bytes to be reserved again."""
        self._frame.shared.give_back(piece)

    def address(self, piece: Allocation) -> Any:
        """An i32: the address of a piece."""
        build = self._frame.build
        pointer = build.offset(self._frame.shared_base, piece.start, "i8")
        return build.value("llvm.ptrtoint", [pointer], "i32")
