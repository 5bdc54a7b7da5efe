"""Move tile operations in front of branches that only some lanes take.

`if i == 0: out[g] = reduce_sum(smem)` asks lane 0 alone for a sum that the whole group can compute together.  An
operation may move when it is uniform, has no effect but reading, and nothing before it in the branch writes what it
reads.
"""

from typing import Any

from tessera.lowering.analysis.uniformity import READS, WRITES, Uniformity, analyse, is_tile, walk

_PURE_DIALECTS = ("arith", "math", "tensor")
_PURE = frozenset(
    f"tessera.{name}"
    for name in ("load", "reduce", "dot", "broadcast", "reshape", "transpose", "arange", "id", "dim")
)  # fmt: skip
_SYNCHRONISING = frozenset(("tessera.barrier", "tessera.group_sync", "tessera.shuffle"))


def hoist_tiles(function: Any) -> Uniformity:
    """Move what can be moved; give the facts about the function as it is then."""
    facts = analyse(function)
    block = function.regions[0].blocks[0]
    branches = [op for op in walk(block) if op.name == "scf.if" and not facts.is_divergent(op)]
    for branch in branches:
        if not facts.varies(branch.operands[0]):
            continue
        for region in branch.regions:
            for inner in region.blocks:
                _hoist(facts, branch, inner)
    return analyse(function) if branches else facts


def _hoist(facts: Uniformity, branch: Any, block: Any) -> None:
    """Move operations of `block`, in order, in front of `branch`, if a tile is computed there at all."""
    operations = [view.operation for view in list(block.operations)[:-1]]
    if not any(is_tile(v.type) for op in operations for v in op.results):
        return
    written: set[int] = set()
    synchronised = False
    stuck: set[Any] = set()
    for op in operations:
        inner = [op, *(o for region in op.regions for b in region.blocks for o in walk(b))]
        free = not any(v in stuck for v in op.operands) and not any(
            facts.varies(v) for v in (*op.operands, *op.results)
        )
        if free and _is_pure(op) and not _reads(facts, op) & written and not (synchronised and _reads(facts, op)):
            op.move_before(branch)
            continue
        stuck.update(op.results)
        for one in inner:
            synchronised = synchronised or one.name in _SYNCHRONISING
            if one.name in WRITES:
                written.add(facts.memory_class(one.operands[WRITES[one.name]]))


def _is_pure(op: Any) -> bool:
    return not len(op.regions) and (op.name.partition(".")[0] in _PURE_DIALECTS or op.name in _PURE)


def _reads(facts: Uniformity, op: Any) -> set[int]:
    number = READS.get(op.name)
    return set() if number is None else {facts.memory_class(op.operands[number])}
