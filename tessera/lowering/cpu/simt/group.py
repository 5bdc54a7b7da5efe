"""One group: what is uniform runs once as scalar code, what differs between lanes runs in stretches of lane code.

Operations keep their order in every lane: before the group does something that memory can tell apart, the lane code
that is pending is emitted.  Control flow around a barrier is the group's own: it goes on while any lane does.
"""

from collections.abc import Callable

from tessera.core.mlir import ir
from tessera.lowering.analysis.divergence import elementwise
from tessera.lowering.analysis.ir_tree import IrTree, Node
from tessera.lowering.base.emit import Emitter, required
from tessera.lowering.cpu.base.cache_model import CacheModel
from tessera.lowering.cpu.base.emit_context import ArrayRef
from tessera.lowering.cpu.simt.divergent_control import DivergentControl
from tessera.lowering.cpu.simt.lane_context import LaneContext
from tessera.lowering.cpu.simt.masked_control import MaskedControl
from tessera.lowering.cpu.simt.operand_facts import OperandFacts, touched
from tessera.lowering.cpu.simt.parallel_regions import ParallelRegions
from tessera.lowering.cpu.simt.uniform_control import UniformControl
from tessera.lowering.cpu.simt.vectors import ALL, Scalar
from tessera.lowering.cpu.tile.lowering import TileLowering


class GroupTiles:
    """The group as tile lowering sees it: a `TileContext`."""

    def __init__(self, code: LaneContext) -> None:
        self._code = code

    @property
    def emitter(self) -> Emitter:
        """Return the emitter."""
        return self._code.emit

    def scalar(self, value: ir.Value) -> ir.Value:
        """Return the target scalar of a uniform Tile IR scalar."""
        return self._code.from_bits(self._code.scalar(value), value.type)

    def array(self, value: ir.Value) -> ArrayRef:
        """Return the array or shared buffer behind a Tile IR memref."""
        return self._code.array(value)

    def scratch(self, size: int, align: int = 64) -> ir.Value:
        """Address of `size` bytes at a fixed place of the thread's scratch memory."""
        return self._code.kernel.scratch(size, align)

    def set_scalar(self, value: ir.Value, scalar: ir.Value) -> None:
        """Define a rank-0 result of a tile operation."""
        self._code.define(value, Scalar(self._code.to_bits(scalar)))


class Group:
    """Emits the body of a kernel for one group."""

    def __init__(self, code: LaneContext, facts: OperandFacts, machine: CacheModel) -> None:
        self._code = code
        self._facts = facts
        self._control = MaskedControl(code)
        self._parallel_regions = ParallelRegions(code, self._control, facts)
        self._tiles = TileLowering(GroupTiles(code), machine)
        parts = (code, self._control, self._parallel_regions, self._tiles, self.block)
        self._uniform_regions, self._divergent_regions = UniformControl(*parts), DivergentControl(*parts)

    def body(self, block: IrTree) -> None:
        """Emit a whole kernel."""
        self.block(block)
        self._parallel_regions.flush()

    def block(self, block: IrTree) -> None:
        """Emit the operations of one block but its terminator; lane code at its end is left pending."""
        for node in block.nodes:
            with self._code.emit.located(node.location):
                self._node(node)

    def _node(self, node: Node) -> None:
        if node.name == "tessera.alloc":
            return
        if not node.blocks and node.has_tiles:
            self._parallel_regions.flush()
            self._once(node, lambda: self._tiles.lower(node.op))
        elif self._facts.synchronizes(node):
            self._parallel_regions.flush()
        elif not self._facts.lanes(node):
            self._uniform(node)
        elif self._facts.group(node):
            self._parallel_regions.flush()
            self._region(node)
        else:
            self._parallel_regions.pending.append(node)

    def _uniform(self, node: Node) -> None:
        """Scalar code, once a group."""
        if self._waits(node):
            self._parallel_regions.flush()
        if node.blocks:
            self._region(node)
        else:
            self._once(node, lambda: self._control.node(node, ALL))

    def _waits(self, node: Node) -> bool:
        """Return whether `node` depends on pending lane code: on a result of it, or through memory."""
        pending = self._parallel_regions.pending
        if not pending:
            return False
        made = {result for other in pending for result in other.results}
        if self._facts.group(node) or any(value in made for value in touched([node])):
            return True
        return self._facts.reads(node) and any(self._facts.writes(other) for other in pending)

    def _once(self, node: Node, emit: Callable[[], None]) -> None:
        """Emit an effect of the whole launch in its first piece only, where it is cut into pieces."""
        code = self._code
        if code.group is not None or code.position.lanes is None or not self._facts.writes(node):
            emit()
            return
        if self._parallel_regions.region is not None:
            emit()
            return

        def inside() -> list[ir.Value]:
            with code.scope():
                emit()
            return []

        first = code.vectors.compare("eq", required(code.position.group), code.vectors.constant(0, "i64"))
        code.kernel.flow.branch(first, inside)

    def _region(self, node: Node) -> None:
        """Control flow that the group as a whole takes part in."""
        code = self._code
        count = {"scf.if": 1, "scf.for": 3}.get(node.name)
        values = node.blocks[0].end.operands[:1] if count is None else node.operands[:count]
        uniform = elementwise([code.shape(v) for v in values]).kind == "uniform"
        (self._uniform_regions if uniform else self._divergent_regions).emit(node)
