"""Answer questions about a kernel's operations and operands before code is emitted for them."""

from collections.abc import Iterator, Sequence
from typing import Final

from tessera.core.mlir import ir
from tessera.lowering.analysis.divergence import LANES, DivergenceAnalysis
from tessera.lowering.analysis.ir_tree import IrTree, Node, is_tile
from tessera.lowering.analysis.liveness import Liveness

_WRITES: Final = ("tessera.write", "tessera.store", "tessera.masked_store", "tessera.copy")
_READS: Final = ("tessera.read", "tessera.load", "tessera.gather", "tessera.copy")


class OperandFacts:
    """Answers questions about operations; each is worked out once.

    definitions: the operation that each value is a result of
    liveness: the operations that read each value
    """

    def __init__(self, body: IrTree, shapes: DivergenceAnalysis) -> None:
        self._shapes = shapes
        self._lanes: dict[Node, bool] = {}
        self._group: dict[Node, bool] = {}
        self.liveness = Liveness(body)
        inner = (node for outer in body.nodes for node in outer.walk())
        self.definitions = {result: node for node in inner for result in node.results}

    def lanes(self, node: Node) -> bool:
        """Return whether the operation, or one inside it, has to do with values that differ between lanes."""
        found = self._lanes.get(node)
        if found is None:
            found = self._lanes[node] = any(map(self._of_lanes, _leaves(node)))
        return found

    def _of_lanes(self, node: Node) -> bool:
        values = (*node.operands, *node.results)
        return any(not is_tile(v) and self._shapes.of(v).kind != "uniform" for v in values)

    def group(self, node: Node) -> bool:
        """Return whether the operation, or one inside it, is done by the group as a whole."""
        found = self._group.get(node)
        if found is None:
            found = self._group[node] = any(self.once(inner) for inner in node.walk())
        return found

    def once(self, node: Node) -> bool:
        """Return whether this very operation runs once a group: barriers, tiles, writes that no lane differs in."""
        if self.synchronizes(node) or node.has_tiles:
            return True
        return node.name in _WRITES and all(self._shapes.of(v).kind == "uniform" for v in node.operands)

    def synchronizes(self, node: Node) -> bool:
        """Return whether lanes of different warps wait for each other here."""
        return node.name == "tessera.barrier" or (
            node.name == "tessera.group_sync" and (node.number("size") or 0) > LANES
        )

    def writes(self, node: Node) -> bool:
        """Return whether the operation, or one inside it, writes memory."""
        return any(inner.name in _WRITES for inner in node.walk())

    def reads(self, node: Node) -> bool:
        """Return whether the operation, or one inside it, reads memory."""
        return any(inner.name in _READS for inner in node.walk())


def _leaves(node: Node) -> Iterator[Node]:
    """Yield the operation, everything inside it, and the terminators of its blocks."""
    for inner in node.walk():
        yield inner
        for block in inner.blocks:
            yield block.end


def touched(nodes: Sequence[Node]) -> Iterator[ir.Value]:
    """Yield every value that `nodes`, or what is inside them, use."""
    for node in nodes:
        for inner in _leaves(node):
            yield from inner.operands


def defined(nodes: Sequence[Node]) -> Iterator[ir.Value]:
    """Yield every value that `nodes`, or what is inside them, make."""
    for node in nodes:
        for inner in node.walk():
            yield from inner.results
            for block in inner.blocks:
                yield from block.arguments
