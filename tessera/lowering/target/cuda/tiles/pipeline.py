"""Which loads are copied ahead by a warp of their own, and when their buffers are free again."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tessera.core.mlir import ir


@dataclass(eq=False)
class RingPlan:
    """Loads that share one ring of buffers, because one product reads them together.

    block: where they stand; in_loop: whether that is a loop's body
    first, last: operations of `block` before which the bytes must be there, and after which they are not needed
    running: the product after which the buffers are released only in the next round, as it goes on meanwhile
    """

    loads: list[Any]
    block: Any
    in_loop: bool
    first: Any
    last: Any
    running: Any = None


@dataclass(frozen=True, eq=False)
class OverlapPlan:
    """A loop whose product `second` is issued beside the next round's `first`.

    load: the right factor of `second`; number: which of the carried values its sum is
    """

    loop: Any
    first: Any
    second: Any
    load: Any
    number: int


def find_overlaps(dots: list[Any], rings: list[RingPlan]) -> dict[Any, OverlapPlan]:
    """The loops that hold two products like those of attention, by loop."""
    found: dict[Any, OverlapPlan] = {}
    for second in dots:
        plan = _overlap(second, dots, rings)
        if plan is not None:
            found[plan.loop] = plan
    return found


def _overlap(second: Any, dots: list[Any], rings: list[RingPlan]) -> OverlapPlan | None:
    block = second.block
    loop = block.owner.operation
    mine = [dot for dot in dots if dot.block == block]
    if loop.name != "scf.for" or len(mine) != 2 or mine[1] != second or len(second.operands) < 3:
        return None
    first, load = mine[0], source_load(second.operands[1])
    ring = next((r for r in rings if r.loads == [load]), None)
    number = _only_carried(second.results[0])
    copied = [source_load(v) for v in first.operands]
    if ring is None or ring.block != block or ring.last != second or number is None or len(first.operands) != 2:
        return None
    if source_load(second.operands[0]) is not None or any(not _in_a_ring(one, rings) for one in copied):
        return None
    return OverlapPlan(loop, first, second, load, number)


def _in_a_ring(load: Any, rings: list[RingPlan]) -> bool:
    return load is not None and any(load in ring.loads for ring in rings)


def _only_carried(value: Any) -> int | None:
    """Which carried value of its loop `value` becomes, if it has no other use."""
    uses = [(use.owner.operation.name, use.operand_number) for use in value.uses]
    return uses[0][1] if len(uses) == 1 and uses[0][0] == "scf.yield" else None


def find_rings(block: Any, dots: list[Any], possible: Callable[[Any], bool]) -> list[RingPlan]:
    """A ring for each set of loads that a product of `dots` is the first to read."""
    del block
    groups: dict[Any, list[Any]] = {}
    seen: set[Any] = set()
    for dot in dots:
        for operand in list(dot.operands)[:2]:
            load = source_load(operand)
            if load is None or load in seen or not possible(load) or not only_products(load.results[0], dots):
                continue
            seen.add(load)
            groups.setdefault((dot, load.block), []).append(load)
    rings = [_ring(loads) for loads in groups.values()]
    for dot in dots:
        _mark_running(dot, rings)
    return rings


def source_load(value: Any) -> Any | None:
    """The load that gives `value`, or whose transpose it is."""
    op = None if isinstance(value.owner, ir.Block) else value.owner.operation
    if op is not None and op.name == "tessera.transpose":
        return source_load(op.operands[0])
    return op if op is not None and op.name == "tessera.load" else None


def is_transposed(value: Any) -> bool:
    """Whether an operand of a product is the transpose of a load."""
    return not isinstance(value.owner, ir.Block) and value.owner.operation.name == "tessera.transpose"


def only_products(value: Any, dots: list[Any]) -> bool:
    """Whether nothing but factors of products read a tile."""
    for use in value.uses:
        op = use.owner.operation
        if op.name == "tessera.transpose":
            if not only_products(op.results[0], dots):
                return False
        elif op not in dots or use.operand_number > 1:
            return False
    return True


def _ring(loads: list[Any]) -> RingPlan:
    block = loads[0].block
    order = {view.operation: place for place, view in enumerate(block.operations)}
    users = [order[_ancestor(op, block)] for load in loads for op in _readers(load.results[0])]
    places = {place: op for op, place in order.items()}
    owner = block.owner.operation
    loads = sorted(loads, key=lambda load: order[load])
    return RingPlan(loads, block, owner.name == "scf.for", places[min(users)], places[max(users)])


def _readers(value: Any) -> list[Any]:
    found: list[Any] = []
    for use in value.uses:
        op = use.owner.operation
        found += _readers(op.results[0]) if op.name == "tessera.transpose" else [op]
    return found


def _ancestor(op: Any, block: Any) -> Any:
    """The operation of `block` that is, or holds, `op`."""
    while op.block != block:
        op = op.block.owner.operation
    return op


def _mark_running(dot: Any, rings: list[RingPlan]) -> None:
    """A product whose sum goes straight to itself in the next round need not be waited for in this one."""
    if not _accumulates(dot):
        return
    loads = [source_load(operand) for operand in list(dot.operands)[:2]]
    mine = [ring for ring in rings if any(_in_a_ring(load, [ring]) for load in loads)]
    if len(mine) == 1 and set(mine[0].loads) == set(loads) and mine[0].block == dot.block and mine[0].last == dot:
        mine[0].running = dot


def _accumulates(dot: Any) -> bool:
    """Whether a product's sum is the loop's carried value, and nobody else looks at it inside the loop."""
    if len(dot.operands) < 3:
        return False
    block, acc = dot.block, dot.operands[2]
    loop = block.owner.operation
    if loop.name != "scf.for" or not isinstance(acc.owner, ir.Block) or acc.owner != block:
        return False
    number = ir.BlockArgument(acc).arg_number - 1
    uses = [(use.owner.operation.name, use.operand_number) for use in dot.results[0].uses]
    return number >= 0 and uses == [("scf.yield", number)] and len(list(acc.uses)) == 1
