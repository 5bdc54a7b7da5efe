"""The threads that run the groups of a CPU launch.

They start with the first launch that needs them and stay.  Kernel code runs without the interpreter's lock; a thread
takes the next chunk of groups when it has finished one.
"""

import ctypes
import itertools
import os
import queue
import threading
import time
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from tessera.core.base.interrupts import LOOK, deferred_interrupts, raise_if_stopped
from tessera.core.settings import current
from tessera.runtime.launch.object_code import Entry

_CHUNKS_PER_THREAD: Final = 8
_PATIENCE: Final = 1.5  # seconds given to a cancelled kernel before its threads are left behind
ALIGNMENT: Final = 64


class Scratch(threading.local):
    """Memory of the calling thread for one group's tiles, 64-byte aligned; it grows and is used again."""

    def __init__(self) -> None:
        self._memory = np.empty(0, np.uint8)
        self._start = 0

    def address(self, size: int) -> int:
        """Return where `size` bytes of this thread's scratch begin; 0 when none are asked for."""
        if size > self._memory.nbytes - ALIGNMENT:
            if size == 0:
                return 0
            self._memory = np.empty(size + ALIGNMENT, np.uint8)
            self._start = -(-self._memory.ctypes.data // ALIGNMENT) * ALIGNMENT
        return self._start


scratch: Final = Scratch()


@dataclass(slots=True, eq=False)
class Job:
    """One launch: `groups` groups in chunks of `chunk`; `keep` holds what the kernel's addresses point to.

    to_start: threads that have yet to begin; working: those that have begun and not ended
    finished: taken while the job runs, released by the last thread that ends
    """

    entry: Entry
    slots: bytes
    groups: int
    chunk: int
    scratch_bytes: int
    keep: object
    next_chunk: "itertools.count[int]" = field(default_factory=itertools.count)
    cancel: ctypes.c_int32 = field(default_factory=ctypes.c_int32)
    to_start: int = 0
    working: int = 0
    finished: threading.Lock = field(default_factory=threading.Lock)
    lock: threading.Lock = field(default_factory=threading.Lock)
    failure: BaseException | None = None

    def begin(self) -> bool:
        """Count one more thread in; False when no more are wanted."""
        with self.lock:
            if self.to_start == 0:
                return False
            self.working += 1
            self.to_start -= 1
            return True

    def withdraw(self) -> bool:
        """Cancel what has begun, let nothing more begin, and return whether no thread works any more."""
        self.cancel.value = 1
        with self.lock:
            self.to_start = 0
            return self.working == 0

    def work(self) -> None:
        """Run chunks until none is left or the launch is cancelled."""
        try:
            memory = scratch.address(self.scratch_bytes)
            flag = ctypes.addressof(self.cancel)
            while not self.cancel.value:
                first = next(self.next_chunk) * self.chunk
                if first >= self.groups:
                    break
                self.entry(self.slots, first, min(first + self.chunk, self.groups), memory, flag)
        except BaseException as error:  # noqa: BLE001 - e.g. no memory for scratch; raised again in the caller's thread
            self.failure = error
            self.cancel.value = 1
        with self.lock:
            self.working -= 1
            if self.working == self.to_start == 0:
                self.finished.release()


class Pool:
    """`count` threads that wait for jobs."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.process = os.getpid()
        self._lock = threading.Lock()
        self._running = 0
        self._closed = False
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        for index in range(count):
            threading.Thread(target=self._serve, name=f"tessera-{index}", daemon=True).start()

    def run(self, job: Job) -> bool:
        """Run `job` to its end; False, having done nothing, where the threads are ending.

        An exception in this thread (KeyboardInterrupt) cancels it and is raised again.  A kernel looks at the cancel
        flag often.  One that does not within 1.5 s is left to its threads, which end with it, and the next launch gets
        new ones.
        """
        with self._lock:
            if self._closed:
                return False
            self._running += 1
            if self._running > 1:
                _Shared.overlaps += 1
        try:
            self._run(job)
        finally:
            with self._lock:
                self._running -= 1
                if self._closed and not self._running:
                    self._end()
        return True

    def _run(self, job: Job) -> None:
        job.to_start = min(self.count, -(-job.groups // job.chunk))
        job.finished.acquire()
        try:
            # One put, so that an interrupt comes before it or after it: each thread that starts calls the next.
            self._jobs.put(job)
            while not job.finished.acquire(timeout=LOOK):
                raise_if_stopped()
        except BaseException:
            if not _stops(job):
                self.close()
                _forget(self)
            raise
        if job.failure is not None:
            raise job.failure

    def close(self) -> None:
        """Let every thread end when the jobs that were begun are done."""
        with self._lock:
            if not self._closed:
                self._closed = True
                if not self._running:
                    self._end()

    def _end(self) -> None:
        for _ in range(self.count):
            self._jobs.put(None)

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            if job.begin():
                if job.to_start:
                    self._jobs.put(job)
                job.work()
            del job  # arrays of a finished launch must not live on in a waiting thread


def _stops(job: Job) -> bool:
    """Cancel a job and wait until no thread works on it, whatever else interrupts; False when that takes too long.

    The interrupt may have come at any moment: before the job was queued, or after its end, when its lock is taken.
    """
    deadline = time.monotonic() + _PATIENCE
    while True:
        try:
            if job.withdraw():
                return True
            if time.monotonic() > deadline:
                return False
            job.finished.acquire(timeout=LOOK)
        except KeyboardInterrupt:  # a second Ctrl-C while the first is being served
            continue


class _Shared:
    """The process's pool."""

    lock: threading.Lock = threading.Lock()
    pool: Pool | None = None
    overlaps: int = 0


def overlaps() -> int:
    """Return how often a launch began while another one ran, so that timers see that they shared the cores."""
    return _Shared.overlaps


def _forget(pool: Pool) -> None:
    with _Shared.lock:
        if _Shared.pool is pool:
            _Shared.pool = None


def pool() -> Pool:
    """Return the process's pool, of `settings.threads` threads; a forked child gets its own."""
    found = _Shared.pool
    if found is not None and _fits(found):
        return found
    with deferred_interrupts(), _Shared.lock:  # no thread may be left half started
        old = _Shared.pool
        if old is not None and _fits(old):
            return old
        found = _Shared.pool = Pool(current().threads)
        if old is not None and old.process == os.getpid():
            old.close()
    return found


def run(job: Job) -> None:
    """Run `job` on the process's threads, see `Pool.run`."""
    while not pool().run(job):  # another thread has changed their number meanwhile
        pass


def _fits(candidate: Pool) -> bool:
    return candidate.count == current().threads and candidate.process == os.getpid()


def chunk_size(groups: int) -> int:
    """Return how many groups a thread takes at once: few enough to balance, many enough to need little Python."""
    return max(1, groups // (current().threads * _CHUNKS_PER_THREAD))
