"""Give tiles in memory their buffers for as long as they live, and find accumulations that can be done in place."""

from dataclasses import dataclass, field

from tessera.core.mlir import AnyOp, ir
from tessera.lowering.analysis.aliasing import same_window
from tessera.lowering.analysis.ir_tree import Node
from tessera.lowering.cuda.simt.analyses import KernelAnalyses
from tessera.lowering.cuda.simt.tile_values import Buffer


@dataclass
class BufferLifetimes:
    """Answer for one function; call `done` after each operation to learn which buffers it was the last to need.

    buffers: the buffers of carried tiles, by block argument, in which an accumulation may be computed in place
    in_place: the results that are computed there
    """

    facts: KernelAnalyses
    buffers: dict[ir.Value, Buffer] = field(default_factory=dict[ir.Value, Buffer])
    in_place: set[ir.Value] = field(default_factory=set[ir.Value])
    _ending: dict[AnyOp, list[Buffer]] = field(default_factory=dict[AnyOp, list[Buffer]])

    def uses(self, value: ir.Value) -> int:
        """Return the number of uses of `value`."""
        return len(list(value.uses))

    def free_after(self, value: ir.Value, buffer: Buffer) -> None:
        """Free `buffer` after the last operation that needs `value`."""
        self._ending.setdefault(self.facts.liveness.last_use(value).op, []).append(buffer)

    def done(self, op: AnyOp) -> list[Buffer]:
        """Return the buffers that nothing needs after `op`."""
        return self._ending.pop(op.operation, [])

    def home(self, op: AnyOp) -> Buffer | None:
        """Return the buffer in which an accumulation that only replaces its carried tile can be in place, or None."""
        acc = op.operands[2] if len(op.operands) > 2 else None
        buffer = self.buffers.get(acc) if acc is not None else None
        uses = list(op.results[0].uses)
        if buffer is None or acc is None or len(uses) != 1 or self.uses(acc) != 1:
            return None
        last, number = uses[0].owner.operation, uses[0].operand_number
        block = ir.BlockArgument(acc).owner
        carried = list(block.arguments)[1:]
        together = last.name == "scf.yield" and last.block == op.operation.block == block
        if not together or number >= len(carried) or carried[number] != acc:
            return None
        self.in_place.add(op.results[0])
        return buffer

    def overwritten(self, load: AnyOp) -> bool:
        """Return whether the memory that `load` reads may be written before the last use of what is derived from it."""
        liveness, memory = self.facts.liveness, self.facts.memory.class_of(load.operands[0])

        def in_place(store: Node) -> bool:
            return store.name == "tessera.store" and self._is_in_place(load, store.op)

        return liveness.is_overwritten(liveness.node(load), self.facts.writes.get(memory, ()), in_place)

    def _is_in_place(self, load: AnyOp, store: AnyOp) -> bool:
        """Return whether `store` replaces what `load` read element by element, each lane reading before it writes."""
        users = self.facts.liveness.users(load.results[0])
        moved = any(user.name in ("tessera.broadcast", "tessera.transpose") for user in users)
        return store.operands[0] == load.operands[0] and same_window(load, store) and not moved
