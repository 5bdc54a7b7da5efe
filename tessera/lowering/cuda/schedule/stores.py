"""The decisions about stores: who gathers what is stored, and when."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar

from tessera.core.profile import wants_profile
from tessera.core.tile.schedule_attributes import (
    BEGINS,
    BY_ALL,
    BY_GROUPS,
    DELAY,
    DELAY_BY_ROWS,
    DELAYED,
    STORED,
    mark,
    mark_only,
)
from tessera.lowering.base.attributes import dropped_axes
from tessera.lowering.cuda.schedule.context import ScheduleContext, SchedulePass
from tessera.lowering.cuda.schedule.multibuffer import DeferredPlan, find_later
from tessera.lowering.cuda.schedule.store_legality import copied_panels, fits_rows, own_rows
from tessera.lowering.cuda.schedule.view import is_matrix_store
from tessera.lowering.cuda.storage.global_access import begins_aligned, multiple_of


@dataclass(frozen=True, slots=True)
class DivideStores(SchedulePass):
    """Let each warp group store its own rows, where all stores allow that: then none waits for the other.

    before: `tessera.store %acc, %C[...]`: all warps gather the tile, wait for each other, and one lane starts the copy
    after:  `tessera.store %acc, %C[...] stored by each warp group`: one multiplies on while the other stores; with the
            option `epilogue_per_warpgroup=False`, `stored by the team`
    """

    name: ClassVar[str] = "cuda-divide-stores"

    def decide(self, kernel: ScheduleContext) -> None:
        """By the layouts; one store that needs the whole team takes the memory of all."""
        plan = kernel.plan
        if not plan.specialised:
            return
        stores = list(filter(is_matrix_store, kernel.operations))
        apart = bool(kernel.option("epilogue_per_warpgroup", 1)) and all(self._divides(kernel, op) for op in stores)
        for op in stores:
            if self._begins_anywhere(kernel, op):
                mark_only(op, BEGINS)
            mark(op, STORED, BY_GROUPS if apart else BY_ALL)

    def _divides(self, kernel: ScheduleContext, op: Any) -> bool:
        layout = kernel.plan.layouts[op.operands[1]]
        array = kernel.array(op.operands[0])
        return own_rows(layout, 1 << kernel.plan.bits) and copied_panels(op, layout, array) is not None

    def _begins_anywhere(self, kernel: ScheduleContext, op: Any) -> bool:
        array = kernel.array(op.operands[0])
        whole = len(array.shape) - 1 not in dropped_axes(op)
        return array.aligned and whole and not begins_aligned(array, list(op.operands)[-1])


@dataclass(frozen=True, slots=True)
class DelayStores(SchedulePass):
    """Store a group's result while the first products of the next group run (option `defer_epilogue`).

    before: `for k: acc = dot(a[k], b[k], acc)`, `tessera.store %acc, %C[...]`, group after group
    after:  `tessera.store %acc, %C[...] delayed until the next group's products run`; see `later_stores`, and
            `later_rows` for arrays whose rows are not aligned
    """

    name: ClassVar[str] = "cuda-delay-stores"

    def decide(self, kernel: ScheduleContext) -> None:
        """Where a group is one loop and one store, and its values leave enough registers free."""
        plan = kernel.plan
        if not kernel.option("defer_epilogue", 1) or plan.schedule.load_balance or wants_profile(kernel.program):
            return
        later = find_later(kernel.block, plan.rings)
        if later is not None and not plan.apart:
            later = self._by_rows(kernel, later)
        if later is not None:
            mark(later.store, DELAYED, DELAY_BY_ROWS if later.rows else DELAY)

    def _by_rows(self, kernel: ScheduleContext, later: DeferredPlan) -> DeferredPlan | None:
        """The plan for rows that begin anywhere; None where they may not wait."""
        plan, (memory, value) = kernel.plan, list(later.store.operands)[:2]
        array, layout, step = kernel.array(memory), plan.layouts[value], later.loop.operands[2]
        plain = array.contiguous and not array.aligned and len(array.shape) - 1 not in dropped_axes(later.store)
        whole = all((*layout.lanes, *layout.warps)) and fits_rows(layout, str(value.type.element_type))
        fits = plain and whole and multiple_of(step).bit_count() == 1 and not kernel.parameters(memory) & plan.loaded
        return replace(later, rows=True) if fits else None
