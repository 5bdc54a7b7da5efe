"""Find the loads that a producer warp copies ahead (multibuffering), and when their buffers are free again."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tessera.core.mlir import AnyOp, ir
from tessera.core.tile.schedule_attributes import IN_FLIGHT, PIPELINE, marked, number_of
from tessera.lowering.base.ir_walk import element_of, shape_of
from tessera.lowering.cuda.base.index_builder import width

_STORED_BITS: Final = 16
_AXES: Final = 2
_FEWEST_RUNNING: Final = 4
"""Products of a loop: one alone runs on into the next iteration, and of two, `OverlapPlan` issues the second late."""
_MOST_REGISTERS: Final = 224
"""Of a lane, for accumulators and operands of running products; of 240, some are for addresses and the like."""


@dataclass(eq=False)
class PipelinePlan:
    """Describe a pipeline: loads that share buffers because one product reads them together.

    block: where they stand; in_loop: whether that is a loop's body
    first, last: operations of `block` before which the bytes must be there, and after which they are not needed
    running: the asynchronous product whose buffers are released only in the next iteration
    """

    loads: list[AnyOp]
    block: ir.Block
    in_loop: bool
    first: AnyOp
    last: AnyOp
    running: AnyOp | None = None


@dataclass(frozen=True, eq=False)
class DeferredPlan:
    """Defer an epilogue: `store` runs in the next group, while the first products of `loop` run.

    rows: whether each warp stores rows of its own (see `epilogue.deferred_rows`)
    """

    store: AnyOp
    loop: AnyOp
    rows: bool = False


def in_a_ring(load: AnyOp | None, rings: Sequence[PipelinePlan]) -> bool:
    """Return whether a load goes through one of `rings`; None, which stands for no load, does not."""
    return load is not None and any(load in ring.loads for ring in rings)


def find_rings(dots: list[AnyOp], possible: Callable[[AnyOp], bool]) -> list[PipelinePlan]:
    """Return a pipeline for each set of `possible` loads that a product of `dots` is the first to read."""
    groups: dict[tuple[AnyOp, ir.Block], list[AnyOp]] = {}
    seen: set[AnyOp] = set()
    for dot in dots:
        for operand in list(dot.operands)[:2]:
            load = source_load(operand)
            if load is None or load in seen or not possible(load) or not only_products(load.results[0], dots):
                continue
            seen.add(load)
            groups.setdefault((dot, load.operation.block), []).append(load)
    rings = [_ring(loads) for loads in groups.values()]
    for dot in dots:
        _mark_running(dot, rings)
    return rings


@dataclass(frozen=True, eq=False)
class AsyncMmaPlan:
    """Describe a loop of asynchronous products: `first` is issued an iteration early, `last` is the last one."""

    loop: AnyOp
    first: AnyOp
    last: AnyOp

    def holds(self, op: AnyOp) -> bool:
        """Return whether an operation stands in the loop's body."""
        return op.operation.block == self.first.operation.block


def find_running(dots: Sequence[AnyOp], rings: Sequence[PipelinePlan], lanes: int) -> dict[AnyOp, AsyncMmaPlan]:
    """Return the loops of four products or more whose B operands, and all of the first one's, are in pipelines.

    lanes: those of the consumer warps, whose registers must hold all accumulators at once
    """
    found: dict[AnyOp, AsyncMmaPlan] = {}
    for block in dict.fromkeys(dot.operation.block for dot in dots):
        mine = [dot for dot in dots if dot.operation.block == block]
        loop = block.owner.operation
        fits = len(mine) >= _FEWEST_RUNNING and _registers(mine) <= _MOST_REGISTERS * lanes
        if loop.name == "scf.for" and fits and _run_on(mine, rings):
            found[loop] = AsyncMmaPlan(loop, mine[0], mine[-1])
    return found


def _registers(dots: Sequence[AnyOp]) -> int:
    """Return the registers, over all lanes, of accumulators and of computed A operands (two elements in each)."""
    accumulators = sum(math.prod(shape_of(dot.results[0])) for dot in dots)
    computed = [shape_of(dot.operands[0]) for dot in dots if source_load(dot.operands[0]) is None]
    return accumulators + sum(map(math.prod, computed)) // 2


def _run_on(dots: Sequence[AnyOp], rings: Sequence[PipelinePlan]) -> bool:
    first = dots[0]
    operands = [first.operands[0], *(dot.operands[1] for dot in dots)]
    lefts = [source_load(dot.operands[0]) for dot in dots]
    copied = [next((ring for ring in rings if in_a_ring(source_load(v), [ring])), None) for v in operands]
    # What is issued early must not wait for what the previous iteration still has to free.
    early = [ring for ring in copied[:2] if ring is not None and ring.block == first.operation.block]
    if None in copied or any(left is not None and not in_a_ring(left, rings) for left in lefts):
        return False
    return len(first.operands) == 2 and bool(early) and all(ring.first == first for ring in early)


def running_from(dots: Sequence[AnyOp], early: Sequence[AnyOp]) -> dict[AnyOp, AsyncMmaPlan]:
    """Return the loops of asynchronous products whose first ones, `early`, are issued an iteration early."""
    found: dict[AnyOp, AsyncMmaPlan] = {}
    for first in early:
        loop = first.operation.block.owner.operation
        found[loop] = AsyncMmaPlan(
            loop, first, [dot for dot in dots if dot.operation.block == first.operation.block][-1]
        )
    return found


def vector_ring(rings: Sequence[PipelinePlan], load: AnyOp) -> int | None:
    """Return the pipeline that brings a vector: that of the operands of the product before it."""
    order: dict[AnyOp, int] = {view.operation: place for place, view in enumerate(load.operation.block.operations)}
    mine = [n for n, ring in enumerate(rings) if ring.block == load.operation.block and ring.in_loop]
    before = [n for n in mine if order[rings[n].first] < order[load]]
    return max(before, key=lambda n: order[rings[n].first], default=None)


def rings_of(operations: Sequence[AnyOp]) -> list[PipelinePlan]:
    """Return the pipelines that the attributes of loads and products describe, by their numbers.

    A vector comes with what a product reads: lanes read it where the load stands.
    """
    groups: dict[int, list[AnyOp]] = {}
    for load in marked(operations, PIPELINE):
        groups.setdefault(number_of(load, PIPELINE), []).append(load)
    rings = [_ring([load for load in loads if not is_vector(load)]) for _, loads in sorted(groups.items())]
    for ring, (_, loads) in zip(rings, sorted(groups.items()), strict=True):
        order: dict[AnyOp, int] = {view.operation: place for place, view in enumerate(ring.block.operations)}
        for load in filter(is_vector, loads):
            ring.loads.append(load)
            ring.last = max(ring.last, load, key=lambda op: order[op])
    for dot in marked(operations, IN_FLIGHT):
        load = source_load(dot.operands[0])
        next(ring for ring in rings if in_a_ring(load, [ring])).running = dot
    return rings


def is_vector(load: AnyOp) -> bool:
    """Return whether a load gives a tile of one axis."""
    return len(shape_of(load.results[0])) == 1


def source_load(value: ir.Value) -> AnyOp | None:
    """Return the load that `value` is the result of, its rows one after the other, or the transpose of that."""
    op = None if isinstance(value.owner, ir.Block) else value.owner.operation
    if op is not None and (op.name == "tessera.transpose" or joins_rows(op)):
        return source_load(op.operands[0])
    return op if op is not None and op.name == "tessera.load" else None


def joins_rows(op: AnyOp) -> bool:
    """Return whether an operation gives the rows of a loaded box of several axes as those of a matrix.

    They lie in this order wherever the box is copied to: images, rows and columns of pixels are the rows of a product.
    """
    if op.name != "tessera.reshape" or isinstance(op.operands[0].owner, ir.Block):
        return False
    before, after = shape_of(op.operands[0]), shape_of(op.results[0])
    loaded = op.operands[0].owner.operation.name == "tessera.load"
    return loaded and len(before) > len(after) == _AXES and before[-1] == after[-1]


def is_transposed(value: ir.Value) -> bool:
    """Return whether an operand of a product is the transpose of a load."""
    return not isinstance(value.owner, ir.Block) and value.owner.operation.name == "tessera.transpose"


def only_products(value: ir.Value, dots: list[AnyOp]) -> bool:
    """Return whether a tile is read as an operand of products alone."""
    for use in value.uses:
        op = use.owner.operation
        if op.name == "tessera.transpose" or joins_rows(op):
            if not only_products(op.results[0], dots):
                return False
        elif op not in dots or use.operand_number > 1:
            return False
    return True


def _ring(loads: list[AnyOp]) -> PipelinePlan:
    block = loads[0].operation.block
    order: dict[AnyOp, int] = {view.operation: place for place, view in enumerate(block.operations)}
    users = [order[_ancestor(op, block)] for load in loads for op in readers(load.results[0])]
    places = {place: op for op, place in order.items()}
    owner = block.owner.operation
    loads = sorted(loads, key=lambda load: order[load])
    return PipelinePlan(loads, block, owner.name == "scf.for", places[min(users)], places[max(users)])


def readers(value: ir.Value) -> list[AnyOp]:
    """Return the operations that read a tile, or its transpose: one for each operand."""
    found: list[AnyOp] = []
    for use in value.uses:
        op = use.owner.operation
        found += readers(op.results[0]) if op.name == "tessera.transpose" or joins_rows(op) else [op]
    return found


def _ancestor(op: AnyOp, block: ir.Block) -> AnyOp:
    """Return the operation of `block` that is, or holds, `op`."""
    while op.operation.block != block:
        op = op.operation.block.owner.operation
    return op


def _mark_running(dot: AnyOp, rings: list[PipelinePlan]) -> None:
    """Mark a product that accumulates into itself: its iteration need not wait for it."""
    if not accumulates(dot):
        return
    loads = [source_load(operand) for operand in list(dot.operands)[:2]]
    mine = [ring for ring in rings if any(in_a_ring(load, [ring]) for load in loads)]
    if (
        len(mine) == 1
        and set(mine[0].loads) == set(loads)
        and mine[0].block == dot.operation.block
        and mine[0].last == dot
    ):
        mine[0].running = dot


def accumulates(dot: AnyOp) -> bool:
    """Return whether a product's accumulator is carried by its loop and not read by any other operation there."""
    if len(dot.operands) < 3:
        return False
    block, acc = dot.operation.block, dot.operands[2]
    loop = block.owner.operation
    if loop.name != "scf.for" or not isinstance(acc.owner, ir.Block) or acc.owner != block:
        return False
    number = ir.BlockArgument(acc).arg_number - 1
    uses = [(use.owner.operation.name, use.operand_number) for use in dot.results[0].uses]
    return number >= 0 and uses == [("scf.yield", number)] and len(list(acc.uses)) == 1


def find_deferred(block: ir.Block, rings: list[PipelinePlan]) -> DeferredPlan | None:
    """Return the last operation of a kernel's `block`, if it is a store of 16-bit results that may be deferred.

    Exponentials and divisions between the two have no registers for what else is kept there.  All groups have equally
    many iterations: a short loop could not store what a long one has left.
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
    stored = store.operands[1]
    fits = len(shape_of(stored)) >= _AXES and width(element_of(stored)) == _STORED_BITS
    return DeferredPlan(store, loop) if fits else None


def _same_for_all(value: ir.Value) -> bool:
    """Return whether a number is made of extents and constants alone."""
    if isinstance(value.owner, ir.Block):
        return False
    op = value.owner.operation
    if op.name in ("tessera.dim", "arith.constant"):
        return True
    return op.name.startswith("arith.") and all(_same_for_all(operand) for operand in op.operands)
