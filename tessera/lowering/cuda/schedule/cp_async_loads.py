"""Which loads the team itself copies into shared memory, and which of them for later rounds of their loop."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from tessera.core.mlir import ir
from tessera.lowering.cuda.schedule.multibuffer import only_products, source_load

_FEWEST_STAGES: Final = 3
_MOST_STAGES: Final = 4
_SCALARS: Final = ("tessera.dim", "tessera.id")


@dataclass(eq=False)
class CopyPlan:
    """Loads of one block whose bytes are copied together.

    loop: the `scf.for` in whose rounds they are, copied some rounds ahead; None: copied where they stand
    scalars: operations of the loop's body, in order, that say where the loads begin
    """

    loads: list[Any]
    block: Any
    loop: Any = None
    scalars: list[Any] = field(default_factory=list[Any])

    def stages(self, stage_bytes: int, depth: int, shared_bytes: int) -> int:
        """How many buffers there are: enough for two blocks on a multiprocessor, where that leaves three of them.

        One means that nothing is copied ahead.
        """
        if self.loop is None or depth == 1:
            return 1
        return min(depth, max(_FEWEST_STAGES, min(_MOST_STAGES, shared_bytes // 2 // stage_bytes)))

    def ahead(self, stages: int) -> int:
        """How many rounds before their own the copies are started."""
        return stages - 1


def find_copies(dots: list[Any], possible: Callable[[Any], bool]) -> list[CopyPlan]:
    """Plans for the loads that only products read."""
    groups: dict[Any, list[Any]] = {}
    for dot in dots:
        for operand in list(dot.operands)[:2]:
            load = source_load(operand)
            if load is None or not possible(load) or not only_products(load.results[0], dots):
                continue
            mine = groups.setdefault(load.block, [])
            if load not in mine:
                mine.append(load)
    plans: list[CopyPlan] = []
    for block, loads in groups.items():
        loop = block.owner.operation
        scalars = [_scalars(load, block) for load in loads] if loop.name == "scf.for" else []
        if scalars and all(found is not None for found in scalars):
            wanted = {op for found in scalars for op in found or ()}
            order = [view.operation for view in block.operations if view.operation in wanted]
            plans.append(CopyPlan(loads, block, loop, order))
        else:
            plans += [CopyPlan([load], block) for load in loads]
    return plans


def _scalars(load: Any, block: Any) -> list[Any] | None:
    """The operations of `block` that give a load's indices; None where they depend on what earlier rounds computed."""
    found: list[Any] = []
    waiting = list(load.operands)[1:]
    while waiting:
        value = waiting.pop()
        owner = value.owner
        if isinstance(owner, ir.Block):
            if owner == block and value != block.arguments[0]:
                return None
            continue
        op = owner.operation
        if op.block != block:
            continue
        if not str(op.name).startswith("arith.") and op.name not in _SCALARS:
            return None
        if op not in found:
            found.append(op)
            waiting += list(op.operands)
    return found
