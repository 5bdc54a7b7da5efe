"""Schedule the loads of MMA operands: padded rows, TMA pipelines, cp.async copies."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

from tessera.core.mlir import AnyOp
from tessera.core.tile.schedule_attributes import BEGINS, COPIED, IN_FLIGHT, PADDED, PIPELINE, mark, mark_only
from tessera.lowering.base.ir_walk import shape_of
from tessera.lowering.cuda.schedule.context import ScheduleContext, SchedulePass
from tessera.lowering.cuda.schedule.cp_async_loads import find_copies
from tessera.lowering.cuda.schedule.load_legality import (
    begins_anywhere,
    fits_copy_engine,
    is_cp_async_load,
    is_tma_load,
)
from tessera.lowering.cuda.schedule.mma_selection import MMA, MOST_WARP_BITS, WGMMA, may_run_on, product_kind
from tessera.lowering.cuda.schedule.multibuffer import PipelinePlan, find_rings, source_load
from tessera.lowering.cuda.schedule.row_padding import find_padded, is_gapless
from tessera.lowering.cuda.schedule.view import ScheduleView, column_blocks

_MOST_BLOCKS: Final = 4
_REGISTERS: Final = 1 << 16
"""Of a multiprocessor."""
_RESIDENT: Final = 2
"""Blocks of a multiprocessor where lanes wait for what they copy: one multiplies meanwhile."""


@dataclass(frozen=True, slots=True)
class PadRows(SchedulePass):
    """Let the launcher copy MMA operands to padded rows that TMA can read (option `pad_rows`).

    The copy reads and writes each element once; otherwise lanes fetch them 4 or 2 bytes at a time, again in every group
    that reads them.  So it is done where several groups read the same elements.

    before: `%a = tessera.load %A[...]` of an array whose rows begin anywhere
    after:  `%a = tessera.load %A[...] padded_rows before the kernel`
    keeps:  arrays that have gaps or that the kernel writes, and products of which every element is read by one group
    """

    name: ClassVar[str] = "cuda-pad-rows"

    def decide(self, kernel: ScheduleContext) -> None:
        """Pad the arrays of all operands of a product, or of none."""
        plan = kernel.plan
        if kernel.option("pad_rows", 1) and kernel.dots and kernel.chip.tma and _fills_processor(plan):
            found = find_padded(
                [dot for dot in kernel.dots if plan.products[dot] != MMA],
                lambda load: is_tma_load(kernel, load),
                lambda load: is_gapless(kernel.array(load.operands[0])) and fits_copy_engine(kernel, load),
            )
            for load in found:
                mark_only(load, PADDED)


@dataclass(frozen=True, slots=True)
class PipelineLoads(SchedulePass):
    """Give the loads of MMA operands to a producer warp, which keeps a pipeline of buffers full (option `stages`).

    before: `for { %a = tessera.load %A[...]; %acc = tessera.dot %a, %b, %acc_1 }`
    after:  `%a = tessera.load %A[...] pipeline 0`; where the accumulator goes straight to the next iteration, the
            product is not waited for: `tessera.dot %a, %b, %acc_1 in_flight into the next iteration`; an operand
            without a proven 16-byte start, where TMA faults, is `begins anywhere copied by the consumer warps`
    keeps:  loads of arrays that the kernel writes, that are neither aligned nor padded, or that other operations read
            as well
    """

    name: ClassVar[str] = "cuda-pipeline-loads"

    def decide(self, kernel: ScheduleContext) -> None:
        """Build TMA pipelines where the chip has TMA; consumer warps copy the other operands themselves.

        With a pipeline, one block has a multiprocessor to itself: blocks of few warps rather share it and copy by
        themselves.  So do blocks that must copy one operand through registers, because it may begin anywhere: they
        copy the other operand as well.
        """
        anywhere = [load for load in dict.fromkeys(_wanted(kernel)) if begins_anywhere(kernel, load)]
        for load in anywhere:
            mark_only(load, BEGINS)
        rings = self._rings(kernel, set(anywhere))
        staged = {load for ring in rings for load in ring.loads}
        copies = find_copies(kernel.dots, lambda load: load not in staged and is_cp_async_load(kernel, load))
        for load in (load for copy in copies for load in copy.loads):
            mark_only(load, COPIED)
        stored = min(
            kernel.option("epilogue_stages", _MOST_BLOCKS),
            max((column_blocks(op) for op in kernel.operations), default=1),
        )
        kernel.set(producer_warp=bool(rings), epilogue_stages=stored)
        if anywhere and not rings and _leaves_registers(kernel):
            kernel.set(min_blocks_per_sm=_RESIDENT)

    def _rings(self, kernel: ScheduleContext, anywhere: set[AnyOp]) -> list[PipelinePlan]:
        """Mark the loads that TMA does, and the products that run into the next iteration."""
        plan = kernel.plan
        if not (kernel.dots and kernel.chip.tma and _fills_processor(plan)):
            return []
        beside = {load for dot in kernel.dots if anywhere & set(_loads(dot)) for load in _loads(dot)}
        rings = find_rings(
            [dot for dot in kernel.dots if plan.products[dot] != MMA],
            lambda load: load not in beside and is_tma_load(kernel, load),
        )
        waits = plan.schedule.promotion_interval or not kernel.option("overlap", 1)
        for number, ring in enumerate(rings):
            for load in ring.loads:
                mark(load, PIPELINE, number)
            if ring.running is not None and not waits and may_run_on(plan.products, ring.running):
                mark_only(ring.running, IN_FLIGHT)
        return rings


def _wanted(kernel: ScheduleContext) -> Iterator[AnyOp]:
    """Yield the loads that TMA would do if it had boxes for all of them."""
    if not kernel.chip.tma:
        return
    fills, warps = _fills_processor(kernel.plan), kernel.option("num_warps", 0)
    for dot in kernel.dots:
        groups = product_kind(dot, kernel.chip, lambda _: True, warps) == WGMMA
        if groups or (fills and kernel.plan.products[dot] != MMA):
            yield from _loads(dot)


def _loads(dot: AnyOp) -> list[AnyOp]:
    """Return the loads that are operands of a product."""
    return [load for load in map(source_load, list(dot.operands)[:2]) if load is not None]


def _leaves_registers(kernel: ScheduleContext) -> bool:
    """Return whether all products are wgmma whose accumulators leave half of the registers of two resident blocks."""
    most = _REGISTERS // _RESIDENT // 2
    groups = all(kind == WGMMA for kind in kernel.plan.products.values())
    return groups and all(math.prod(shape_of(dot.results[0])) <= most for dot in kernel.dots)


def _fills_processor(plan: ScheduleView) -> bool:
    """Return whether one block keeps a multiprocessor busy; with products by single warps, two blocks do better."""
    kinds = set(plan.products.values())
    return WGMMA in kinds or (MMA not in kinds and plan.bits == MOST_WARP_BITS)
