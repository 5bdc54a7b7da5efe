"""The analyses that lane kernels are lowered by."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tessera.core.mlir import AnyOp
from tessera.lowering.analysis.aliasing import MemoryClasses
from tessera.lowering.analysis.divergence import DivergenceAnalysis
from tessera.lowering.analysis.ir_tree import IrTree, Node, is_tile, read_function
from tessera.lowering.analysis.liveness import Liveness
from tessera.lowering.analysis.memory_accesses import WRITES, group_of

_IN_MEMORY: Final = frozenset(("tessera.reduce", "tessera.dot", "tessera.load", "tessera.gather"))


@dataclass(frozen=True, slots=True)
class KernelAnalyses:
    """How values and operations differ between lanes, which memories may be the same, and how long values live.

    writes: the positions, as `liveness` numbers operations, of the writes to each class of memories
    """

    divergence: DivergenceAnalysis
    memory: MemoryClasses
    liveness: Liveness
    writes: Mapping[int, Sequence[int]]


def analyse(function: AnyOp) -> KernelAnalyses:
    """Analyse a `func.func` of Tile IR: a tile made of lanes' values, or by some lanes alone, is each lane's own."""
    tree, memory = read_function(function), MemoryClasses(function)
    divergence = DivergenceAnalysis(tree, group_of(function), lane_tiles=True)
    liveness = Liveness(tree, _is_recomputed)
    return KernelAnalyses(divergence, memory, liveness, _writes(tree, memory, liveness))


def _is_recomputed(node: Node) -> bool:
    """Return whether a tile is computed where it is used, unless it turns out to be cheaper to keep."""
    return node.name not in _IN_MEMORY and not node.blocks and any(map(is_tile, node.results))


def _writes(tree: IrTree, memory: MemoryClasses, liveness: Liveness) -> dict[int, list[int]]:
    """Return the positions of the writes to each class of memories."""
    found: dict[int, list[Node]] = {}
    for node in (inner for outer in tree.nodes for inner in outer.walk()):
        if node.name in WRITES:
            found.setdefault(memory.class_of(node.operands[WRITES[node.name]]), []).append(node)
    return {number: liveness.positions(nodes) for number, nodes in found.items()}
