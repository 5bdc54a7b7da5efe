"""The decisions about products: what computes them, and what runs beside them."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final

from tessera.core.tile.dialect import COMPUTE
from tessera.core.tile.schedule_attributes import (
    AHEAD,
    BESIDE,
    ISSUED,
    PRODUCT,
    RING,
    ROUNDED,
    RUNS_ON,
    SKIPPED,
    mark,
    mark_only,
    unmark,
)
from tessera.lowering.analysis.uniformity import walk
from tessera.lowering.cuda.base.index_builder import width
from tessera.lowering.cuda.schedule.context import ScheduleContext, SchedulePass
from tessera.lowering.cuda.schedule.fp8_mma import promotion
from tessera.lowering.cuda.schedule.lazy_rescale import find_rescalings
from tessera.lowering.cuda.schedule.load_legality import copied_ahead, vector_copied_ahead
from tessera.lowering.cuda.schedule.mma_overlap import OverlapPlan, find_overlaps
from tessera.lowering.cuda.schedule.mma_selection import WGMMA, may_run_on, product_kind
from tessera.lowering.cuda.schedule.multibuffer import find_running, in_a_ring, is_vector, source_load, vector_ring
from tessera.lowering.cuda.schedule.rasterization import unevenness
from tessera.lowering.cuda.schedule.view import ScheduleView
from tessera.lowering.cuda.storage.warps import WARP

_MOST_RUNNING: Final = 200
"""Values of an overlapped loop, of 232 registers of a lane or more; the rest is for what is computed on the way."""

_IN_MEMORY: Final = "another product of the kernel keeps all tiles in memory"


@dataclass(frozen=True, slots=True)
class ChooseProducts(SchedulePass):
    """Say how each product is computed: by warp groups, by warps, or by fused multiply-adds (option `num_warps`).

    before: `%s = tessera.dot %a, %b`
    after:  `%s = tessera.dot %a, %b product wgmma`; with factors of tf32, their loads are `rounded to tf32`
    """

    name: ClassVar[str] = "cuda-choose-products"

    def decide(self, kernel: ScheduleContext) -> None:
        """By the element types, the extents and the chip, with as many warps as somebody asks for."""
        warps = kernel.option("num_warps", 0)
        found = {
            op: product_kind(op, kernel.chip, lambda load: copied_ahead(kernel, load), warps) for op in kernel.dots
        }
        for op, kind in found.items():
            if kind is not None:
                mark(op, PRODUCT, kind)
        groups = [op for op, kind in found.items() if kind == WGMMA and COMPUTE in op.attributes]
        for load in {source_load(factor) for op in groups for factor in list(op.operands)[:2]}:
            if load is not None:
                mark_only(load, ROUNDED)
        kernel.set(promotion_interval=promotion(kernel.dots, kernel.program))
        unfit = next((op for op, kind in found.items() if kind is None), None)
        if unfit is not None:
            kernel.refuse(_IN_MEMORY, "blocks of powers of two there, or a kernel for each", unfit)


@dataclass(frozen=True, slots=True)
class OverlapProducts(SchedulePass):
    """Issue the second of a loop's two products beside the next round's arithmetic (options `overlap`, `pingpong`).

    before: `for i: %s = dot(q, k[i]); %p = f(%s); %acc = dot(%p, v[i], %acc_1)`
    after:  the second product is marked `beside the next round's first`, see `overlap`; where registers hold two
            rounds' scores, the first is issued `ahead of its round` (option
            `pipeline_first_mma`), see `prefetch_scores`; factors of sums that are mostly one are `skipped where they
            are one`, see `lazy_rescale`
    """

    name: ClassVar[str] = "cuda-overlap-products"

    def decide(self, kernel: ScheduleContext) -> None:
        """Where a loop's rounds allow it."""
        plan = kernel.plan
        if kernel.option("overlap", 1):
            found = find_overlaps([op for op in kernel.dots if may_run_on(plan.products, op)], plan.rings)
            copying = {copy.loop for copy in plan.copies}
            issued = [_issued(kernel, one) for one in found if one.loop not in copying]
            overlaps = [one for one in issued if one is not None]
            for overlap in overlaps:
                mark_only(overlap.second, BESIDE)
                if overlap.ahead:
                    mark_only(overlap.first, AHEAD)
            # Groups that differ in length fall out of step by themselves; there the barriers cost more than they give.
            turns = not unevenness(plan.rings) or any(one.ahead for one in overlaps)
            kernel.set(pingpong=bool(overlaps) and bool(kernel.option("pingpong", turns)))
        if WGMMA in plan.products.values():
            for op in find_rescalings(kernel.operations):
                mark_only(op, SKIPPED)


@dataclass(frozen=True, slots=True)
class RunProducts(SchedulePass):
    """Let the products of a loop with four or more run until their sums are needed (option `overlap`).

    before: `for i: %s = dot(k, q[i]); %dp = dot(v, do[i]); %base = load %B[i]; ...; %dk = dot(%ds, q[i], %dk_1)`
    after:  the first product is marked `issued a round early`, and the vectors that the loop reads come with a ring's
            buffers: `%base = tessera.load %B[...] ring 1`; see `running`
    """

    name: ClassVar[str] = "cuda-run-products"

    def decide(self, kernel: ScheduleContext) -> None:
        """Where all that the tensor cores read of shared memory is copied ahead."""
        plan, schedule = kernel.plan, kernel.plan.schedule
        if not kernel.option("overlap", 1) or schedule.promotion_interval:
            return
        if not all(may_run_on(plan.products, op) for op in kernel.dots):
            return
        found = find_running(kernel.dots, plan.rings, WARP * schedule.num_warps)
        for running in found.values():
            mark_only(running.ahead, ISSUED)
        loops = {running.ahead.block for running in found.values()}
        for ring in plan.rings:
            if ring.block in loops and ring.running is not None:
                unmark(ring.running, RUNS_ON)
        vectors = [op for op in kernel.operations if op.name == "tessera.load" and op.block in loops]
        for load in vectors:
            number = vector_ring(plan.rings, load) if vector_copied_ahead(kernel, load) else None
            if number is not None:
                mark(load, RING, number)


def _issued(kernel: ScheduleContext, overlap: OverlapPlan) -> OverlapPlan | None:
    """When the products of a loop are issued, by the registers that there are; None where they suffice for nothing."""
    plan = kernel.plan
    scores, sums = (math.prod(op.results[0].type.shape) for op in (overlap.first, overlap.second))
    factor = scores * width(str(overlap.second.operands[0].type.element_type)) // 32
    most = _MOST_RUNNING << (plan.bits + 5)
    # What else a round reads, such as what is added to the scores, is there beside the next round's.
    read = sum(math.prod(op.results[0].type.shape) for op in _read_by_lanes(plan, overlap.loop))
    if (
        kernel.option("pipeline_first_mma", 1)
        and not plan.schedule.promotion_interval
        and 2 * scores + factor + sums + read <= most
    ):
        return overlap
    return replace(overlap, ahead=()) if scores + factor + sums <= most else None


def _read_by_lanes(plan: ScheduleView, loop: Any) -> Iterator[Any]:
    """The loads of a loop that bring a tile of two axes into registers."""
    for op in walk(loop.regions[0].blocks[0]):
        if op.name == "tessera.load" and not in_a_ring(op, plan.rings) and not is_vector(op):
            yield op
