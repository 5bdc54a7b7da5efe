"""Which loads are copied ahead by a warp of their own, and when their buffers are free again."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tessera.core.mlir import ir
from tessera.core.tile.schedule_attributes import RING, RUNS_ON, marked, number_of
from tessera.lowering.cuda.base.index_builder import width

_STORED_BITS: Final = 16
_AXES: Final = 2
_FEWEST_RUNNING: Final = 4
"""Products of a loop: one runs on into the next round by itself, and of two, `overlap` issues the second one late."""
_MOST_REGISTERS: Final = 224
"""Of a lane, for sums and factors of running products: of 240, some are for addresses and what is computed."""


@dataclass(eq=False)
class PipelinePlan:
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
class DeferredPlan:
    """A `store` that is made in the next group, while the first products of `loop` run.

    rows: whether each warp stores rows of its own (see `later_rows`)
    """

    store: Any
    loop: Any
    rows: bool = False


def in_a_ring(load: Any, rings: Sequence[PipelinePlan]) -> bool:
    """Whether a load (None: it is none) goes through one of some rings."""
    return load is not None and any(load in ring.loads for ring in rings)


def find_rings(dots: list[Any], possible: Callable[[Any], bool]) -> list[PipelinePlan]:
    """A ring for each set of loads that a product of `dots` is the first to read, of those `possible`."""
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


@dataclass(frozen=True, eq=False)
class AsyncMmaPlan:
    """A loop whose products run on; `ahead` is the first one, issued a round early, and `last` the last one."""

    loop: Any
    ahead: Any
    last: Any

    def holds(self, op: Any) -> bool:
        """Whether an operation stands in the loop's body."""
        return op.block == self.ahead.block


def find_running(dots: Sequence[Any], rings: Sequence[PipelinePlan], lanes: int) -> dict[Any, AsyncMmaPlan]:
    """The loops of four products or more whose right factors, and all of the first one's, are in rings.

    lanes: of the team, whose registers must hold all sums at once
    """
    found: dict[Any, AsyncMmaPlan] = {}
    for block in dict.fromkeys(dot.block for dot in dots):
        mine = [dot for dot in dots if dot.block == block]
        loop = block.owner.operation
        fits = len(mine) >= _FEWEST_RUNNING and _registers(mine) <= _MOST_REGISTERS * lanes
        if loop.name == "scf.for" and fits and _run_on(mine, rings):
            found[loop] = AsyncMmaPlan(loop, mine[0], mine[-1])
    return found


def _registers(dots: Sequence[Any]) -> int:
    """Registers of all lanes for the sums of products, and for left factors that are computed, two elements in each."""
    sums = sum(math.prod(dot.results[0].type.shape) for dot in dots)
    computed = [dot.operands[0].type.shape for dot in dots if source_load(dot.operands[0]) is None]
    return sums + sum(map(math.prod, computed)) // 2


def _run_on(dots: Sequence[Any], rings: Sequence[PipelinePlan]) -> bool:
    first = dots[0]
    factors = [first.operands[0], *(dot.operands[1] for dot in dots)]
    lefts = [source_load(dot.operands[0]) for dot in dots]
    copied = [next((ring for ring in rings if in_a_ring(source_load(v), [ring])), None) for v in factors]
    # What is issued early must not wait for what the round before has still to free.
    early = [ring for ring in copied[:2] if ring is not None and ring.block == first.block]
    if None in copied or any(left is not None and not in_a_ring(left, rings) for left in lefts):
        return False
    return len(first.operands) == 2 and bool(early) and all(ring.first == first for ring in early)


def running_from(dots: Sequence[Any], early: Sequence[Any]) -> dict[Any, AsyncMmaPlan]:
    """The loops of such products whose first ones, `early`, are issued a round early."""
    found: dict[Any, AsyncMmaPlan] = {}
    for first in early:
        loop = first.block.owner.operation
        found[loop] = AsyncMmaPlan(loop, first, [dot for dot in dots if dot.block == first.block][-1])
    return found


def vector_ring(rings: Sequence[PipelinePlan], load: Any) -> int | None:
    """The number of the ring that a load of a vector comes with: that of what the product before it reads."""
    order = {view.operation: place for place, view in enumerate(load.block.operations)}
    mine = [n for n, ring in enumerate(rings) if ring.block == load.block and ring.in_loop]
    before = [n for n in mine if order[rings[n].first] < order[load]]
    return max(before, key=lambda n: order[rings[n].first], default=None)


def rings_of(operations: Sequence[Any]) -> list[PipelinePlan]:
    """The rings that the attributes of loads and products say, by their numbers.

    A vector comes with what a product reads: lanes read it where the load stands.
    """
    groups: dict[int, list[Any]] = {}
    for load in marked(operations, RING):
        groups.setdefault(number_of(load, RING), []).append(load)
    rings = [_ring([load for load in loads if not is_vector(load)]) for _, loads in sorted(groups.items())]
    for ring, (_, loads) in zip(rings, sorted(groups.items()), strict=True):
        order = {view.operation: place for place, view in enumerate(ring.block.operations)}
        for load in filter(is_vector, loads):
            ring.loads.append(load)
            ring.last = max(ring.last, load, key=lambda op: order[op])
    for dot in marked(operations, RUNS_ON):
        load = source_load(dot.operands[0])
        next(ring for ring in rings if in_a_ring(load, [ring])).running = dot
    return rings


def is_vector(load: Any) -> bool:
    """Whether a load gives a tile of one axis."""
    return len(load.results[0].type.shape) == 1


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


def _ring(loads: list[Any]) -> PipelinePlan:
    block = loads[0].block
    order = {view.operation: place for place, view in enumerate(block.operations)}
    users = [order[_ancestor(op, block)] for load in loads for op in readers(load.results[0])]
    places = {place: op for op, place in order.items()}
    owner = block.owner.operation
    loads = sorted(loads, key=lambda load: order[load])
    return PipelinePlan(loads, block, owner.name == "scf.for", places[min(users)], places[max(users)])


def readers(value: Any) -> list[Any]:
    """The operations that read a tile, or its transpose: one for each operand."""
    found: list[Any] = []
    for use in value.uses:
        op = use.owner.operation
        found += readers(op.results[0]) if op.name == "tessera.transpose" else [op]
    return found


def _ancestor(op: Any, block: Any) -> Any:
    """The operation of `block` that is, or holds, `op`."""
    while op.block != block:
        op = op.block.owner.operation
    return op


def _mark_running(dot: Any, rings: list[PipelinePlan]) -> None:
    """A product whose sum goes straight to itself in the next round need not be waited for in this one."""
    if not accumulates(dot):
        return
    loads = [source_load(operand) for operand in list(dot.operands)[:2]]
    mine = [ring for ring in rings if any(in_a_ring(load, [ring]) for load in loads)]
    if len(mine) == 1 and set(mine[0].loads) == set(loads) and mine[0].block == dot.block and mine[0].last == dot:
        mine[0].running = dot


def accumulates(dot: Any) -> bool:
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


def find_later(block: Any, rings: list[PipelinePlan]) -> DeferredPlan | None:
    """The last operation of a kernel's `block`, if it stores 16-bit elements of the only loop's sum and may wait.

    Exponentials and divisions between the two have no registers for what else is kept there.  All groups have as many
    rounds: a short loop could not store what one before it has left.
    """
    operations = [view.operation for view in block.operations][:-1]
    if len(rings) != 1 or rings[0].running is None or not operations:
        return None
    loop, store = rings[0].block.owner.operation, operations[-1]
    regions = [op for op in operations if len(op.regions)]
    stores = [op for op in operations if op.name == "tessera.store"]
    between = operations[operations.index(loop) + 1 :] if loop in operations else operations
    costly = any(op.name.startswith("math.") or op.name == "arith.divf" for op in between)
    alike = all(_same_for_all(bound) for bound in list(loop.operands)[:3])
    if regions != [loop] or stores != [store] or costly or not alike:
        return None
    kind = store.operands[1].type
    fits = len(kind.shape) == _AXES and width(str(kind.element_type)) == _STORED_BITS
    return DeferredPlan(store, loop) if fits else None


def _same_for_all(value: Any) -> bool:
    """Whether a number is made of extents and constants alone."""
    if isinstance(value.owner, ir.Block):
        return False
    op = value.owner.operation
    if op.name in ("tessera.dim", "arith.constant"):
        return True
    return op.name.startswith("arith.") and all(_same_for_all(operand) for operand in op.operands)
