"""Hoist tile operations out of branches that only some lanes take.

`if i == 0: out[g] = reduce_sum(smem)` has lane 0 alone compute a sum that the whole group can compute together.  An
operation may move if it is uniform, does not write memory, and nothing before it in the branch writes what it reads.
"""

from tessera.core.mlir import AnyOp, ir
from tessera.lowering.analysis.memory_accesses import READS, WRITES
from tessera.lowering.base.ir_walk import is_tile, walk
from tessera.lowering.cuda.simt.analyses import KernelAnalyses, analyse

_PURE_DIALECTS = ("arith", "math", "tensor")
_PURE = frozenset(
    f"tessera.{name}"
    for name in ("load", "gather", "reduce", "dot", "broadcast", "reshape", "transpose", "arange", "id", "dim")
)  # fmt: skip
_SYNCHRONISING = frozenset(("tessera.barrier", "tessera.group_sync", "tessera.shuffle"))


def hoist_tiles(function: AnyOp) -> None:
    """Hoist what can be hoisted."""
    facts = analyse(function)
    block = function.regions[0].blocks[0]
    branches = [op for op in walk(block) if op.name == "scf.if" and not facts.divergence.is_divergent(op)]
    for branch in branches:
        if not facts.divergence.varies(branch.operands[0]):
            continue
        for region in branch.regions:
            for inner in region.blocks:
                _hoist(facts, branch, inner)


def _hoist(facts: KernelAnalyses, branch: AnyOp, block: ir.Block) -> None:
    """Move operations of `block`, in order, before `branch`, if `block` computes a tile at all."""
    operations = [view.operation for view in list(block.operations)[:-1]]
    if not any(is_tile(v.type) for op in operations for v in op.results):
        return
    written: set[int] = set()
    synchronised = False
    stuck: set[ir.Value] = set()
    for op in operations:
        inner = [op, *(o for region in op.regions for b in region.blocks for o in walk(b))]
        free = not any(v in stuck for v in op.operands) and not any(
            facts.divergence.varies(v) for v in (*op.operands, *op.results)
        )
        if free and _is_pure(op) and not _reads(facts, op) & written and not (synchronised and _reads(facts, op)):
            op.move_before(branch)
            continue
        stuck.update(op.results)
        for one in inner:
            synchronised = synchronised or one.name in _SYNCHRONISING
            if one.name in WRITES:
                written.add(facts.memory.class_of(one.operands[WRITES[one.name]]))


def _is_pure(op: AnyOp) -> bool:
    return not len(op.regions) and (op.name.partition(".")[0] in _PURE_DIALECTS or op.name in _PURE)


def _reads(facts: KernelAnalyses, op: AnyOp) -> set[int]:
    number = READS.get(op.name)
    return set() if number is None else {facts.memory.class_of(op.operands[number])}
