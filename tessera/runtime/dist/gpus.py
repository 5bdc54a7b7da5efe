"""Ranks on the GPUs of this host, all driven by this process: NCCL or copies move bits, kernels fold them.

Where GPUs may read each other's memory, kernels fold straight from it and write every rank's result: one kernel a GPU
is a whole reduction.  Else each GPU has two streams, one for kernels and one for transfers, so that the pieces of a
large reduction are folded while the next ones are on their way.  Pure movement is copies into peers' memory where it
is little, and NCCL's where it is much.  Nothing waits on the host but `barrier`; order is kept by events.
"""

import time
from collections.abc import Callable, Sequence
from typing import Final

from tessera.core.base.dtypes import DType
from tessera.core.base.interrupts import LOOK, raise_if_stopped
from tessera.runtime.dist.engine import PATIENCE, Buffer, Exchange, Move, Pending, Stats, Task
from tessera.runtime.dist.nccl_library import Library, Nccl
from tessera.runtime.dist.rank_barrier import missing
from tessera.runtime.driver import driver as door
from tessera.runtime.driver.driver import Driver
from tessera.runtime.memory.owned import DeviceArray, PeerArray
from tessera.runtime.streams.streams import Stream

PEER_BYTES: Final = 4 << 20
"""Bytes of an exchange, of all its moves into one rank, up to which peers' memory is written by copies."""
ONE_SHOT_BYTES: Final = 64 << 10
"""Bytes up to which every GPU folds everything itself: no GPU then waits for what others write."""
PIECE_BYTES: Final = 32 << 20
_MOST_PIECES: Final = 8


class _Mark:
    """A place in a stream: a CUDA event, which another mark of the device gets when this object goes.

    To make an event and to destroy it takes ten times as long as to record it.
    """

    __slots__ = ("_idle", "device", "event")

    def __init__(self, api: Driver, device: int, stream: int, idle: list[int]) -> None:
        self.device, self._idle = device, idle
        if idle:
            self.event = idle.pop()
        else:
            with api.inside(device):
                self.event = api.new_event(timing=False)
        api.record(self.event, stream)  # of any device, whichever is current

    def __del__(self) -> None:
        self._idle.append(self.event)


class Queued:
    """Work that GPUs were given: values in their memory, and what has to be awaited before each rank reads them."""

    def __init__(self, values: list[Buffer], marks: dict[int, list[_Mark]]) -> None:
        self.values, self.marks = values, marks

    def result(self, timeout: float = PATIENCE) -> list[Buffer]:  # noqa: ARG002 - streams are in order, the host goes on
        """Return the values at once: what reads them on the same GPU comes after them."""
        return self.values


class GpuEngine:
    """Ranks on GPUs, rank by rank on `devices`.

    nccl: makes NCCL's communicators when they are needed first
    """

    name = "nccl"
    shared_memory = False

    def __init__(self, devices: Sequence[int], nccl: Callable[[Sequence[int]], Nccl] = Library) -> None:
        self.devices = tuple(devices)
        self.ranks = len(self.devices)
        self._make_nccl = nccl
        self._nccl: Nccl | None = None
        self._kernels: list[Stream] = []
        self._meetings: list[_Mark] = []
        self._transfers: list[Stream] = []
        self._peers = False
        self._idle: list[list[int]] = [[] for _ in self.devices]  # events, by rank
        self._stats = Stats()

    def start(self) -> None:
        """Make streams, and let GPUs write each other's memory, once."""
        if self._kernels:
            return
        api = door.driver()
        pairs = [(a, b) for a in self.devices for b in self.devices if a != b]
        self._peers = all([api.let_peer(*pair) for pair in pairs])  # noqa: C419 - each has an effect
        self._transfers = [Stream() for _ in self.devices]
        self._kernels = [Stream() for _ in self.devices]
        self._meetings = [self._mark(api, rank, self._kernels) for rank in range(self.ranks)]

    @property
    def reads_peers(self) -> bool:
        """See `RankEngine`: all pairs of the GPUs are linked."""
        self.start()
        return self._peers

    def launch(
        self, task: Task | None, ranks: Sequence[int] | None = None, *, seconds: float = 0.0,  # noqa: ARG002 - real time passes
        after: Sequence[Pending] = (),
    ) -> Queued:  # fmt: skip
        """See `RankEngine.launch`: the tasks are called now, and their kernels run when GPUs come to them."""
        self.start()
        api = door.driver()
        self._stats.launches += 1
        values: list[Buffer] = []
        marks: dict[int, list[_Mark]] = {}
        for rank in range(self.ranks) if ranks is None else ranks:
            if after:
                self._follow(api, rank, self._kernels, after)
            with api.inside(self.devices[rank]):
                values.append(None if task is None else task(rank))
            if not self._peers:  # else nothing is pipelined: transfers come after all that was launched before
                marks[rank] = [self._mark(api, rank, self._kernels)]
        return Queued(values, marks)

    def transfer(self, exchange: Exchange, after: Sequence[Pending] = ()) -> Queued:
        """See `RankEngine.transfer`: by copies where little is moved, else by a group of NCCL's sends and receives."""
        self.start()
        api = door.driver()
        self._stats.note(exchange)
        moves = [Move(m.source, m.target, m.value, self._place(m)) for m in exchange.moves]
        for rank in exchange.ranks:
            behind = [self._computed(api, rank)] if self._peers or not after else []
            self._follow(api, rank, self._transfers, [*after, *behind])
        real = [move for move in moves if move.value.nbytes and move.source != move.target]
        for move in moves:
            if move.source == move.target and move.value.nbytes:
                self._copy(api, move)
        if not real or (self._peers and _largest(real) <= PEER_BYTES):
            marks = self._by_copies(api, exchange.ranks, real)
        else:
            marks = self._by_nccl(api, exchange.ranks, real)
        done = Queued([move.into for move in moves], marks)
        for rank in exchange.ranks:  # transfers are in order, so that this holds nothing up
            self._follow(api, rank, self._kernels, [done])
        return done

    def library_all_reduce(self, ranks: tuple[int, ...], values: Sequence[Buffer], op: str) -> list[Buffer] | None:
        """See `ReducesByLibrary`: all ranks at once, of types that NCCL and NumPy both have."""
        if ranks != tuple(range(self.ranks)):
            return None
        self.start()
        library, api = self._library(), door.driver()
        operator = library.operator(op, values[0].dtype)
        if operator is None:
            return None
        found = [DeviceArray(value.shape, value.dtype, value.device) for value in values]
        for rank in ranks:
            self._follow(api, rank, self._transfers, [self._computed(api, rank)])
        with library.group():
            for rank in ranks:
                stream = self._transfers[rank].handle(self.devices[rank])
                library.communicators[rank].allreduce(values[rank], found[rank], operator, stream=stream)
        return found

    def meet(self, ranks: Sequence[int]) -> None:
        """See `RankEngine.meet`: by an event a GPU, for which the others wait."""
        self.start()
        api = door.driver()
        streams = {rank: self._handle(rank, self._kernels) for rank in ranks}
        for rank, stream in streams.items():
            api.record(self._meetings[rank].event, stream)
        for rank, stream in streams.items():
            for other in streams:
                if other != rank:  # what the event stands for now: it is recorded anew at the next meeting
                    api.follow(stream, self._meetings[other].event)

    def seen(self, rank: int, buffer: Buffer) -> Buffer:
        """See `RankEngine.seen`: the same memory, for a kernel that runs on the rank's GPU."""
        device = self.devices[rank]
        if buffer.device == device:
            return buffer
        return PeerArray.over(buffer.address, buffer.shape, buffer.dtype, device, buffer)

    def barrier(self, timeout: float = PATIENCE) -> None:
        """Wait until every GPU has done what it was given.  Ctrl-C ends the wait, and what is under way."""
        if not self._kernels:
            return
        api, limit = door.driver(), time.monotonic() + timeout
        marks = [
            (rank, self._mark(api, rank, streams))
            for rank in range(self.ranks)
            for streams in (self._kernels, self._transfers)
        ]
        try:
            while late := sorted({rank for rank, mark in marks if not self._reached(api, mark)}):
                if time.monotonic() > limit:
                    raise missing(late, timeout, "barrier")
                raise_if_stopped()
                time.sleep(min(LOOK, timeout) / 10)
        except BaseException:
            self.cancel()
            raise

    def cancel(self) -> None:
        """End NCCL's transfers; the next one makes new communicators.  Kernels that run come to their end."""
        nccl, self._nccl = self._nccl, None
        if nccl is not None:
            nccl.abort()

    def stop(self) -> None:
        """End transfers, and give streams back."""
        self.cancel()
        self._kernels, self._transfers, self._meetings = [], [], []
        api = door.loaded()
        for device, idle in zip(self.devices, self._idle, strict=True):
            while idle and api is not None:
                api.give_back(device, api.close_event, idle.pop())

    def stats(self) -> Stats:
        """Return what was done so far; the clock of GPUs is read by profiles."""
        return self._stats

    def empty(self, rank: int, elements: int, dtype: DType) -> Buffer:
        """Allocate memory of a rank's GPU."""
        return DeviceArray((elements,), dtype.numpy, self.devices[rank])

    def part(self, buffer: Buffer, start: int, stop: int) -> Buffer:
        """Return a part of an array in the same memory."""
        place = buffer.address + start * buffer.dtype.itemsize
        return DeviceArray.over(place, (stop - start,), buffer.dtype, buffer.device, buffer)

    def stream(self, rank: int) -> object:
        """Return the stream of a rank's kernels."""
        self.start()
        return self._kernels[rank]

    def pieces(self, size: int) -> int:
        """Return how many pieces keep both streams at work: one below 32 MiB, and where kernels do the transfers."""
        return 1 if self.reads_peers else max(1, min(_MOST_PIECES, size // PIECE_BYTES))

    def one_shot(self, size: int) -> bool:
        """Return whether a value is so small that every GPU reads and folds all of it."""
        return self.reads_peers and size <= ONE_SHOT_BYTES

    def fold_seconds(self, size: int) -> float:  # noqa: ARG002 - the clock on the wall runs
        """Return 0."""
        return 0.0

    # -- transfers ------------------------------------------------------------------------------------------------

    def _place(self, move: Move) -> Buffer:
        if move.into is not None:
            return move.into
        return DeviceArray(move.value.shape, move.value.dtype, self.devices[move.target])

    def _by_copies(self, api: Driver, ranks: Sequence[int], moves: Sequence[Move]) -> dict[int, list[_Mark]]:
        """Let sources write into targets, once those are ready for it."""
        ready = {rank: self._mark(api, rank, self._transfers) for rank in ranks}
        for source, target in sorted({(move.source, move.target) for move in moves}):
            api.follow(self._handle(source, self._transfers), ready[target].event)
        for move in moves:
            self._copy(api, move)
        done = {rank: self._mark(api, rank, self._transfers) for rank in ranks}
        for source, target in sorted({(move.source, move.target) for move in moves}):
            # What reads on the target comes after its own stream at least.
            api.follow(self._handle(target, self._transfers), done[source].event)
        return {rank: [self._mark(api, rank, self._transfers)] for rank in ranks}

    def _copy(self, api: Driver, move: Move) -> None:
        assert move.into is not None
        stream = self._handle(move.source, self._transfers)
        api.copy(move.into.address, move.value.address, move.value.nbytes, stream)

    def _by_nccl(self, api: Driver, ranks: Sequence[int], moves: Sequence[Move]) -> dict[int, list[_Mark]]:
        library = self._library()
        with library.group():
            for move in moves:
                assert move.into is not None, "transfers have places by now"
                source, target = (self._handle(rank, self._transfers) for rank in (move.source, move.target))
                library.communicators[move.source].send(move.value, move.target, stream=source)
                library.communicators[move.target].recv(move.into, move.source, stream=target)
        return {rank: [self._mark(api, rank, self._transfers)] for rank in ranks}

    def _library(self) -> Nccl:
        if self._nccl is None:
            self._nccl = self._make_nccl(self.devices)
        return self._nccl

    # -- order ----------------------------------------------------------------------------------------------------

    def _handle(self, rank: int, streams: Sequence[Stream]) -> int:
        return streams[rank].handle(self.devices[rank])

    def _mark(self, api: Driver, rank: int, streams: Sequence[Stream]) -> _Mark:
        return _Mark(api, self.devices[rank], self._handle(rank, streams), self._idle[rank])

    def _computed(self, api: Driver, rank: int) -> Queued:
        """Return what stands for the kernels that a rank was given so far."""
        return Queued([], {rank: [self._mark(api, rank, self._kernels)]})

    def _follow(self, api: Driver, rank: int, streams: Sequence[Stream], after: Sequence[Pending]) -> None:
        """Let a rank's stream wait for what it comes after."""
        for pending in after:
            for mark in pending.marks.get(rank, ()) if isinstance(pending, Queued) else ():
                api.follow(self._handle(rank, streams), mark.event)

    def _reached(self, api: Driver, mark: _Mark) -> bool:
        with api.inside(mark.device):
            return api.reached(mark.event)


def _largest(moves: Sequence[Move]) -> int:
    """Return the most bytes that one rank receives."""
    received: dict[int, int] = {}
    for move in moves:
        received[move.target] = received.get(move.target, 0) + int(move.value.nbytes)
    return max(received.values(), default=0)
