"""What is decided about a tile kernel before any code: who computes, where tiles lie, which loads are copied ahead."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tessera.core.layouts import Layout
from tessera.lowering.target.cuda.tiles.memory_order import MemoryOrder
from tessera.lowering.target.cuda.tiles.overlap_plan import OverlapPlan
from tessera.lowering.target.cuda.tiles.pipeline import LaterPlan, RingPlan, RunningPlan
from tessera.lowering.target.cuda.tiles.staging import CopyPlan
from tessera.lowering.target.cuda.tiles.streams import Stream


@dataclass
class Plan:
    """The decisions.

    bits: of the team's warp numbers
    layouts: of every tile that has one of its own; extents are padded to powers of two
    rings: of buffers that a warp of its own fills, by load
    copies: of buffers that the team fills itself
    rounded: loads that the copy engine rounds to tf32
    realigned: loads that read a copy of their array whose rows are aligned, which the launcher makes
    anywhere: loads and stores that lanes do, as they may begin at no multiple of 16 bytes
    products: how each product is computed
    overlaps: loops with a product that runs beside the next round's first one, by loop
    running: loops with several products that run until their sums are needed, by loop
    gathered: column blocks of 128 bytes of each matrix that is stored; stored: of the widest one (4 at most)
    rescalings: multiplications that are left out where the factors are one
    turns: whether the two warp groups of an overlapped loop take turns at issuing products
    uneven: whether the work of a group grows (1) or shrinks (-1) along the last range, or neither (0)
    cluster: blocks that share loads; shared: the loads they share
    band: rows of groups that are done column after column
    apart: whether each warp group stores rows of its own
    later: the store that is made in the next group
    written, loaded: parameters (numbers) that the kernel writes, and those that it reads
    order: the accesses to arrays in front of which the team waits
    streams: reductions whose tile is added while it is read, by operation
    resident: blocks that a multiprocessor should hold at least, which limits registers; 0: as it comes
    promote: of a product of floats of 8 bits, the elements of K whose sums the tensor cores form, before they are added
             in f32 to the others; 0: they form them all
    """

    bits: int = 0
    products: Mapping[Any, str] = field(default_factory=dict[Any, str])
    layouts: dict[Any, Layout] = field(default_factory=dict[Any, Layout])
    rings: list[RingPlan] = field(default_factory=list[RingPlan])
    copies: list[CopyPlan] = field(default_factory=list[CopyPlan])
    rounded: set[Any] = field(default_factory=set[Any])
    realigned: set[Any] = field(default_factory=set[Any])
    anywhere: set[Any] = field(default_factory=set[Any])
    written: set[int] = field(default_factory=set[int])
    loaded: set[int] = field(default_factory=set[int])
    order: MemoryOrder = field(default_factory=MemoryOrder)
    overlaps: dict[Any, OverlapPlan] = field(default_factory=dict[Any, OverlapPlan])
    running: dict[Any, RunningPlan] = field(default_factory=dict[Any, RunningPlan])
    rescalings: set[Any] = field(default_factory=set[Any])
    gathered: tuple[int, ...] = ()
    stored: int = 1
    turns: bool = True
    uneven: int = 0
    promote: int = 0
    cluster: int = 1
    shared: set[Any] = field(default_factory=set[Any])
    band: int = 1
    apart: bool = False
    later: LaterPlan | None = None
    resident: int = 0
    streams: dict[Any, Stream] = field(default_factory=dict[Any, Stream])

    @property
    def specialised(self) -> bool:
        """Whether a warp of its own does the loading."""
        return bool(self.rings)

    @property
    def pipelined(self) -> bool:
        """Whether loads run ahead of what reads them."""
        return self.specialised or any(copy.loop is not None for copy in self.copies)

    def ring_of(self, op: Any) -> RingPlan | None:
        """The ring that load `op` goes through."""
        return next((ring for ring in self.rings if op in ring.loads), None)

    def is_staged(self, op: Any) -> bool:
        """Whether the bytes of load `op` go to shared memory as they lie in the array."""
        return self.ring_of(op) is not None or any(op in copy.loads for copy in self.copies)

    @property
    def streamed(self) -> set[Any]:
        """Operations whose tiles are never in registers as a whole."""
        return {op for stream in self.streams.values() for op in (stream.load, *stream.casts)}

    @property
    def parts(self) -> dict[Any, tuple[int, ...]]:
        """Extents of what streams have in registers at a time, by reduction."""
        return {op: stream.shape() for op, stream in self.streams.items()}


def padded(shape: Any) -> tuple[int, ...]:
    """The extents rounded up to powers of two."""
    return tuple(1 << (extent - 1).bit_length() for extent in shape)
