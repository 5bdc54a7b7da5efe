"""Jobs on threads: every group once, failures and interrupts, and the pool afterwards."""

import ctypes
import signal
import threading
import time
import weakref
from random import Random

import pytest

from support.interrupts import ctrl_c_inside, interrupted_everywhere
from tessera.core.settings import overridden
from tessera.runtime.launch.object_code import Entry
from tessera.runtime.launch.thread_pool import ALIGNMENT, Job, Pool, chunk_size, pool, run, scratch


class Recorder:
    """An entry point that remembers its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, int]] = []
        self.threads: set[int] = set()
        self.scratch: set[int] = set()

    def __call__(self, slots: bytes, first: int, past: int, memory: int, cancel: int) -> int:
        self.calls.append((first, past))
        self.threads.add(threading.get_ident())
        self.scratch.add(memory)
        return 0


def until_cancelled(slots: bytes, first: int, past: int, memory: int, cancel: int) -> int:
    flag = ctypes.c_int32.from_address(cancel)
    while not flag.value:
        time.sleep(0.001)
    return 1


def job(entry: Entry, groups: int = 1, chunk: int = 1, scratch_bytes: int = 0) -> Job:
    return Job(entry, b"", groups, chunk, scratch_bytes, None)


@pytest.mark.parametrize(("groups", "chunk"), [(1, 1), (10, 3), (100, 7), (6, 6), (5, 100)])
def test_every_group_runs_once(groups: int, chunk: int):
    entry = Recorder()
    pool().run(job(entry, groups, chunk))
    covered = [group for first, past in sorted(entry.calls) for group in range(first, past)]
    assert covered == list(range(groups))
    assert all(past - first <= chunk for first, past in entry.calls)
    assert threading.get_ident() not in entry.threads


def test_threads_work_at_once():
    barrier = threading.Barrier(3, timeout=20)

    def meet(*_: object) -> int:
        barrier.wait()
        return 0

    with overridden(threads=3):
        pool().run(job(meet, 3))


def test_scratch_is_aligned_and_private():
    entry = Recorder()
    pool().run(job(entry, 8, 1, scratch_bytes=1000))
    assert all(address % ALIGNMENT == 0 and address for address in entry.scratch)
    assert len(entry.scratch) == len(entry.threads)


def test_scratch_grows_and_is_kept():
    big = scratch.address(5000)
    assert scratch.address(100) == big
    assert scratch.address(5000) == big
    assert scratch.address(0) == big
    assert scratch.address(50_000) % ALIGNMENT == 0


def test_failures_reach_the_caller():
    def fail(*_: object) -> int:
        raise MemoryError("no scratch")

    with pytest.raises(MemoryError, match="no scratch"):
        pool().run(job(fail, 10))
    test_every_group_runs_once(10, 3)


def test_an_interrupt_cancels():
    before = pool()
    running = job(until_cancelled, 5)
    with ctrl_c_inside(Pool.run):
        pool().run(running)
    assert running.working == 0
    assert pool() is before
    test_every_group_runs_once(10, 3)


class Interrupting:
    """A lock: the first successful `acquire` with a timeout ends in Ctrl-C, after it has taken the lock."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.interrupted = False
        self.waits_after = 0

    def acquire(self, timeout: float = -1) -> bool:
        if timeout < 0:  # taken before the job begins
            return self._lock.acquire()
        self.waits_after += self.interrupted
        taken = self._lock.acquire(timeout=timeout)
        if taken and not self.interrupted:
            self.interrupted = True
            raise KeyboardInterrupt
        return taken

    def release(self) -> None:
        self._lock.release()


def test_an_interrupt_right_after_the_end_is_delivered_at_once():
    before, lock, entry = pool(), Interrupting(), Recorder()
    with pytest.raises(KeyboardInterrupt):
        pool().run(Job(entry, b"", 4, 1, 0, None, finished=lock))  # pyright: ignore[reportArgumentType]
    assert lock.interrupted
    assert len(entry.calls) == 4
    assert pool() is before
    test_every_group_runs_once(10, 3)
    assert lock.waits_after == 0, "the lock of a job that has ended is waited for"


def test_an_interrupt_before_the_job_is_queued(monkeypatch: pytest.MonkeyPatch):
    class Refusing:
        """A queue that Ctrl-C comes before."""

        def put(self, _: Job) -> None:
            raise KeyboardInterrupt

    before = pool()
    with monkeypatch.context() as patch:
        patch.setattr(before, "_jobs", Refusing())
        waiting = job(Recorder(), 4)
        with pytest.raises(KeyboardInterrupt):
            before.run(waiting)
    assert not waiting.begin()
    assert pool() is before
    test_every_group_runs_once(10, 3)


@pytest.mark.untraced
def test_interrupts_at_any_moment_keep_the_threads():
    """Between, before and during launches; the signal comes in on its own, not at a line of ours."""
    before, moments = pool(), Random(11)
    hits = 0
    was = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        for _ in range(60):
            entry = Recorder()
            try:  # before the timer: a short one ends while the call that sets it returns
                signal.setitimer(signal.ITIMER_REAL, moments.uniform(1e-5, 3e-3))
                for _ in range(2000):
                    pool().run(job(entry, 8, 2))
            except KeyboardInterrupt:
                hits += 1
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            assert pool() is before
            test_every_group_runs_once(6, 1)
    finally:
        signal.signal(signal.SIGALRM, was)
    assert hits == 60


def test_a_kernel_that_does_not_stop_is_left_behind():
    release = threading.Event()

    def stubborn(*_: object) -> int:
        release.wait()
        return 0

    before = pool()
    with ctrl_c_inside(Pool.run):
        pool().run(job(stubborn))
    assert pool() is not before
    test_every_group_runs_once(10, 3)
    release.set()


def test_the_pool_follows_the_setting():
    with overridden(threads=1):
        entry = Recorder()
        pool().run(job(entry, 20))
        assert pool().count == 1
        assert len(entry.threads) == 1
        assert chunk_size(160) == 20
    with overridden(threads=4):
        assert pool().count == 4
        assert chunk_size(160) == 5
        assert chunk_size(3) == 1


def test_jobs_that_were_begun_end_before_the_threads_do():
    own, started = Pool(2), threading.Event()
    gate, entry = threading.Event(), Recorder()

    def wait(slots: bytes, first: int, past: int, memory: int, cancel: int) -> int:
        started.set()
        gate.wait(20)
        return entry(slots, first, past, memory, cancel)

    done: list[bool] = []
    caller = threading.Thread(target=lambda: done.append(own.run(job(wait, 6))), daemon=True)
    caller.start()
    assert started.wait(20)
    own.close()  # what is queued behind this must not wait for threads that have ended
    second = threading.Thread(target=lambda: done.append(own.run(job(Recorder(), 6))), daemon=True)
    second.start()
    second.join(20)
    assert done == [False]
    gate.set()
    caller.join(20)
    assert done == [False, True]
    assert sorted(first for first, _ in entry.calls) == list(range(6))


def test_ctrl_c_between_any_two_lines_leaves_threads_that_work_and_no_others():
    def use() -> None:
        with overridden(threads=3):
            pool()

    def check(line: int) -> None:
        entry = Recorder()
        run(job(entry, 6))
        assert sorted(first for first, _ in entry.calls) == list(range(6)), line
        deadline = time.monotonic() + 20
        while sum(thread.name.startswith("tessera-") for thread in threading.enumerate()) > others + pool().count:
            assert time.monotonic() < deadline, line
            time.sleep(0.001)

    pool()
    others = sum(thread.name.startswith("tessera-") for thread in threading.enumerate()) - pool().count
    assert interrupted_everywhere(use, check, "launch/thread_pool.py") > 100


def test_a_job_that_meets_threads_which_are_ending_runs_on_new_ones(monkeypatch: pytest.MonkeyPatch):
    """The caller has asked for threads just before another one has changed their number."""
    ending, entry = Pool(2), Recorder()
    ending.close()
    found = iter([ending, pool()])
    monkeypatch.setattr("tessera.runtime.launch.thread_pool.pool", lambda: next(found))
    caller = threading.Thread(target=lambda: run(job(entry, 6)), daemon=True)
    caller.start()
    caller.join(20)
    assert not caller.is_alive()
    assert len(entry.calls) == 6


def test_two_callers():
    entries = [Recorder() for _ in range(4)]
    threads = [threading.Thread(target=pool().run, args=(job(entry, 50, 2),)) for entry in entries]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for entry in entries:
        assert sorted(entry.calls) == [(first, first + 2) for first in range(0, 50, 2)]


def test_a_finished_launch_is_let_go():
    class Canary:
        pass

    gone = threading.Event()
    canary = Canary()
    weakref.finalize(canary, gone.set)
    own = Pool(2)
    own.run(Job(Recorder(), b"", 4, 1, 0, canary))
    del canary
    own.run(job(Recorder(), 4))
    assert gone.wait(20)
    own.close()
