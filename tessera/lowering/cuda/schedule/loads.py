"""The decisions about what products read: who copies it to shared memory, and how far ahead."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from tessera.core.tile.schedule_attributes import BEGINS, COPIED, REALIGNED, RING, RUNS_ON, mark, mark_only
from tessera.lowering.cuda.schedule.context import ScheduleContext, SchedulePass
from tessera.lowering.cuda.schedule.cp_async_loads import find_copies
from tessera.lowering.cuda.schedule.load_legality import begins_anywhere, copied_ahead, copied_by_team, fits_copy_engine
from tessera.lowering.cuda.schedule.mma_selection import MMA, MOST_WARP_BITS, WGMMA, may_run_on, product_kind
from tessera.lowering.cuda.schedule.multibuffer import PipelinePlan, find_rings, source_load
from tessera.lowering.cuda.schedule.row_padding import find_realigned, is_gapless
from tessera.lowering.cuda.schedule.view import ScheduleView, column_blocks

_MOST_BLOCKS: Final = 4
_REGISTERS: Final = 1 << 16
"""Of a multiprocessor."""
_RESIDENT: Final = 2
"""Blocks of a multiprocessor where lanes wait for what they copy: one multiplies meanwhile."""


@dataclass(frozen=True, slots=True)
class Realign(SchedulePass):
    """Let the launcher copy factors to rows that the copy engine can read (option `pad_rows`).

    That reads and writes each element once; otherwise lanes fetch them 4 or 2 bytes at a time, again in every group
    that reads them.  So it is done where several groups read the same elements.

    before: `%a = tessera.load %A[...]` of an array whose rows begin anywhere
    after:  `%a = tessera.load %A[...] realigned before the kernel`
    keeps:  arrays that have gaps or that the kernel writes, and products of which every element is read by one group
    """

    name: ClassVar[str] = "cuda-realign"

    def decide(self, kernel: ScheduleContext) -> None:
        """For all factors of a product, or none of them."""
        plan = kernel.plan
        if kernel.option("pad_rows", 1) and kernel.dots and kernel.chip.tma and _fills_processor(plan):
            found = find_realigned(
                [dot for dot in kernel.dots if plan.products[dot] != MMA],
                lambda load: copied_ahead(kernel, load),
                lambda load: is_gapless(kernel.array(load.operands[0])) and fits_copy_engine(kernel, load),
            )
            for load in found:
                mark_only(load, REALIGNED)


@dataclass(frozen=True, slots=True)
class CopyAhead(SchedulePass):
    """Give the loads of factors to a warp of its own, which keeps a ring of buffers full (option `stages`).

    before: `for { %a = tessera.load %A[...]; %acc = tessera.dot %a, %b, %acc_1 }`
    after:  `%a = tessera.load %A[...] ring 0`; where the sum goes straight to the next round's product, that one is
            not waited for: `tessera.dot %a, %b, %acc_1 runs_on into the next round`; what may begin at no multiple of
            16 bytes, where the copy engine faults, is `begins anywhere copied by the team`
    keeps:  loads of arrays that the kernel writes, that are neither aligned nor realigned, or that others read as well
    """

    name: ClassVar[str] = "cuda-copy-ahead"

    def decide(self, kernel: ScheduleContext) -> None:
        """Rings for the copy engine where the chip has one; the rest is copied by the team itself.

        With a ring, one block has a multiprocessor to itself: small teams rather share it and copy by themselves.  So
        do those that copy a factor of a product which begins anywhere, through registers, and wait for it: they copy
        the other factor as well.
        """
        anywhere = [load for load in dict.fromkeys(_wanted(kernel)) if begins_anywhere(kernel, load)]
        for load in anywhere:
            mark_only(load, BEGINS)
        rings = self._rings(kernel, set(anywhere))
        staged = {load for ring in rings for load in ring.loads}
        copies = find_copies(kernel.dots, lambda load: load not in staged and copied_by_team(kernel, load))
        for load in (load for copy in copies for load in copy.loads):
            mark_only(load, COPIED)
        stored = min(
            kernel.option("epilogue_stages", _MOST_BLOCKS),
            max((column_blocks(op) for op in kernel.operations), default=1),
        )
        kernel.set(producer_warp=bool(rings), epilogue_stages=stored)
        if anywhere and not rings and _leaves_registers(kernel):
            kernel.set(min_blocks_per_sm=_RESIDENT)

    def _rings(self, kernel: ScheduleContext, anywhere: set[Any]) -> list[PipelinePlan]:
        """Mark the loads of the copy engine, and the products that run on."""
        plan = kernel.plan
        if not (kernel.dots and kernel.chip.tma and _fills_processor(plan)):
            return []
        beside = {load for dot in kernel.dots if anywhere & set(_loads(dot)) for load in _loads(dot)}
        rings = find_rings(
            [dot for dot in kernel.dots if plan.products[dot] != MMA],
            lambda load: load not in beside and copied_ahead(kernel, load),
        )
        waits = plan.schedule.promotion_interval or not kernel.option("overlap", 1)
        for number, ring in enumerate(rings):
            for load in ring.loads:
                mark(load, RING, number)
            if ring.running is not None and not waits and may_run_on(plan.products, ring.running):
                mark_only(ring.running, RUNS_ON)
        return rings


def _wanted(kernel: ScheduleContext) -> Iterator[Any]:
    """The loads that the copy engine would do if it had windows on all of them."""
    if not kernel.chip.tma:
        return
    fills, warps = _fills_processor(kernel.plan), kernel.option("num_warps", 0)
    for dot in kernel.dots:
        groups = product_kind(dot, kernel.chip, lambda _: True, warps) == WGMMA
        if groups or (fills and kernel.plan.products[dot] != MMA):
            yield from _loads(dot)


def _loads(dot: Any) -> list[Any]:
    """The loads that the factors of a product are."""
    return [load for load in map(source_load, list(dot.operands)[:2]) if load is not None]


def _leaves_registers(kernel: ScheduleContext) -> bool:
    """Whether all sums are tensor cores', and half of the registers that two blocks on a multiprocessor share."""
    most = _REGISTERS // _RESIDENT // 2
    groups = all(kind == WGMMA for kind in kernel.plan.products.values())
    return groups and all(math.prod(dot.results[0].type.shape) <= most for dot in kernel.dots)


def _fills_processor(plan: ScheduleView) -> bool:
    """Whether one block keeps a multiprocessor busy: of products by single warps, two do that better."""
    kinds = set(plan.products.values())
    return WGMMA in kinds or (MMA not in kinds and plan.bits == MOST_WARP_BITS)
