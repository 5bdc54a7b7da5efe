"""How long a loop takes, as far as its bounds tell: short ones need not look at the cancel flag."""

from collections.abc import Sequence
from typing import Final

from tessera.lowering.analysis.divergence import DivergenceAnalysis
from tessera.lowering.analysis.ir_tree import Node

_FEW: Final = 1 << 14
"""Operations that take some microseconds."""
_FEW_TRIPS: Final = 1 << 10
"""Trips of all loops of one group: fewer take less than a second, even of large tiles."""


def is_short(loop: Node, shapes: DivergenceAnalysis) -> bool:
    """Return whether all iterations of an `scf.for` together run only a few operations."""
    operations = work(loop, shapes)
    return operations is not None and operations < _FEW


def is_bounded(nodes: Sequence[Node], shapes: DivergenceAnalysis) -> bool:
    """Return whether a group is short for all arguments, so that its launch may run in the calling thread.

    False where arguments decide how long a loop is, and where constant loops make many trips: those launches go to
    threads, which an interrupt can end.
    """
    counts = [_trips(node, shapes) for node in nodes]
    trips = [count for count in counts if count is not None]
    return len(trips) == len(counts) and sum(trips) <= _FEW_TRIPS


def _trips(node: Node, shapes: DivergenceAnalysis) -> int | None:
    """Return the trips of all loops when `node` runs once; None where its arguments decide."""
    if node.name == "scf.while":
        return None
    inner = [_trips(other, shapes) for block in node.blocks for other in block.nodes]
    trips = [count for count in inner if count is not None]
    if len(trips) < len(inner):
        return None
    if node.name != "scf.for":
        return sum(trips)
    length = _length(node, shapes)
    return None if length is None else length * max(1, sum(trips))


def _length(loop: Node, shapes: DivergenceAnalysis) -> int | None:
    lower, upper, step = (shapes.of(v).known for v in loop.operands[:3])
    if lower is None or upper is None or step is None:
        return None
    return max(0, -(-(upper - lower) // step))


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
    length = _length(node, shapes)
    return None if length is None else length * total
