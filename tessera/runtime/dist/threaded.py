"""Ranks as threads of this process, over its shared memory: shards of the CPU.

Each rank has a thread that does its tasks in order.  Nothing is moved: a rank reads what another holds where it lies.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from tessera.core.base.dtypes import DType
from tessera.core.base.interrupts import LOOK, deferred_interrupts, raise_if_stopped, stoppable
from tessera.core.errors.catalog import CollectiveStopped
from tessera.runtime.dist.engine import PATIENCE, Buffer, Exchange, Pending, Stats, Task
from tessera.runtime.dist.rank_barrier import RankBarrier, missing

_GRACE: Final = 1.5
"""Seconds given to tasks that are cancelled before their threads are left behind."""


class _Here(threading.local):
    """The rank whose task runs in this thread; None: none's does."""

    rank: int | None = None


_HERE: Final = _Here()


class _Job:
    """One task of one rank, with what it gave."""

    __slots__ = ("after", "done", "failure", "rank", "task", "value")

    def __init__(self, rank: int, task: Task, after: Sequence[Pending]) -> None:
        self.rank, self.task, self.after = rank, task, after
        self.done = False
        self.value: Any = None  # whatever the task returns
        self.failure: BaseException | None = None


class _Thread:
    """A rank's thread and its queue; `stop` ends the task that runs."""

    def __init__(self, rank: int, finished: Callable[[_Job], None]) -> None:
        self.queue: deque[_Job] = deque()
        self.ready = threading.Condition()
        self.stop = threading.Event()
        self.closed = False
        self.running: _Job | None = None
        self._rank, self._finished = rank, finished
        threading.Thread(target=self._serve, name=f"tessera-rank-{rank}", daemon=True).start()

    def add(self, job: _Job) -> None:
        """Do `job` when those before it are done."""
        with self.ready:
            self.queue.append(job)
            self.ready.notify()

    def close(self) -> None:
        """Let the thread end."""
        with self.ready:
            self.closed = True
            self.ready.notify()

    def _serve(self) -> None:
        _HERE.rank = self._rank
        while True:
            with self.ready:
                while not self.queue and not self.closed:
                    self.ready.wait()
                if not self.queue:
                    return
                job = self.running = self.queue.popleft()
            try:
                with stoppable(self.stop):
                    for pending in job.after:
                        pending.result()
                    raise_if_stopped()
                    job.value = job.task(job.rank)
            except KeyboardInterrupt:
                job.failure = CollectiveStopped(f"rank {job.rank} was stopped", hint="Ctrl-C, or another rank failed")
            except BaseException as error:  # noqa: BLE001 - it is raised where the task is waited for
                job.failure = error
            self.running = None
            self._finished(job)


class _Tasks:
    """Tasks under way, one a rank."""

    def __init__(self, engine: "ThreadedEngine", jobs: list[_Job]) -> None:
        self._engine, self._jobs = engine, jobs

    def result(self, timeout: float = PATIENCE) -> list[Buffer]:
        """See `Pending.result`.  The first failure of a task cancels the others."""
        self._engine.wait_for(self._jobs, timeout, "launch")
        return [job.value for job in self._jobs]


class ThreadedEngine:
    """Ranks as threads.  It starts by itself when it is used first."""

    name = "threads"
    shared_memory = True
    reads_peers = False

    def __init__(self, ranks: int) -> None:
        self.ranks = ranks
        self._process = os.getpid()
        self._threads: list[_Thread] = []
        self._changed = threading.Condition()
        self._barrier = RankBarrier(ranks)
        self._stats = Stats()

    def start(self) -> None:
        """Start a thread a rank, unless they run."""
        if self._process != os.getpid():  # a forked child has none of its parent's threads
            self._process, self._threads = os.getpid(), []
            self._changed, self._barrier = threading.Condition(), RankBarrier(self.ranks)
        if not self._threads:
            with deferred_interrupts():
                self._threads = [_Thread(rank, self._finished) for rank in range(self.ranks)]

    def launch(
        self, task: Task | None, ranks: Sequence[int] | None = None, *, seconds: float = 0.0,  # noqa: ARG002 - real time passes
        after: Sequence[Pending] = (),
    ) -> _Tasks:  # fmt: skip
        """See `RankEngine.launch`."""
        self.start()
        self._stats.launches += 1
        jobs: list[_Job] = []
        if task is not None:
            with deferred_interrupts():  # some ranks with a task and others without would wait for each other
                jobs = [_Job(rank, task, after) for rank in (range(self.ranks) if ranks is None else ranks)]
                for job in jobs:
                    self._threads[job.rank].add(job)
        return _Tasks(self, jobs)

    def transfer(self, exchange: Exchange, after: Sequence[Pending] = ()) -> Pending:
        """See `RankEngine.transfer`: values are read where they lie, once `after` is done."""
        self._stats.note(exchange)
        return _Moved([move.value for move in exchange.moves], after)

    def wait_for(self, jobs: Sequence[_Job], timeout: float, what: str) -> None:
        """Wait for jobs; an interrupt, a failure and a time-out cancel everything."""
        limit = time.monotonic() + timeout
        try:
            while True:
                with self._changed:
                    failed = next((job.failure for job in jobs if job.failure is not None), None)
                    late = [job.rank for job in jobs if not job.done]
                    if failed is None and late and time.monotonic() < limit:
                        self._changed.wait(LOOK)
                        raise_if_stopped()
                        continue
                if failed is not None:
                    raise failed
                if late:
                    raise missing(late, timeout, what)
                return
        except BaseException:
            if _HERE.rank is None:
                self.cancel()
            raise

    def meet(self, ranks: Sequence[int]) -> None:  # noqa: ARG002 - tasks are awaited where they are needed
        """See `RankEngine.meet`: nothing is under way that was not awaited."""

    def seen(self, rank: int, buffer: Buffer) -> Buffer:  # noqa: ARG002 - one process has one memory
        """Return the buffer."""
        return buffer

    def barrier(self, timeout: float = PATIENCE) -> None:
        """See `RankEngine.barrier`."""
        if _HERE.rank is not None:
            self._barrier.wait(_HERE.rank, timeout)
            return
        jobs = [job for thread in self._threads for job in (thread.running, *thread.queue) if job is not None]
        self.wait_for(jobs, timeout, "barrier")

    def cancel(self) -> None:
        """See `RankEngine.cancel`: a task that does not look within 1.5 s is left to its thread, which is replaced."""
        with deferred_interrupts():
            for thread in self._threads:
                thread.stop.set()
                with thread.ready:
                    dropped, thread.queue = list(thread.queue), deque()
                for job in dropped:
                    job.failure = CollectiveStopped(f"rank {job.rank} was stopped before it began", hint="launch again")
                    self._finished(job)
            self._barrier.end()
            limit = time.monotonic() + _GRACE
            while any(thread.running for thread in self._threads) and time.monotonic() < limit:
                with self._changed:
                    self._changed.wait(LOOK)
            for rank, thread in enumerate(self._threads):
                if thread.running is None:
                    thread.stop.clear()
                else:
                    thread.close()
                    self._threads[rank] = _Thread(rank, self._finished)
            self._barrier.renew()

    def stop(self) -> None:
        """Cancel everything, and end the threads."""
        self.cancel()
        for thread in self._threads:
            thread.close()
        self._threads = []

    def stats(self) -> Stats:
        """Return what was done so far; nothing is sent, since memory is shared, but it is counted."""
        return self._stats

    def empty(self, rank: int, elements: int, dtype: DType) -> Buffer:  # noqa: ARG002 - all is this process's memory
        """Allocate a NumPy array."""
        return np.empty(elements, dtype.numpy)

    def part(self, buffer: Buffer, start: int, stop: int) -> Buffer:
        """Return a view."""
        return buffer[start:stop]

    def stream(self, rank: int) -> object:  # noqa: ARG002 - a rank's own thread launches
        """Return None."""
        return None

    def pieces(self, size: int) -> int:  # noqa: ARG002 - nothing is moved
        """Return 1."""
        return 1

    def one_shot(self, size: int) -> bool:  # noqa: ARG002 - two steps are as good
        """Return False."""
        return False

    def fold_seconds(self, size: int) -> float:  # noqa: ARG002 - the clock on the wall runs
        """Return 0."""
        return 0.0

    def _finished(self, job: _Job) -> None:
        with self._changed:
            job.done = True
            self._changed.notify_all()


class _Moved:
    """Values that lie where they are read, once `after` is done."""

    def __init__(self, values: list[Buffer], after: Sequence[Pending]) -> None:
        self._values, self._after = values, after

    def result(self, timeout: float = PATIENCE) -> list[Buffer]:
        """See `Pending.result`."""
        for pending in self._after:
            pending.result(timeout)
        return self._values
