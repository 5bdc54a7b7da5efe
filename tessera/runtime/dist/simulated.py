"""Simulated ranks: real values at small sizes, or shapes alone at any, and a virtual clock that a cost model moves.

Each rank has a clock for its tasks and one for its transfers, so that what overlaps on a device overlaps here.  Nothing
sleeps: 72 ranks cost what their Python does.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tessera.core.base.dtypes import DType
from tessera.core.placement.topology import CollectiveCost, Topology, topology_of
from tessera.runtime.dist.engine import PATIENCE, Buffer, Exchange, Move, Pending, Stats, Task


@dataclass(frozen=True, slots=True)
class Span:
    """An entry of a timeline: a task or a collective of some ranks, in virtual seconds."""

    name: str
    ranks: tuple[int, ...]
    start: float
    end: float
    cost: CollectiveCost | None = None


@dataclass(frozen=True, slots=True)
class Declared:
    """A buffer without memory: a number of elements of a type, for costs of what is too large to hold."""

    elements: int
    dtype: np.dtype[np.generic]

    @property
    def shape(self) -> tuple[int]:
        """The extent."""
        return (self.elements,)

    @property
    def nbytes(self) -> int:
        """The bytes that it would have."""
        return self.elements * self.dtype.itemsize

    def __getitem__(self, part: slice) -> "Declared":
        return Declared(len(range(*part.indices(self.elements))), self.dtype)


def fold_nothing(*_: object) -> None:
    """Fold what has no memory."""


class Simulated:
    """Values, and the virtual time at which they are there."""

    __slots__ = ("time", "values")

    def __init__(self, values: list[Buffer], time: float) -> None:
        self.values, self.time = values, time

    def result(self, timeout: float = PATIENCE) -> list[Buffer]:  # noqa: ARG002 - virtual time needs no wait
        """Return the values."""
        return self.values


class SimulatedEngine:
    """Ranks on a virtual clock.

    topology: what transfers cost; overhead: seconds that each launch takes a rank
    shapes_only: buffers are `Declared`; timeline: what was done, where `record` is set
    """

    name = "sim"
    shared_memory = False
    reads_peers = False

    def __init__(
        self, ranks: int, topology: Topology | None = None, *, overhead: float = 0.0, record: bool = False,
        shapes_only: bool = False,
    ) -> None:  # fmt: skip
        self.ranks = ranks
        self.topology = topology or topology_of(ranks)
        self.overhead = overhead
        self.record = record
        self.shapes_only = shapes_only
        self.timeline: list[Span] = []
        self._everybody = tuple(range(ranks))
        # When each rank is done with its tasks: `_lead`, and what it has beyond; `_beyond` is the most of these.
        self._lead = 0.0
        self._beyond = 0.0
        self._tasks = np.zeros(ranks)
        self._transfers = np.zeros(ranks)
        self._stats = Stats()

    @property
    def clock(self) -> float:
        """The virtual time at which everything is done."""
        return max(self._lead + self._beyond, float(self._transfers.max()))

    def busy(self, rank: int) -> tuple[float, float]:
        """Return until when a rank computes, and until when it communicates."""
        return float(self._tasks[rank]) + self._lead, float(self._transfers[rank])

    def start(self) -> None:
        """Do nothing: simulated ranks are always there."""

    def launch(
        self, task: Task | None, ranks: Sequence[int] | None = None, *, seconds: float = 0.0,
        after: Sequence[Pending] = (),
    ) -> Simulated:  # fmt: skip
        """See `RankEngine.launch`: the tasks run now, one after the other, and are over at a virtual time."""
        self._stats.launches += 1
        if ranks is None and not after:  # the usual launch moves one number, not a clock a rank
            begin = self._lead + self._beyond
            self._lead += seconds + self.overhead
            end = self._lead + self._beyond
            ranks = self._everybody
        else:
            ranks = self._everybody if ranks is None else tuple(ranks)
            mine = list(ranks)
            times = [each.time - self._lead for each in after if isinstance(each, Simulated)]
            tasks = np.maximum(self._tasks[mine], max(times, default=-np.inf))
            begin = float(tasks.max()) + self._lead
            self._tasks[mine] = tasks + seconds + self.overhead
            end = begin + seconds + self.overhead
            self._beyond = float(self._tasks.max())
        if self.record:
            self.timeline.append(Span("task", ranks, begin, end))
        return Simulated([] if task is None else list(map(task, ranks)), end)

    def transfer(self, exchange: Exchange, after: Sequence[Pending] = ()) -> Simulated:
        """See `RankEngine.transfer`: values stay where they are, and arrive when the cost model says so."""
        cost = self.topology.cost(exchange.collective, len(exchange.ranks), exchange.size)
        mine = list(exchange.ranks)
        times = [each.time for each in after if isinstance(each, Simulated)]
        if not after:  # what is sent was computed by the tasks before
            times.append(float(self._tasks[mine].max()) + self._lead)
        self._transfers[mine] = np.maximum(self._transfers[mine], max(times, default=-np.inf))
        begin = float(self._transfers[mine].max())
        self._transfers[mine] = begin + cost.seconds
        self._stats.note(exchange)
        self._stats.seconds += cost.seconds
        if self.record:
            self.timeline.append(Span(exchange.collective, exchange.ranks, begin, begin + cost.seconds, cost))
        return Simulated([_arrived(move) for move in exchange.moves], begin + cost.seconds)

    def meet(self, ranks: Sequence[int]) -> None:  # noqa: ARG002 - tasks are awaited where they are needed
        """See `RankEngine.meet`: nothing is under way that was not awaited."""

    def seen(self, rank: int, buffer: Buffer) -> Buffer:  # noqa: ARG002 - one process has one memory
        """Return the buffer."""
        return buffer

    def barrier(self, timeout: float = PATIENCE) -> None:  # noqa: ARG002 - simulated ranks are never late
        """Let all ranks wait for the last one."""
        self._transfers[:] = self._lead = self.clock
        self._tasks[:] = self._beyond = 0.0

    def cancel(self) -> None:
        """Do nothing: tasks have run when `launch` returns."""

    def stop(self) -> None:
        """Do nothing: simulated ranks hold nothing."""

    def stats(self) -> Stats:
        """Return what was done so far; the seconds are virtual ones of transfers."""
        return self._stats

    def empty(self, rank: int, elements: int, dtype: DType) -> Buffer:  # noqa: ARG002 - all is this process's memory
        """Allocate a NumPy array, or declare one."""
        return Declared(elements, dtype.numpy) if self.shapes_only else np.empty(elements, dtype.numpy)

    def part(self, buffer: Buffer, start: int, stop: int) -> Buffer:
        """Return a view."""
        return buffer[start:stop]

    def stream(self, rank: int) -> object:  # noqa: ARG002 - all run here
        """Return None."""
        return None

    def pieces(self, size: int) -> int:  # noqa: ARG002 - values are there at once
        """Return 1."""
        return 1

    def one_shot(self, size: int) -> bool:  # noqa: ARG002 - two steps are as good
        """Return False."""
        return False

    def fold_seconds(self, size: int) -> float:
        """Return what the memory of a device takes."""
        return size / (self.topology.domain.memory * 1e9)


def _arrived(move: Move) -> Buffer:
    """Return a moved value: copied where a place is given, else as it lies."""
    if move.into is None or isinstance(move.value, Declared):
        return move.value
    np.copyto(move.into, move.value)
    return move.into
