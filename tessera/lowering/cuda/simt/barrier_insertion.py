"""Where the GPU needs a barrier that the user did not write.

Lanes of one group order their own accesses with barriers the user writes: that is their program.  But a statement that
runs once for the group (a uniform write, a tile operation) is spread over lanes, or given to lane 0, by the compiler,
which must keep the program's order.  `BarrierInsertion` remembers who touched which memory since the last barrier and
asks for one before two accesses of which at least one writes and at least one belongs to the group.

Agents: "lane" (each lane for itself), "leader" (lane 0 alone, for the group), "group" (all lanes together).
"""

from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

LANE = "lane"
LEADER = "leader"
GROUP = "group"


@dataclass
class BarrierInsertion:
    """Accesses since the last barrier, by memory class; `barrier` emits one.

    Off (nothing is recorded) where the group cannot synchronise: `enabled` is False for kernels whose one group is
    the whole launch, and `suspended` under divergent control.
    """

    barrier: Callable[[], None]
    enabled: bool = True
    _reads: dict[int, set[str]] = field(default_factory=dict[int, set[str]])
    _writes: dict[int, set[str]] = field(default_factory=dict[int, set[str]])

    def access(self, agent: str, reads: Collection[int] = (), writes: Collection[int] = ()) -> None:
        """Announce accesses that come next: emits a barrier before them where one is needed."""
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
        """Memory of these classes is about to serve another purpose: all accesses to it must be over."""
        if self.enabled and any(self._reads.get(n) or self._writes.get(n) for n in numbers):
            self.barrier()
            self.clear()

    def settle(self) -> None:
        """End of the body of a loop in which the group acts: a barrier, unless memory was not touched at all."""
        if self.enabled and (self._reads or self._writes):
            self.barrier()
            self.clear()

    def clear(self) -> None:
        """A barrier was emitted."""
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

    def snapshot(self) -> tuple[dict[int, set[str]], dict[int, set[str]]]:
        """What was recorded, to be restored before the other branch of an `if`."""
        return _copy(self._reads), _copy(self._writes)

    def restore(self, state: tuple[dict[int, set[str]], dict[int, set[str]]]) -> None:
        """Go back to a snapshot."""
        self._reads, self._writes = _copy(state[0]), _copy(state[1])

    def join(self, state: tuple[dict[int, set[str]], dict[int, set[str]]]) -> None:
        """Add what another branch, or a loop that may not run, recorded."""
        for mine, other in zip((self._reads, self._writes), state, strict=True):
            for number, agents in other.items():
                mine.setdefault(number, set()).update(agents)


def _conflict(agent: str, others: Collection[str]) -> bool:
    """Whether an access by `agent` must wait for those of `others` (one of the two writes)."""
    return any(not (agent == other and agent in (LANE, LEADER)) for other in others)


def _copy(table: dict[int, set[str]]) -> dict[int, set[str]]:
    return {number: set(agents) for number, agents in table.items()}
