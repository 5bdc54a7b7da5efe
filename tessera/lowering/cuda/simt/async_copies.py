"""Decide which asynchronous copies a barrier has to wait for, and leave the others in flight.

A copy is complete after the next barrier, but that can be observed only by code that touches the buffer, or writes to
the copy's source.  Each `tessera.copy` is one `cp.async` group, and a barrier leaves the newest groups in flight as
long as nothing before the next barrier of the same block does either.  Where the next barrier is elsewhere (in the
next iteration, after a branch), everything is waited for.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from tessera.core.mlir import AnyOp, ir
from tessera.lowering.analysis.memory_accesses import READS, WRITES
from tessera.lowering.base.ir_walk import walk
from tessera.lowering.cuda.base.index_builder import IndexBuilder
from tessera.lowering.cuda.simt.analyses import KernelAnalyses

_BARRIER: Final = "tessera.barrier"
_COPY: Final = "tessera.copy"


@dataclass(frozen=True, slots=True)
class _Group:
    """Record one copy: the block of code that contains it, and the classes of the memories it writes and reads."""

    block: ir.Block
    filled: int
    source: int


@dataclass
class PendingCopies:
    """Track the groups that were started, oldest first.

    Any barrier waits for groups that were removed here, as the hardware counts from the newest.
    """

    build: IndexBuilder
    facts: KernelAnalyses
    _groups: list[_Group] = field(default_factory=list[_Group])

    def started(self, op: AnyOp) -> None:
        """Commit the group of a `tessera.copy` that was just emitted."""
        self.build.create("nvvm.cp.async.commit.group")
        filled, source = (self.facts.memory.class_of(op.operands[table[_COPY]]) for table in (WRITES, READS))
        self._groups.append(_Group(op.operation.block, filled, source))

    def land(self, op: AnyOp) -> None:
        """Wait for the groups that the lanes may observe after the `tessera.barrier`."""
        touched = self._touched(op)
        staying: list[_Group] = []
        while touched is not None and self._groups:
            group = self._groups[-1]
            reads, writes = touched
            if group.block != op.operation.block or group.filled in reads | writes or group.source in writes:
                break
            staying.insert(0, self._groups.pop())
        self._groups = staying
        self.build.create("nvvm.cp.async.wait.group", attributes={"n": f"{len(staying)} : i32"})

    def _touched(self, op: AnyOp) -> tuple[set[int], set[int]] | None:
        """Return the memory classes read and written before the block's next barrier; None if that is elsewhere."""
        found: tuple[set[int], set[int]] = set(), set()
        for following in _after(op):
            if following.name == _BARRIER:
                return found
            inner = [following, *(o for region in following.regions for block in region.blocks for o in walk(block))]
            if any(o.name == _BARRIER for o in inner):
                return None
            for one in inner:
                for table, classes in zip((READS, WRITES), found, strict=True):
                    if one.name in table:
                        classes.add(self.facts.memory.class_of(one.operands[table[one.name]]))
        return None


def _after(op: AnyOp) -> Iterator[ir.Operation]:
    """Yield the operations after `op` in its block."""
    found = False
    for view in op.operation.block.operations:
        if found:
            yield view.operation
        found = found or view.operation == op
