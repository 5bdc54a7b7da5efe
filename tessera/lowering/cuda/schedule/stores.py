"""Schedule the epilogue: which warps stage what is stored, and when it is stored."""

from dataclasses import dataclass, replace
from typing import ClassVar

from tessera.core.mlir import AnyOp
from tessera.core.profile import wants_profile
from tessera.core.tile.schedule_attributes import (
    BEGINS,
    BY_ALL,
    BY_GROUPS,
    DEFER,
    DEFER_BY_ROWS,
    DEFERRED,
    STORED,
    mark,
    mark_only,
)
from tessera.lowering.analysis.divisibility import multiple_of
from tessera.lowering.base.attributes import dropped_axes
from tessera.lowering.base.ir_walk import element_of
from tessera.lowering.cuda.schedule.context import ScheduleContext, SchedulePass
from tessera.lowering.cuda.schedule.multibuffer import DeferredPlan, find_deferred
from tessera.lowering.cuda.schedule.store_legality import copied_panels, fits_rows, own_rows
from tessera.lowering.cuda.schedule.view import is_matrix_store
from tessera.lowering.cuda.storage.global_access import begins_aligned


@dataclass(frozen=True, slots=True)
class SplitEpilogue(SchedulePass):
    """Let each warp group store its own rows, where all stores allow it, so that none waits for the other.

    before: `tessera.store %acc, %C[...]`: all warps gather the tile, wait for each other, and one lane starts the copy
    after:  `tessera.store %acc, %C[...] stored by each warpgroup`: one multiplies on while the other stores; with the
            option `epilogue_per_warpgroup=False`, `stored by the consumer warps`
    """

    name: ClassVar[str] = "cuda-split-epilogue"

    def decide(self, kernel: ScheduleContext) -> None:
        """Split by the layouts; one store that needs all warps takes the shared memory of all of them."""
        plan = kernel.plan
        if not plan.specialised:
            return
        stores = list(filter(is_matrix_store, kernel.operations))
        per_warpgroup = bool(kernel.option("epilogue_per_warpgroup", 1)) and all(
            self._divides(kernel, op) for op in stores
        )
        for op in stores:
            if self._begins_anywhere(kernel, op):
                mark_only(op, BEGINS)
            mark(op, STORED, BY_GROUPS if per_warpgroup else BY_ALL)

    def _divides(self, kernel: ScheduleContext, op: AnyOp) -> bool:
        layout = kernel.plan.layouts[op.operands[1]]
        array = kernel.array(op.operands[0])
        return own_rows(layout, 1 << kernel.plan.bits) and copied_panels(op, layout, array) is not None

    def _begins_anywhere(self, kernel: ScheduleContext, op: AnyOp) -> bool:
        array = kernel.array(op.operands[0])
        whole = len(array.shape) - 1 not in dropped_axes(op)
        return array.aligned and whole and not begins_aligned(array, list(op.operands)[-1])


@dataclass(frozen=True, slots=True)
class DeferEpilogue(SchedulePass):
    """Store a group's result while the first products of the next group run (option `defer_epilogue`).

    before: `for k: acc = dot(a[k], b[k], acc)`, `tessera.store %acc, %C[...]`, group after group
    after:  `tessera.store %acc, %C[...] deferred into the next group's main loop`; see `epilogue.deferred`,
            and `epilogue.deferred_rows` for arrays whose rows are not aligned
    """

    name: ClassVar[str] = "cuda-defer-epilogue"

    def decide(self, kernel: ScheduleContext) -> None:
        """Defer the store of a group that is one loop and one store, and leaves enough registers free."""
        plan = kernel.plan
        if not kernel.option("defer_epilogue", 1) or plan.schedule.load_balance or wants_profile(kernel.program):
            return
        deferred = find_deferred(kernel.block, plan.rings)
        if deferred is not None and not plan.epilogue_per_warpgroup:
            deferred = self._by_rows(kernel, deferred)
        if deferred is not None:
            mark(deferred.store, DEFERRED, DEFER_BY_ROWS if deferred.rows else DEFER)

    def _by_rows(self, kernel: ScheduleContext, deferred: DeferredPlan) -> DeferredPlan | None:
        """Return the plan for rows at any address; None where they may not be deferred."""
        plan, (memory, value) = kernel.plan, list(deferred.store.operands)[:2]
        array, layout, step = kernel.array(memory), plan.layouts[value], deferred.loop.operands[2]
        plain = array.contiguous and not array.aligned and len(array.shape) - 1 not in dropped_axes(deferred.store)
        whole = all((*layout.lanes, *layout.warps)) and fits_rows(layout, element_of(value))
        fits = plain and whole and multiple_of(step).bit_count() == 1 and not kernel.parameters(memory) & plan.loaded
        return replace(deferred, rows=True) if fits else None
