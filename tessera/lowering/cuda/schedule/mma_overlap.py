"""Which loops hold two products in a row, and where each of them may be issued; see `overlap`."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tessera.core.mlir import ir
from tessera.lowering.analysis.uniformity import walk
from tessera.lowering.cuda.schedule.multibuffer import PipelinePlan, in_a_ring, source_load


@dataclass(frozen=True, eq=False)
class OverlapPlan:
    """A loop whose product `second` is issued in the next round, where the sums of that round's `first` are read.

    load: the right factor of `second`; number: which of the carried values its sum is
    readers: the first and the last operation of the loop's body that compute with the sums of `first`
    ahead: operations that give `first`, itself the last of them, where they are done a round ahead; or none
    """

    loop: Any
    first: Any
    second: Any
    load: Any
    number: int
    readers: tuple[Any, Any]
    ahead: tuple[Any, ...] = ()


def find_overlaps(dots: list[Any], rings: list[PipelinePlan]) -> list[OverlapPlan]:
    """The loops that hold two products like those of attention; the first one is done ahead."""
    found = (_overlap(second, dots, rings) for second in dots)
    return [plan for plan in found if plan is not None]


def _overlap(second: Any, dots: list[Any], rings: list[PipelinePlan]) -> OverlapPlan | None:
    block = second.block
    loop = block.owner.operation
    mine = [dot for dot in dots if dot.block == block]
    if loop.name != "scf.for" or len(mine) != 2 or mine[1] != second or len(second.operands) < 3:
        return None
    first, load = mine[0], source_load(second.operands[1])
    ring = next((r for r in rings if len(r.loads) == 1 and in_a_ring(load, [r])), None)
    number = _only_carried(second.results[0])
    copied = [source_load(v) for v in first.operands]
    if ring is None or ring.block != block or ring.last != second or number is None or len(first.operands) != 2:
        return None
    if source_load(second.operands[0]) is not None or any(not in_a_ring(one, rings) for one in copied):
        return None
    readers, sums = list(_readers(first)), block.arguments[1 + number]
    # Where the sums are read, the product is waited for, and its buffers are freed.
    if not readers or not list(sums.uses) or _uses_before(block, sums, readers[0]):
        return None
    ahead = tuple(_sources(first))
    if any(ring.last != first for ring in rings if any(one in ahead for one in ring.loads)):
        ahead = ()  # somebody else reads these bytes later
    return OverlapPlan(loop, first, second, load, number, (readers[0], readers[-1]), ahead)


def _only_carried(value: Any) -> int | None:
    """Which carried value of its loop `value` becomes, if it has no other use."""
    uses = [(use.owner.operation.name, use.operand_number) for use in value.uses]
    return uses[0][1] if len(uses) == 1 and uses[0][0] == "scf.yield" else None


def _readers(first: Any) -> Iterator[Any]:
    """The operations of the body that read the sums of `first`, in order; not branches that mask some of them.

    What such a branch gives lies in the same registers, so its readers count.
    """
    kind = first.results[0].type
    sums = [first.results[0]]
    for view in first.block.operations:
        op = view.operation
        if not _reads(op, sums):
            continue
        if op.name == "scf.if" and list(op.results) and all(result.type == kind for result in op.results):
            sums += list(op.results)
        else:
            yield op


def _uses_before(block: Any, value: Any, stop: Any) -> bool:
    """Whether an operation of `block` in front of `stop` reads a value."""
    for view in block.operations:
        if view.operation == stop:
            return False
        if _reads(view.operation, [value]):
            return True
    return False


def _reads(op: Any, values: list[Any]) -> bool:
    """Whether an operation, or one inside it, reads any of some values."""
    inner = [one for region in op.regions for block in region.blocks for one in walk(block)]
    return any(operand in values for one in (op, *inner) for operand in one.operands)


def _sources(product: Any) -> Iterator[Any]:
    """The operations of a product's block that give its factors, and the product: in order."""
    found = [product]
    values = list(product.operands)[:2]
    while values:
        owner = values.pop().owner
        if not isinstance(owner, ir.Block) and owner.operation.block == product.block:
            found.append(owner.operation)
            values += list(owner.operation.operands)[:1] if owner.operation.name == "tessera.transpose" else []
    return (view.operation for view in product.block.operations if view.operation in found)
