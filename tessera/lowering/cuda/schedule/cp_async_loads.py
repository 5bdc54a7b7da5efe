"""Plan the loads that consumer warps copy to shared memory themselves (cp.async), and how far ahead."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tessera.core.mlir import AnyOp, ir
from tessera.lowering.cuda.schedule.multibuffer import only_products, source_load

_FEWEST_STAGES: Final = 3
_MOST_STAGES: Final = 4
_SCALARS: Final = ("tessera.dim", "tessera.id")


@dataclass(eq=False)
class CopyPlan:
    """Group the loads of one block whose bytes are copied together.

    loop: the `scf.for` whose iterations they belong to, copied some iterations ahead; None: copied where they stand
    scalars: operations of the loop's body, in order, that compute where the loads begin
    """

    loads: list[AnyOp]
    block: ir.Block
    loop: AnyOp | None = None
    scalars: list[AnyOp] = field(default_factory=list[AnyOp])

    def stages(self, stage_bytes: int, depth: int, shared_bytes: int) -> int:
        """Return the number of buffers: as many as let two blocks share a multiprocessor, but at least three.

        One means that nothing is copied ahead.
        """
        if self.loop is None or depth == 1:
            return 1
        return min(depth, max(_FEWEST_STAGES, min(_MOST_STAGES, shared_bytes // 2 // stage_bytes)))

    def prefetch_distance(self, stages: int) -> int:
        """Return how many iterations ahead of their own the copies start."""
        return stages - 1


def find_copies(dots: list[AnyOp], possible: Callable[[AnyOp], bool]) -> list[CopyPlan]:
    """Return plans for the loads that only matrix products read."""
    groups: dict[ir.Block, list[AnyOp]] = {}
    for dot in dots:
        for operand in list(dot.operands)[:2]:
            load = source_load(operand)
            if load is None or not possible(load) or not only_products(load.results[0], dots):
                continue
            mine = groups.setdefault(load.operation.block, [])
            if load not in mine:
                mine.append(load)
    plans: list[CopyPlan] = []
    for block, loads in groups.items():
        loop = block.owner.operation
        scalars = [_scalars(load, block) for load in loads] if loop.name == "scf.for" else []
        if scalars and all(found is not None for found in scalars):
            wanted = {op for found in scalars for op in found or ()}
            order: list[AnyOp] = [view.operation for view in block.operations if view.operation in wanted]
            plans.append(CopyPlan(loads, block, loop, order))
        else:
            plans += [CopyPlan([load], block) for load in loads]
    return plans


def _scalars(load: AnyOp, block: ir.Block) -> list[AnyOp] | None:
    """Return the operations of `block` that compute a load's indices; None where these depend on carried values."""
    found: list[AnyOp] = []
    waiting = list(load.operands)[1:]
    while waiting:
        value = waiting.pop()
        owner = value.owner
        if isinstance(owner, ir.Block):
            if owner == block and value != block.arguments[0]:
                return None
            continue
        op = owner.operation
        if op.operation.block != block:
            continue
        if not str(op.name).startswith("arith.") and op.name not in _SCALARS:
            return None
        if op not in found:
            found.append(op)
            waiting += list(op.operands)
    return found
