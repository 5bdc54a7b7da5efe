"""Jobs on threads: every group once, failures and interrupts, and the pool afterwards."""

import ctypes
import signal
import threading
import time
import weakref
from collections.abc import Callable
from random import Random

import pytest

from support.interrupts import ctrl_c_inside, interrupted_everywhere
from tessera.core.settings import overridden
from tessera.runtime.launch.thread_pool import ALIGNMENT, Job, Pool, chunk_size, pool, run, scratch
from tessera.runtime.launch.worker_loop import WorkerLoop, worker_loop


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


CALLBACK = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_char_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p
)


def job(entry: Callable[..., int], groups: int = 1, chunk: int = 1, scratch_bytes: int = 0, keep: object = None) -> Job:
    code = CALLBACK(entry)
    address = ctypes.cast(code, ctypes.c_void_p).value
    assert address
    return Job(address, b"", groups, chunk, scratch_bytes, (code, keep))


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


def test_the_numbers_of_its_threads():
    inside: set[int] = set()

    def note(*_: object) -> int:
        inside.add(threading.get_native_id())
        return 0

    with overridden(threads=3):
        numbers = pool().threads()
        pool().run(job(note, 30))
    assert len(set(numbers)) == 3
    assert inside
    assert inside <= set(numbers)
    assert threading.get_native_id() not in numbers


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


def test_without_memory_for_scratch_the_caller_is_told():
    entry = Recorder()
    with pytest.raises(MemoryError, match="scratch"):
        pool().run(job(entry, 10, scratch_bytes=1 << 60))
    assert entry.calls == []
    test_every_group_runs_once(10, 3)


def test_an_interrupt_cancels():
    before = pool()
    running = job(until_cancelled, 5)
    with ctrl_c_inside(Pool.run):
        pool().run(running)
    assert running.launch.working == 0
    assert pool() is before
    test_every_group_runs_once(10, 3)


class Interrupted:
    """The native loop, with Ctrl-C just before a launch begins, or just after it has ended."""

    def __init__(self, loop: WorkerLoop, *, before: bool) -> None:
        self.wait, self.withdraw = loop.wait, loop.withdraw
        self._run, self._before = loop.run, before

    def run(self, *arguments: int) -> int:
        if not self._before:
            while not self._run(*arguments):
                pass
        raise KeyboardInterrupt


@pytest.mark.parametrize("before", [False, True])
def test_an_interrupt_next_to_the_native_call_is_delivered(monkeypatch: pytest.MonkeyPatch, before: bool):
    threads, entry = pool(), Recorder()
    with monkeypatch.context() as patch:
        patch.setattr(threads, "_loop", Interrupted(worker_loop(), before=before))
        with pytest.raises(KeyboardInterrupt):
            threads.run(job(entry, 4))
    assert len(entry.calls) == (0 if before else 4)
    assert pool() is threads
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
    assert hits


def test_a_kernel_that_does_not_stop_is_left_behind():
    begun, release = threading.Event(), threading.Event()

    def stubborn(*_: object) -> int:
        begun.set()
        release.wait()
        return 0

    before = pool()
    with ctrl_c_inside(Pool.run, begun.is_set):
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
    own.run(job(Recorder(), 4, keep=canary))
    del canary
    own.run(job(Recorder(), 4))
    assert gone.wait(20)
    own.close()
