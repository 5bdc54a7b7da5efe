"""Broadcast the next work tile from the producer warp to the consumer warps, where computing it takes many registers.

Lanes that hold accumulators have no registers to spare: the load-balanced order, computed by each of them, spills 250
to 500 bytes in the gradients of causal attention.
"""

from tessera.core.mlir import Index, ir
from tessera.lowering.cuda.base.gpu_function import GpuFunction
from tessera.lowering.cuda.isa import sm90
from tessera.lowering.cuda.pipeline.mbarrier_pipeline import Pipeline, PipelineState
from tessera.lowering.cuda.pipeline.shared_plan import BARRIER_BYTES, BROADCAST_BYTES, BROADCAST_STAGES
from tessera.lowering.cuda.storage.shared_scratch import SharedScratch
from tessera.lowering.cuda.storage.warps import WARP, WarpSet


class WorkTileBroadcast:
    """Keep a pipeline of group numbers (i32) in shared memory; it is pipeline `number` of the kernel."""

    def __init__(self, frame: GpuFunction, scratch: SharedScratch, warp_set: WarpSet, number: int) -> None:
        self.number = number
        self._build = frame.build
        numbers = scratch.take(BROADCAST_STAGES * BROADCAST_BYTES, BARRIER_BYTES)
        barriers = scratch.take(2 * BROADCAST_STAGES * BARRIER_BYTES, BARRIER_BYTES)
        self._pointer = frame.build.offset(frame.shared_base, numbers.start, "i8")
        self.ring = Pipeline(
            frame.build, scratch.address(numbers), scratch.address(barriers), BROADCAST_STAGES, BROADCAST_BYTES,
            copied_bytes=0, arrivals=warp_set.warps,
        )  # fmt: skip

    def publish(self, now: PipelineState, group: Index) -> None:
        """Publish the iteration's group, an index; run by one lane of the producer warp."""
        self.ring.producer_acquire(now)
        self._build.store(self._build.to_word(group), self._place(now), "i32")
        sm90.barrier_arrive(self._build, self.ring.full(now))

    def fetch(self, now: PipelineState, warp_set: WarpSet) -> ir.Value:
        """Fetch the iteration's group, an index; run by all consumer warps."""
        build = self._build
        self.ring.consumer_wait(now)
        group = build.to_index(build.load(self._place(now), "i32"))
        build.create("nvvm.bar.warp.sync", [build.word(-1)])  # one lane frees the place for all of its warp
        with build.when(build.compare("eq", build.bits(warp_set.thread, WARP - 1), 0)):
            self.ring.release(now)
        return group

    def _place(self, now: PipelineState) -> ir.Value:
        return self._build.offset(self._pointer, self._build.to_index(now.stage), "i32")
