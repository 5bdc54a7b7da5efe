"""The protocol of engines: what runs the ranks of a mesh, simulated, as threads, or on GPUs.

Each rank has an order of tasks of its own, as a stream of a GPU has; `launch` adds one to each and does not wait.  A
transfer only moves bits, and its values are there for tasks that are launched `after` it.  All is driven by the calling
thread: an interrupt of it cancels what was launched.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, runtime_checkable

from tessera.core.base.dtypes import DType
from tessera.core.placement.topology import Collective

Buffer: TypeAlias = Any  # an array of one axis in some rank's memory: of NumPy, or a DeviceArray
Task = Callable[[int], object]
"""What one rank does; it is given the rank's number."""

PATIENCE: float = 300.0
"""Seconds that a wait for ranks lasts before it names those that are missing: kernels may have to be compiled."""


@dataclass(frozen=True, slots=True)
class Move:
    """Elements that one rank sends another.

    into: where they go in the target's memory; None: where the engine likes
    """

    source: int
    target: int
    value: Buffer
    into: Buffer | None = None


@dataclass(frozen=True, slots=True)
class Exchange:
    """Moves that make up one collective of `size` bytes among `ranks` (see `core.placement.topology.sent`).

    moves: none where only shapes are known
    """

    collective: Collective
    ranks: tuple[int, ...]
    size: float
    moves: tuple[Move, ...] = ()


class Pending(Protocol):
    """Tasks or moves that are under way."""

    def result(self, timeout: float = PATIENCE) -> list[Buffer]:
        """Wait, and return what each task returned, or each moved value in its target's memory, in order.

        Raises what a task raised, RanksMissing that names the ranks that are not done in time, and CollectiveStopped.
        """
        ...


@dataclass(slots=True)
class Stats:
    """Counts of an engine's work.

    sent: bytes, by rank; seconds: of transfers and tasks, by the engine's own clock; counts: by collective
    """

    launches: int = 0
    transfers: int = 0
    sent: dict[int, int] = field(default_factory=dict[int, int])
    counts: dict[str, int] = field(default_factory=dict[str, int])
    seconds: float = 0.0

    def note(self, exchange: Exchange) -> None:
        """Count an exchange."""
        self.transfers += 1
        self.counts[exchange.collective] = self.counts.get(exchange.collective, 0) + 1
        for move in exchange.moves:
            self.sent[move.source] = self.sent.get(move.source, 0) + int(move.value.nbytes)


@runtime_checkable
class ReducesByLibrary(Protocol):
    """An engine whose library has a reduction of its own, in an order that it chooses."""

    def library_all_reduce(self, ranks: tuple[int, ...], values: Sequence[Buffer], op: str) -> Sequence[Buffer] | None:
        """Return what every rank gets; None where the library does not have the operator or the elements' type."""
        ...


class RankEngine(Protocol):
    """An engine of `ranks` ranks, numbered from 0.

    shared_memory: every rank reads what any other holds, so that nothing has to be moved
    reads_peers: ranks have memories of their own, and kernels of each read and write those of all; once it is started
    """

    name: str
    ranks: int
    shared_memory: bool

    @property
    def reads_peers(self) -> bool:
        """See the class."""
        ...

    def start(self) -> None:
        """Make the ranks ready; nothing where they are."""
        ...

    def launch(
        self, task: Task | None, ranks: Sequence[int] | None = None, *, seconds: float = 0.0,
        after: Sequence[Pending] = (),
    ) -> Pending:  # fmt: skip
        """Let each of `ranks` (None: all) do `task`, after what it was given before and after `after`.

        task: None where only time passes; seconds: what the cost model says that each of them takes
        """
        ...

    def transfer(self, exchange: Exchange, after: Sequence[Pending] = ()) -> Pending:
        """Move bits: the result is the moved values, as their targets see them."""
        ...

    def meet(self, ranks: Sequence[int]) -> None:
        """Let what each of `ranks` is given from now on come after what all of them were given before."""
        ...

    def seen(self, rank: int, buffer: Buffer) -> Buffer:
        """Return a buffer of any rank as kernels of `rank` take it."""
        ...

    def barrier(self, timeout: float = PATIENCE) -> None:
        """Wait until every rank has done what it was given; in a task: until every rank has come here.

        Raises RanksMissing, which names those that are missing.
        """
        ...

    def cancel(self) -> None:
        """End all tasks, those that wait and, as soon as they look, those that run; the ranks stay usable."""
        ...

    def stats(self) -> Stats:
        """Return what was done so far."""
        ...

    def stop(self) -> None:
        """Give everything back."""
        ...

    def empty(self, rank: int, elements: int, dtype: DType) -> Buffer:
        """Allocate an array of one axis in a rank's memory."""
        ...

    def part(self, buffer: Buffer, start: int, stop: int) -> Buffer:
        """Return a part of an array without a copy."""
        ...

    def stream(self, rank: int) -> object:
        """Return where kernels of a rank are launched; None: by default, in the rank's own thread."""
        ...

    def pieces(self, size: int) -> int:
        """Return in how many pieces a collective of `size` bytes is done, so that transfers and folds overlap."""
        ...

    def one_shot(self, size: int) -> bool:
        """Return whether every rank folds all of `size` bytes itself: one step, more bytes."""
        ...

    def fold_seconds(self, size: int) -> float:
        """Return what the cost model says that a kernel takes which reads and writes `size` bytes; 0 without one."""
        ...


@dataclass(frozen=True, slots=True)
class Done:
    """Tasks or moves that are done already."""

    values: list[Buffer]

    def result(self, timeout: float = PATIENCE) -> list[Buffer]:  # noqa: ARG002 - there is nothing to wait for
        """Return the values."""
        return self.values
