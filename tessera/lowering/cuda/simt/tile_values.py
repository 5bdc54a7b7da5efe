"""Represent tiles as a rule that computes any element, or as a buffer that holds them all.

The lanes of a group share a tile's elements cyclically: lane l computes elements l, l + lanes, l + 2 * lanes, ...  A
`TileValue` is computed where it is used, element by element; a `Buffer` is kept in shared memory, or in global memory
if shared memory is full.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from tessera.core.mlir import Index, ir
from tessera.lowering.cuda.base.buffer_allocation import Allocation, BufferAllocator
from tessera.lowering.cuda.base.gpu_function import GpuFunction
from tessera.lowering.cuda.base.index_builder import LOCAL, IndexBuilder
from tessera.lowering.cuda.base.memory import GlobalMemory, bytes_of, read, row_major, split, write
from tessera.lowering.cuda.simt.barrier_insertion import GROUP, BarrierInsertion

NOTHING: Final[frozenset[int]] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class TileValue:
    """Represent a tile by a rule: `at(indices)` emits code for one element, of type `element` (its text).

    reads: memory classes that it reads at other places than the element's own
    own: memory classes that it reads only at the element's own (row-major) place
    cost: roughly how many instructions an element takes; `is_buffer`: it only reads a buffer
    """

    shape: tuple[int, ...]
    element: str
    at: Callable[[Sequence[Index]], ir.Value]
    reads: frozenset[int] = NOTHING
    own: frozenset[int] = NOTHING
    cost: int = 1
    is_buffer: bool = False

    @property
    def classes(self) -> frozenset[int]:
        """Return every memory class that it reads."""
        return self.reads | self.own


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """Hold memory for a tile: `number` is its memory class; `arena` and `piece` tell where it lies (None: local)."""

    shape: tuple[int, ...]
    element: str
    memory: GlobalMemory
    number: int
    arena: BufferAllocator | None = None
    piece: Allocation | None = None


Meaning: TypeAlias = Index | GlobalMemory | TileValue
"""What a value of Tile IR has become: a scalar, an array or buffer, or a tile."""


@dataclass(frozen=True, slots=True)
class ComputingLanes:
    """Select the lanes that compute a tile: those of the group together, or (`serial`) each lane for itself."""

    lane: Index
    lanes: int
    serial: bool = False


@dataclass
class TileBuffers:
    """Allocate, fill and free the buffers of one kernel."""

    frame: GpuFunction
    build: IndexBuilder
    hazards: BarrierInsertion
    computing_lanes: ComputingLanes
    next_class: int
    _history: list[tuple[BufferAllocator, Allocation, int]] = field(
        default_factory=list[tuple[BufferAllocator, Allocation, int]]
    )

    # -- sharing the work --------------------------------------------------------------------------------------

    def each(self, count: int, body: Callable[[Index], None]) -> None:
        """Emit `body(number)` for every number below `count`, distributed over the computing lanes."""
        build, computing_lanes = self.build, self.computing_lanes

        def step(index: Index, _: list[ir.Value]) -> list[ir.Value]:
            body(index)
            return []

        if computing_lanes.serial:
            build.loop(0, count, 1, [], step)
        elif count == computing_lanes.lanes:
            body(computing_lanes.lane)
        elif count < computing_lanes.lanes:
            with build.when(build.inside(computing_lanes.lane, count)):
                body(computing_lanes.lane)
        else:
            build.loop(computing_lanes.lane, count, computing_lanes.lanes, [], step)

    def access(self, reads: frozenset[int] = NOTHING, writes: frozenset[int] = NOTHING) -> None:
        """Record what the computing lanes read and write next."""
        if not self.computing_lanes.serial:
            self.hazards.access(GROUP, reads, writes)

    # -- buffers -----------------------------------------------------------------------------------------------

    def buffer(self, shape: Sequence[int], element: str, *, optional: bool = False) -> Buffer | None:
        """Allocate memory for a tile; None if `optional` and only global memory is left.

        If shared memory is full and there is no global memory, it lies beyond the end of shared memory.
        """
        shape = tuple(shape)
        stored = "i8" if element == "i1" else element
        size = bytes_of(stored, shape)
        number, self.next_class = self.next_class, self.next_class + 1
        if self.computing_lanes.serial:
            return self._at(shape, element, self._local(size), number)
        arena, piece = self.frame.shared, self.frame.shared.take(size)
        base = self.frame.shared_base
        if piece is None:
            if optional:
                return None
            if self.frame.spill:
                arena, base = self.frame.scratch, self.frame.scratch_base
            piece = arena.take(size) or arena.take_beyond(size)
        before = [c for a, p, c in self._history if a is arena and arena.overlaps(p, piece)]
        self.hazards.recycle(before)
        self._history.append((arena, piece, number))
        return self._at(shape, element, self.build.offset(base, piece.start, "i8"), number, arena, piece)

    def required(self, shape: Sequence[int], element: str) -> Buffer:
        """Allocate memory for a tile, wherever there is some."""
        buffer = self.buffer(shape, element)
        if buffer is None:
            message = "only an optional buffer may be missing"
            raise AssertionError(message)
        return buffer

    def free(self, buffer: Buffer) -> None:
        """Free a buffer that is not used any more."""
        if buffer.arena is not None and buffer.piece is not None:
            buffer.arena.give_back(buffer.piece)

    def _at(
        self, shape: tuple[int, ...], element: str, pointer: ir.Value, number: int,
        arena: BufferAllocator | None = None, piece: Allocation | None = None,
    ) -> Buffer:  # fmt: skip
        stored = "i8" if element == "i1" else element
        memory = GlobalMemory(pointer, stored, shape, row_major(self.build, shape))
        return Buffer(shape, element, memory, number, arena, piece)

    def _local(self, size: int) -> ir.Value:
        """Allocate local memory of one lane at the entry of the function."""
        build = self.build
        with build.at_start(self.frame.entry):
            count = build.index(size)
            return build.value("llvm.alloca", [count], LOCAL, {"elem_type": "i8", "alignment": "16 : i64"})

    # -- contents ----------------------------------------------------------------------------------------------

    def value(self, buffer: Buffer) -> TileValue:
        """Return the tile that a buffer holds."""
        own = NOTHING if buffer.arena is None else frozenset((buffer.number,))
        proven = [True] * len(buffer.shape)

        def at(indices: Sequence[Index]) -> ir.Value:
            return read(self.build, buffer.memory, indices, buffer.element, proven)

        return TileValue(buffer.shape, buffer.element, at, own=own, cost=2, is_buffer=True)

    def fill(self, buffer: Buffer, tile: TileValue) -> None:
        """Compute every element of `tile` into the buffer."""
        writes = NOTHING if buffer.arena is None else frozenset((buffer.number,))
        self.access(tile.classes, writes)
        proven = [True] * len(buffer.shape)

        def put(number: Index) -> None:
            indices = split(self.build, number, buffer.shape)
            write(self.build, buffer.memory, tile.at(indices), indices, proven)

        self.each(math.prod(buffer.shape), put)
