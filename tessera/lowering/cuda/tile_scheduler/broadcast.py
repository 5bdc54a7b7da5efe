"""The copying warp tells the team which group comes next, where it takes much to work that out.

Lanes that hold the sums of products have no registers to spare: the order of uneven groups, worked out by each of them,
spills 250 to 500 bytes in the gradients of causal attention.
"""

from typing import Any

from tessera.lowering.cuda.base.gpu_function import GpuFunction
from tessera.lowering.cuda.isa import sm90
from tessera.lowering.cuda.pipeline.mbarrier_pipeline import Pipeline, PipelineState
from tessera.lowering.cuda.pipeline.shared_plan import BARRIER_BYTES, DEALT_BYTES, DEALT_STAGES
from tessera.lowering.cuda.storage.shared_scratch import SharedScratch
from tessera.lowering.cuda.storage.warps import WARP, WarpSet


class WorkTileBroadcast:
    """A ring of group numbers in shared memory, i32: ring `number` of the kernel's."""

    def __init__(self, frame: GpuFunction, room: SharedScratch, team: WarpSet, number: int) -> None:
        self.number = number
        self._build = frame.build
        numbers = room.take(DEALT_STAGES * DEALT_BYTES, BARRIER_BYTES)
        barriers = room.take(2 * DEALT_STAGES * BARRIER_BYTES, BARRIER_BYTES)
        self._pointer = frame.build.offset(frame.shared_base, numbers.start, "i8")
        self.ring = Pipeline(
            frame.build, room.address(numbers), room.address(barriers), DEALT_STAGES, DEALT_BYTES, copied_bytes=0,
            arrivals=team.warps,
        )  # fmt: skip

    def publish(self, now: PipelineState, group: Any) -> None:
        """The copying warp, one lane: the round's group is number `group`, an index."""
        self.ring.producer_acquire(now)
        self._build.store(self._build.to_word(group), self._place(now), "i32")
        sm90.barrier_arrive(self._build, self.ring.full(now))

    def fetch(self, now: PipelineState, team: WarpSet) -> Any:
        """The team: the round's group, an index."""
        build = self._build
        self.ring.consumer_wait(now)
        group = build.to_index(build.load(self._place(now), "i32"))
        build.create("nvvm.bar.warp.sync", [build.word(-1)])  # one lane frees the place for all of its warp
        with build.when(build.compare("eq", build.bits(team.thread, WARP - 1), 0)):
            self.ring.release(now)
        return group

    def _place(self, now: PipelineState) -> Any:
        return self._build.offset(self._pointer, self._build.to_index(now.stage), "i32")
