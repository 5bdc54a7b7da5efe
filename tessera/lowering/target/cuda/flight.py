"""Asynchronous copies in flight: which of them a barrier has to wait for.

A copy's bytes are promised after the next barrier, but nobody can tell whether they are there before something touches
the buffer.  Each `tessera.copy` is one group of `cp.async`, and a barrier leaves the newest groups in flight as far as
nothing up to the next barrier in the same block of code touches their buffers.  Where the next barrier is elsewhere (a
loop's next turn, after a branch), everything is waited for.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from tessera.lowering.target.cuda.build import Build
from tessera.lowering.target.cuda.uniformity import READS, WRITES, Uniformity, walk

_BARRIER: Final = "tessera.barrier"


@dataclass
class Flight:
    """The groups started so far, oldest first, each by the block of its copy and the class of its buffer.

    Groups that are forgotten here are waited for by any barrier: the hardware counts from the newest.
    """

    build: Build
    facts: Uniformity
    _groups: list[tuple[Any, int]] = field(default_factory=list[tuple[Any, int]])

    def started(self, op: Any) -> None:
        """The `tessera.copy` has been emitted: end its group."""
        self.build.create("nvvm.cp.async.commit.group")
        self._groups.append((op.block, self.facts.memory_class(op.operands[WRITES["tessera.copy"]])))

    def land(self, op: Any) -> None:
        """Wait for what a lane may touch after the `tessera.barrier`."""
        touched = self._touched(op)
        staying: list[tuple[Any, int]] = []
        while touched is not None and self._groups:
            block, memory = self._groups[-1]
            if block != op.block or memory in touched:
                break
            staying.insert(0, self._groups.pop())
        self._groups = staying
        self.build.create("nvvm.cp.async.wait.group", attributes={"n": f"{len(staying)} : i32"})

    def _touched(self, op: Any) -> set[int] | None:
        """Classes of the memory accessed up to the next barrier of the block; None where that is elsewhere."""
        touched: set[int] = set()
        for later in _after(op):
            if later.name == _BARRIER:
                return touched
            inner = [later, *(o for region in later.regions for block in region.blocks for o in walk(block))]
            if any(o.name == _BARRIER for o in inner):
                return None
            for one in inner:
                for table in (READS, WRITES):
                    if one.name in table:
                        touched.add(self.facts.memory_class(one.operands[table[one.name]]))
        return None


def _after(op: Any) -> Iterator[Any]:
    """The operations behind `op` in its block."""
    found = False
    for view in op.block.operations:
        if found:
            yield view.operation
        found = found or view.operation == op
