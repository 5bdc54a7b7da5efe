"""Find loops with two dependent products, as attention has, and where each may be issued (`mma.overlapped_mma`)."""

from collections.abc import Iterator
from dataclasses import dataclass

from tessera.core.mlir import AnyOp, ir
from tessera.lowering.base.ir_walk import walk
from tessera.lowering.cuda.schedule.multibuffer import PipelinePlan, in_a_ring, source_load


@dataclass(frozen=True, eq=False)
class OverlapPlan:
    """Overlap a loop's products: `second` is issued in the next iteration, where that one's `first` is read.

    load: the B operand of `second`; number: which of the carried values its accumulator is
    readers: the first and the last operation of the loop's body that compute with the result of `first`
    ahead: operations that give `first`, itself the last of them, where they are issued an iteration ahead; or none
    """

    loop: AnyOp
    first: AnyOp
    second: AnyOp
    load: AnyOp
    number: int
    readers: tuple[AnyOp, AnyOp]
    prefetched: tuple[AnyOp, ...] = ()


def find_overlaps(dots: list[AnyOp], rings: list[PipelinePlan]) -> list[OverlapPlan]:
    """Return the loops that hold two products like those of attention; the first one is issued early."""
    found = (_overlap(second, dots, rings) for second in dots)
    return [plan for plan in found if plan is not None]


def _overlap(second: AnyOp, dots: list[AnyOp], rings: list[PipelinePlan]) -> OverlapPlan | None:
    block = second.operation.block
    loop = block.owner.operation
    mine = [dot for dot in dots if dot.operation.block == block]
    if loop.name != "scf.for" or len(mine) != 2 or mine[1] != second or len(second.operands) < 3:
        return None
    first, load = mine[0], source_load(second.operands[1])
    ring = next((r for r in rings if len(r.loads) == 1 and in_a_ring(load, [r])), None)
    number = _only_carried(second.results[0])
    copied = [source_load(v) for v in first.operands]
    if load is None or ring is None or number is None or len(first.operands) != 2:
        return None
    if ring.block != block or ring.last != second:
        return None
    if source_load(second.operands[0]) is not None or any(not in_a_ring(one, rings) for one in copied):
        return None
    readers, accumulators = list(_readers(first)), block.arguments[1 + number]
    # Where the accumulator is read, the product is waited for, and its buffers are freed.
    if not readers or not list(accumulators.uses) or _uses_before(block, accumulators, readers[0]):
        return None
    prefetched = tuple(_sources(first))
    if any(ring.last != first for ring in rings if any(one in prefetched for one in ring.loads)):
        prefetched = ()  # another operation reads these bytes later
    return OverlapPlan(loop, first, second, load, number, (readers[0], readers[-1]), prefetched)


def _only_carried(value: ir.Value) -> int | None:
    """Return the number of the carried value that `value` becomes, if it has no other use."""
    uses = [(use.owner.operation.name, use.operand_number) for use in value.uses]
    return uses[0][1] if len(uses) == 1 and uses[0][0] == "scf.yield" else None


def _readers(first: AnyOp) -> Iterator[AnyOp]:
    """Yield the operations of the body that read the accumulator of `first`, in order, except masking branches.

    The result of such a branch lies in the same registers, so its readers count.
    """
    kind = first.results[0].type
    accumulators: list[ir.Value] = [first.results[0]]
    for view in first.operation.block.operations:
        op = view.operation
        if not _reads(op, accumulators):
            continue
        if op.name == "scf.if" and list(op.results) and all(result.type == kind for result in op.results):
            accumulators += list(op.results)
        else:
            yield op


def _uses_before(block: ir.Block, value: ir.Value, stop: AnyOp) -> bool:
    """Return whether an operation of `block` in front of `stop` reads a value."""
    for view in block.operations:
        if view.operation == stop:
            return False
        if _reads(view.operation, [value]):
            return True
    return False


def _reads(op: AnyOp, values: list[ir.Value]) -> bool:
    """Return whether an operation, or one inside it, reads any of some values."""
    inner = [one for region in op.regions for block in region.blocks for one in walk(block)]
    return any(operand in values for one in (op, *inner) for operand in one.operands)


def _sources(product: AnyOp) -> Iterator[AnyOp]:
    """Return the operations of a product's block that make its operands, and the product, in order."""
    found = [product]
    values = list(product.operands)[:2]
    while values:
        owner = values.pop().owner
        if not isinstance(owner, ir.Block) and owner.operation.block == product.operation.block:
            found.append(owner.operation)
            values += list(owner.operation.operands)[:1] if owner.operation.name == "tessera.transpose" else []
    return (view.operation for view in product.operation.block.operations if view.operation in found)
