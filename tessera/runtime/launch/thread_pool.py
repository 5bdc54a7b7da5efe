"""The threads that run the groups of a CPU launch.

They start with the first launch that needs them and stay, in native code (`worker_loop.py`): neither kernels nor what
comes between them need the interpreter's lock.  A thread takes the next chunk of groups when it has finished one.
"""

import ctypes
import os
import threading
import time
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from tessera.core.base.interrupts import LOOK, deferred_interrupts, raise_if_stopped
from tessera.core.settings import cores, current
from tessera.runtime.launch.worker_loop import POOL_BYTES, NativeLaunch, worker_loop

_CHUNKS_PER_THREAD: Final = 8
_LOOKS: Final = 4000
"""How often an idle thread looks for work before it sleeps: 50 to 200 us, more than lies between kernels of a graph."""
_WAITS: Final = 1000
"""How often the caller looks for the end before it sleeps: short kernels end meanwhile."""
_LOOK_NS: Final = int(LOOK * 1e9)
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
    """One launch of the code at `entry`, on `groups` groups in chunks of `chunk`.

    slots: the arguments, or where they lie; keep: holds what the kernel's addresses point to, the code and such slots
    """

    entry: int
    slots: bytes | int
    groups: int
    chunk: int
    scratch_bytes: int
    keep: object
    launch: NativeLaunch = field(init=False)

    def __post_init__(self) -> None:
        self.launch = NativeLaunch(self.entry, self.slots, self.groups, self.chunk, self.scratch_bytes)

    def cancel(self) -> None:
        """Ask the threads to end early."""
        self.launch.cancel = 1


class Pool:
    """`count` threads that wait for jobs."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.process = os.getpid()
        self._lock = threading.Lock()
        self._running = 0
        self._closed = False
        self._loop = worker_loop()
        self._memory = (ctypes.c_uint64 * (POOL_BYTES // 8))()
        self._at = ctypes.addressof(self._memory)
        # With fewer cores than threads, one that looks for work takes the core of one that has some.
        self._looks = _LOOKS if count <= cores() else 0
        self._loop.open(self._at)
        self._threads = [
            threading.Thread(target=self._serve, name=f"tessera-{index}", daemon=True) for index in range(count)
        ]
        for thread in self._threads:
            thread.start()

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
                    self._loop.close(self._at)
        return True

    def _run(self, job: Job) -> None:
        launch = job.launch
        launch.to_start = min(self.count, -(-job.groups // job.chunk))
        at = ctypes.addressof(launch)
        try:
            # One call, so that an interrupt comes before it or after it.
            ended = self._loop.run(self._at, at, _WAITS if self._looks else 0, _LOOK_NS)
            while not ended:
                raise_if_stopped()
                ended = self._loop.wait(self._at, at, 0, _LOOK_NS)
        except BaseException:
            if not self._stops(job):
                self.close()
                _forget(self)
                _left.append(job)
            raise
        if launch.failed:
            raise MemoryError(f"there are no {job.scratch_bytes} bytes for a thread's scratch")

    def close(self) -> None:
        """Let every thread end when the jobs that were begun are done."""
        with self._lock:
            if not self._closed:
                self._closed = True
                if not self._running:
                    self._loop.close(self._at)

    def threads(self) -> list[int]:
        """Return the system's numbers of the threads."""
        return [thread.native_id for thread in self._threads if thread.native_id is not None]

    def _serve(self) -> None:
        self._loop.serve(self._at, self._looks)

    def _stops(self, job: Job) -> bool:
        """Cancel a job and wait until no thread works on it, whatever else interrupts; False when that takes too long.

        The interrupt may have come at any moment: before the job was queued, or after its end.
        """
        deadline, at = time.monotonic() + _PATIENCE, ctypes.addressof(job.launch)
        while True:
            try:
                if not self._loop.withdraw(self._at, at):
                    return True
                if time.monotonic() > deadline:
                    return False
                self._loop.wait(self._at, at, 0, _LOOK_NS)
            except KeyboardInterrupt:  # a second Ctrl-C while the first is being served
                continue


_left: Final[list[Job]] = []
"""Jobs that did not stop: their threads still read them."""


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
