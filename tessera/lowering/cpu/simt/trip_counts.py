"""How long a loop takes, as far as its bounds tell: short ones need not look at the cancel flag."""

from typing import Final

from tessera.lowering.analysis.divergence import DivergenceAnalysis
from tessera.lowering.analysis.ir_tree import Node

_FEW: Final = 1 << 14
"""Operations that take some microseconds."""


def is_short(loop: Node, shapes: DivergenceAnalysis) -> bool:
    """Return whether all iterations of an `scf.for` together run only a few operations."""
    operations = work(loop, shapes)
    return operations is not None and operations < _FEW


def work(node: Node, shapes: DivergenceAnalysis) -> int | None:
    """Operations that run, at most, when `node` does once; None when its length is not known.  A tile is many."""
    if node.name == "scf.while" or node.has_tiles:
        return None
    parts = [work(inner, shapes) for block in node.blocks for inner in block.nodes]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    total = 1 + sum(known)
    if node.name != "scf.for":
        return total
    lower, upper, step = (shapes.of(v).known for v in node.operands[:3])
    if lower is None or upper is None or step is None:
        return None
    return max(0, -(-(upper - lower) // step)) * total
