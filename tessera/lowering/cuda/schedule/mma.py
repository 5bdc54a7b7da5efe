"""Schedule matrix products: select the MMA instruction, and overlap products with what runs beside them."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from tessera.core.mlir import AnyOp
from tessera.core.tile.dialect import COMPUTE
from tessera.core.tile.schedule_attributes import (
    IN_FLIGHT,
    INSTRUCTION,
    ISSUED,
    OVERLAPS,
    PIPELINE,
    PIPELINED,
    ROUNDED,
    SKIPPED,
    mark,
    mark_only,
    unmark,
)
from tessera.lowering.base.ir_walk import element_of, shape_of, walk
from tessera.lowering.cuda.base.index_builder import width
from tessera.lowering.cuda.schedule.context import ScheduleContext, SchedulePass
from tessera.lowering.cuda.schedule.fp8_mma import promotion
from tessera.lowering.cuda.schedule.lazy_rescale import find_rescalings
from tessera.lowering.cuda.schedule.load_legality import is_tma_load, is_tma_vector_load
from tessera.lowering.cuda.schedule.mma_overlap import OverlapPlan, find_overlaps
from tessera.lowering.cuda.schedule.mma_selection import WGMMA, may_run_on, product_kind
from tessera.lowering.cuda.schedule.multibuffer import find_running, in_a_ring, is_vector, source_load, vector_ring
from tessera.lowering.cuda.schedule.rasterization import load_imbalance
from tessera.lowering.cuda.schedule.view import ScheduleView
from tessera.lowering.cuda.storage.warps import WARP

_MOST_RUNNING: Final = 200
"""Values of an overlapped loop, of 232 registers of a lane or more; the rest is for what is computed on the way."""

_IN_MEMORY: Final = "another product of the kernel keeps all tiles in memory"


@dataclass(frozen=True, slots=True)
class SelectMma(SchedulePass):
    """Select the instruction of each product: wgmma, mma.sync or fused multiply-adds (option `num_warps`).

    before: `%s = tessera.dot %a, %b`
    after:  `%s = tessera.dot %a, %b instruction wgmma`; with tf32 operands, their loads are `rounded to tf32`
    """

    name: ClassVar[str] = "cuda-select-mma"

    def decide(self, kernel: ScheduleContext) -> None:
        """Select by element types, extents and chip, with as many warps as the option asks for."""
        warps = kernel.option("num_warps", 0)
        found = {op: product_kind(op, kernel.chip, lambda load: is_tma_load(kernel, load), warps) for op in kernel.dots}
        for op, kind in found.items():
            if kind is not None:
                mark(op, INSTRUCTION, kind)
        groups = [op for op, kind in found.items() if kind == WGMMA and COMPUTE in op.attributes]
        for load in {source_load(operand) for op in groups for operand in list(op.operands)[:2]}:
            if load is not None:
                mark_only(load, ROUNDED)
        kernel.set(promotion_interval=promotion(kernel.dots, kernel.program))
        unfit = next((op for op, kind in found.items() if kind is None), None)
        if unfit is not None:
            kernel.refuse(_IN_MEMORY, "blocks of powers of two there, or a kernel for each", unfit)


@dataclass(frozen=True, slots=True)
class OverlapMma(SchedulePass):
    """Overlap a loop's second product with the next iteration's arithmetic (options `overlap`, `pingpong`).

    before: `for i: %s = dot(q, k[i]); %p = f(%s); %acc = dot(%p, v[i], %acc_1)`
    after:  the second product `overlaps the next iteration's first MMA`, see `overlapped_mma`; where registers hold the
            scores of two iterations, the first is `pipelined an iteration ahead` (option
            `pipeline_first_mma`), see `prefetch_scores`; rescalings by factors that are mostly one are `skipped where
            they are one`, see `lazy_rescale`
    """

    name: ClassVar[str] = "cuda-overlap-mma"

    def decide(self, kernel: ScheduleContext) -> None:
        """Overlap the products of loops whose iterations allow it."""
        plan = kernel.plan
        if kernel.option("overlap", 1):
            found = find_overlaps([op for op in kernel.dots if may_run_on(plan.products, op)], plan.rings)
            copying = {copy.loop for copy in plan.copies}
            issued = [_issued(kernel, one) for one in found if one.loop not in copying]
            overlaps = [one for one in issued if one is not None]
            for overlap in overlaps:
                mark_only(overlap.second, OVERLAPS)
                if overlap.prefetched:
                    mark_only(overlap.first, PIPELINED)
            # Groups that differ in length fall out of step by themselves: there the barriers cost more than they gain.
            pingpong = not load_imbalance(plan.rings) or any(one.prefetched for one in overlaps)
            kernel.set(pingpong=bool(overlaps) and bool(kernel.option("pingpong", pingpong)))
        if WGMMA in plan.products.values():
            for op in find_rescalings(kernel.operations):
                mark_only(op, SKIPPED)


@dataclass(frozen=True, slots=True)
class AsyncMma(SchedulePass):
    """Let the products of a loop with four or more run until their results are needed (option `overlap`).

    before: `for i: %s = dot(k, q[i]); %dp = dot(v, do[i]); %base = load %B[i]; ...; %dk = dot(%ds, q[i], %dk_1)`
    after:  the first product is marked `issued an iteration early`, and the vectors that the loop reads share a
            pipeline's buffers: `%base = tessera.load %B[...] pipeline 1`; see `async_accumulate`
    """

    name: ClassVar[str] = "cuda-async-mma"

    def decide(self, kernel: ScheduleContext) -> None:
        """Run products asynchronously where a pipeline holds all that they read of shared memory."""
        plan, schedule = kernel.plan, kernel.plan.schedule
        if not kernel.option("overlap", 1) or schedule.promotion_interval:
            return
        if not all(may_run_on(plan.products, op) for op in kernel.dots):
            return
        found = find_running(kernel.dots, plan.rings, WARP * schedule.num_warps)
        for running in found.values():
            mark_only(running.first, ISSUED)
        loops = {running.first.operation.block for running in found.values()}
        for ring in plan.rings:
            if ring.block in loops and ring.running is not None:
                unmark(ring.running, IN_FLIGHT)
        vectors = [op for op in kernel.operations if op.name == "tessera.load" and op.operation.block in loops]
        for load in vectors:
            number = vector_ring(plan.rings, load) if is_tma_vector_load(kernel, load) else None
            if number is not None:
                mark(load, PIPELINE, number)


def _issued(kernel: ScheduleContext, overlap: OverlapPlan) -> OverlapPlan | None:
    """Return when a loop's products are issued, by the registers available; None where none suffice to overlap."""
    plan = kernel.plan
    scores, accumulators = (math.prod(shape_of(op.results[0])) for op in (overlap.first, overlap.second))
    operand = scores * width(element_of(overlap.second.operands[0])) // 32
    most = _MOST_RUNNING << (plan.bits + 5)
    # What else an iteration reads, such as a bias of the scores, is live together with the next iteration's.
    read = sum(math.prod(shape_of(op.results[0])) for op in _read_by_lanes(plan, overlap.loop))
    if (
        kernel.option("pipeline_first_mma", 1)
        and not plan.schedule.promotion_interval
        and 2 * scores + operand + accumulators + read <= most
    ):
        return overlap
    return replace(overlap, prefetched=()) if scores + operand + accumulators <= most else None


def _read_by_lanes(plan: ScheduleView, loop: AnyOp) -> Iterator[AnyOp]:
    """Yield the loads of a loop that bring a tile of two axes into registers."""
    for op in walk(loop.regions[0].blocks[0]):
        if op.name == "tessera.load" and not in_a_ring(op, plan.rings) and not is_vector(op):
            yield op
