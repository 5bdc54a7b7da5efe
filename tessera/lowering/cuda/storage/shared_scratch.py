"""Lend shared memory for a short time: for layout conversions, and for gathering what is stored."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from tessera.core.mlir import ir
from tessera.lowering.cuda.base.buffer_allocation import Allocation
from tessera.lowering.cuda.base.gpu_function import GpuFunction
from tessera.lowering.cuda.storage.warps import WarpSet

_ALIGNMENT: Final = 1024


class SharedScratch:
    """The part of a block's shared memory that pipelines leave.

    Memory that lanes may still be reading stays reserved until the consumers have waited again, so one barrier an
    exchange is enough: the next one gets other memory.
    """

    def __init__(self, frame: GpuFunction) -> None:
        self._frame = frame
        self._read: list[Allocation] = []
        self._warp_set: WarpSet | None = None

    @contextmanager
    def exchange(self, warp_set: WarpSet, size: int) -> Generator[ir.Value]:
        """Lend `size` bytes that no lane still reads; the code inside the `with` waits and calls `waited`."""
        self._warp_set = warp_set
        piece = self.take(size)
        yield self._frame.build.offset(self._frame.shared_base, piece.start, "i8")
        self._read.append(piece)

    def waited(self) -> None:
        """Free what was exchanged before: the consumers have waited since it was read."""
        for piece in self._read:
            self.give_back(piece)
        self._read.clear()

    def settle(self) -> None:
        """Wait where lanes may still be reading: at the borders of loops and branches, past which nothing is known."""
        if self._read and self._warp_set is not None:
            self._warp_set.wait()
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

    def address(self, piece: Allocation) -> ir.Value:
        """Return the address of an allocation, an i32."""
        build = self._frame.build
        pointer = build.offset(self._frame.shared_base, piece.start, "i8")
        return build.value("llvm.ptrtoint", [pointer], "i32")
