"""Insert the barriers that the GPU needs and the user did not write (membar analysis).

The lanes of a group order their own accesses by barriers in the program.  But a statement that runs once for the group
(a uniform write, a tile operation) is distributed over lanes, or given to lane 0, by the compiler, which must keep the
program's order.  `BarrierInsertion` records which agents accessed which memory since the last barrier, and emits one
between two accesses of which at least one writes and at least one belongs to the group.

Agents: "lane" (each lane for itself), "leader" (lane 0 alone, for the group), "group" (all lanes together).
"""

from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

LANE = "lane"
LEADER = "leader"
GROUP = "group"

Snapshot: TypeAlias = tuple[dict[int, set[str]], dict[int, set[str]]]
"""Who read and who wrote each memory class since the last barrier."""


@dataclass
class BarrierInsertion:
    """Record accesses since the last barrier, by memory class; `barrier` emits one.

    Nothing is recorded where the group cannot synchronize: `enabled` is False for kernels whose one group is the whole
    launch, and in divergent control flow recording is `suspended`.
    """

    barrier: Callable[[], None]
    enabled: bool = True
    _reads: dict[int, set[str]] = field(default_factory=dict[int, set[str]])
    _writes: dict[int, set[str]] = field(default_factory=dict[int, set[str]])

    def access(self, agent: str, reads: Collection[int] = (), writes: Collection[int] = ()) -> None:
        """Record accesses that come next, and emit a barrier before them if they need one."""
        if not self.enabled:
            return
        before_reads = any(_conflict(agent, self._writes.get(c, ())) for c in reads)
        before_writes = any(
            _conflict(agent, self._writes.get(c, ())) or _conflict(agent, self._reads.get(c, ())) for c in writes
        )
        if before_reads or before_writes:
            self.barrier()
            self.clear()
        for number in reads:
            self._reads.setdefault(number, set()).add(agent)
        for number in writes:
            self._writes.setdefault(number, set()).add(agent)

    def recycle(self, numbers: Collection[int]) -> None:
        """Emit a barrier if accesses to memory of these classes, which is about to be reused, may not be over."""
        if self.enabled and any(self._reads.get(n) or self._writes.get(n) for n in numbers):
            self.barrier()
            self.clear()

    def settle(self) -> None:
        """End the body of a loop in which the group acts: emit a barrier, unless no memory was accessed."""
        if self.enabled and (self._reads or self._writes):
            self.barrier()
            self.clear()

    def clear(self) -> None:
        """Forget all accesses, as a barrier was emitted."""
        self._reads.clear()
        self._writes.clear()

    @contextmanager
    def suspended(self) -> Generator[None]:
        """Record nothing and emit nothing inside the `with`."""
        before, self.enabled = self.enabled, False
        try:
            yield
        finally:
            self.enabled = before

    def snapshot(self) -> Snapshot:
        """Return what was recorded, to be restored before the other branch of an `if`."""
        return _copy(self._reads), _copy(self._writes)

    def restore(self, state: Snapshot) -> None:
        """Restore a snapshot."""
        self._reads, self._writes = _copy(state[0]), _copy(state[1])

    def join(self, state: Snapshot) -> None:
        """Add what another branch, or a loop that may not run, recorded."""
        for mine, other in zip((self._reads, self._writes), state, strict=True):
            for number, agents in other.items():
                mine.setdefault(number, set()).update(agents)


def _conflict(agent: str, others: Collection[str]) -> bool:
    """Return whether an access by `agent` must wait for those of `others`, where one of the two writes."""
    return any(not (agent == other and agent in (LANE, LEADER)) for other in others)


def _copy(table: dict[int, set[str]]) -> dict[int, set[str]]:
    return {number: set(agents) for number, agents in table.items()}
