"""Asynchronous copies in flight: which of them a barrier has to wait for.

A copy's bytes are promised after the next barrier, but nobody can tell whether they are there before something touches
the buffer, or changes where they come from.  Each `tessera.copy` is one group of `cp.async`, and a barrier leaves the
newest groups in flight as far as nothing up to the next barrier in the same block of code does either.  Where the next
barrier is elsewhere (a loop's next turn, after a branch), everything is waited for.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from tessera.lowering.analysis.uniformity import READS, WRITES, Uniformity, walk
from tessera.lowering.cuda.base.index_builder import IndexBuilder

_BARRIER: Final = "tessera.barrier"
_COPY: Final = "tessera.copy"


@dataclass(frozen=True, slots=True)
class _Group:
    """One copy: the block of code it stands in, and the classes of the memories it fills and reads."""

    block: Any
    filled: int
    source: int


@dataclass
class PendingCopies:
    """The groups started so far, oldest first.

    Groups that are forgotten here are waited for by any barrier: the hardware counts from the newest.
    """

    build: IndexBuilder
    facts: Uniformity
    _groups: list[_Group] = field(default_factory=list[_Group])

    def started(self, op: Any) -> None:
        """The `tessera.copy` has been emitted: end its group."""
        self.build.create("nvvm.cp.async.commit.group")
        filled, source = (self.facts.memory_class(op.operands[table[_COPY]]) for table in (WRITES, READS))
        self._groups.append(_Group(op.block, filled, source))

    def land(self, op: Any) -> None:
        """Wait for what the lanes may notice after the `tessera.barrier`."""
        touched = self._touched(op)
        staying: list[_Group] = []
        while touched is not None and self._groups:
            group = self._groups[-1]
            reads, writes = touched
            if group.block != op.block or group.filled in reads | writes or group.source in writes:
                break
            staying.insert(0, self._groups.pop())
        self._groups = staying
        self.build.create("nvvm.cp.async.wait.group", attributes={"n": f"{len(staying)} : i32"})

    def _touched(self, op: Any) -> tuple[set[int], set[int]] | None:
        """Classes of memory read and written up to the next barrier of the block; None where that is elsewhere."""
        found: tuple[set[int], set[int]] = set(), set()
        for later in _after(op):
            if later.name == _BARRIER:
                return found
            inner = [later, *(o for region in later.regions for block in region.blocks for o in walk(block))]
            if any(o.name == _BARRIER for o in inner):
                return None
            for one in inner:
                for table, classes in zip((READS, WRITES), found, strict=True):
                    if one.name in table:
                        classes.add(self.facts.memory_class(one.operands[table[one.name]]))
        return None


def _after(op: Any) -> Iterator[Any]:
    """The operations behind `op` in its block."""
    found = False
    for view in op.block.operations:
        if found:
            yield view.operation
        found = found or view.operation == op
