"""Plan the shared memory that a tile kernel holds for all of its run, before any code is emitted."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tessera.core.mlir import AnyOp
from tessera.core.schedule.tile_schedule import TileSchedule
from tessera.lowering.cuda.base.buffer_allocation import BufferAllocator
from tessera.lowering.cuda.schedule.cp_async_loads import CopyPlan
from tessera.lowering.cuda.schedule.multibuffer import PipelinePlan
from tessera.lowering.cuda.schedule.view import ScheduleView
from tessera.lowering.cuda.storage.shared_tile import panels_of

ALIGNMENT: Final = 1024
"""Every load begins at a multiple of what the swizzle repeats after."""
BARRIER_BYTES: Final = 8
BLOCK_BYTES: Final = 16 * 1024
"""Shared memory for gathering one column block that is stored: 128 rows of 128 bytes."""
BROADCAST_STAGES: Final = 2
"""Numbers of groups that the producer warp may publish ahead."""
BROADCAST_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class StageLayout:
    """The layout of one stage of a pipeline: the offset of each load, and the stage's size."""

    offsets: dict[AnyOp, int]
    size: int


def stage_layout(plan: PipelinePlan | CopyPlan) -> StageLayout:
    """Lay out the loads of a pipeline one after the other."""
    offsets: dict[AnyOp, int] = {}
    size = 0
    for load in plan.loads:
        offsets[load] = size
        size += -(-panels_of(load).bytes // ALIGNMENT) * ALIGNMENT
    return StageLayout(offsets, size)


def stage_counts(plan: ScheduleView, schedule: TileSchedule) -> list[int]:
    """Return how many stages the pipelines of the producer warp have, by their numbers."""
    return [schedule.stages if ring.in_loop else schedule.group_stages for ring in plan.rings]


def planned_bytes(plan: ScheduleView, schedule: TileSchedule, shared_bytes: int) -> int:
    """Return the bytes that pipelines, their barriers, and buffers for what is stored take together."""
    arena = BufferAllocator()
    for size, alignment in _reservations(plan, schedule, shared_bytes):
        arena.take(size, alignment)
    return arena.peak


def _reservations(plan: ScheduleView, schedule: TileSchedule, shared_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield size and alignment of each piece, in the order in which code is emitted that takes it."""
    if plan.rings:
        counts = stage_counts(plan, schedule)
        yield schedule.epilogue_stages * BLOCK_BYTES, ALIGNMENT
        for ring, count in zip(plan.rings, counts, strict=True):
            yield stage_layout(ring).size * count, ALIGNMENT
        yield 2 * BARRIER_BYTES * sum(counts), ALIGNMENT
        if schedule.load_balance:
            yield BROADCAST_STAGES * BROADCAST_BYTES, BARRIER_BYTES
            yield 2 * BROADCAST_STAGES * BARRIER_BYTES, BARRIER_BYTES
    for copy in plan.copies:
        size = stage_layout(copy).size
        yield size * copy.stages(size, schedule.stages, shared_bytes), ALIGNMENT
