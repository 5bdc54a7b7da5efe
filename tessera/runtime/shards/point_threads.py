"""Run the points of a launch concurrently, a thread each, and stop all of them within two seconds.

Threads stay for the next launch.  A point that fails stops the others; the mistake of the first one is raised.
"""

import ctypes
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Final

from tessera.core.base.interrupts import LOOK, raise_if_stopped, stoppable

Point = Callable[[], object]
_GRACE: Final = 0.3
"""Seconds in which points end by themselves once they are told to."""
_PATIENCE: Final = 1.5
"""Seconds after which a point is left to its thread, which ends with it."""


class _CurrentPoint(threading.local):
    point: str = ""


_current: Final = _CurrentPoint()


@contextmanager
def inside_point(name: str) -> Generator[None]:
    """Let this thread run a point of a launch; what it raises is told which one."""
    before, _current.point = _current.point, name
    try:
        yield
    except Exception as failure:
        failure.add_note(f"in {name}")
        raise
    finally:
        _current.point = before


def current_point() -> str:
    """Return the point of a launch that this thread runs; "" outside of any."""
    return _current.point


class _Batch:
    """Points that run together.

    left: how many have not ended; failed: what each point that failed raised
    """

    def __init__(self, count: int) -> None:
        self.stop = threading.Event()
        self.ended = threading.Event()
        self.failed: dict[int, BaseException] = {}
        self.running: dict[int, _Worker] = {}
        self._left = count
        self._lock = threading.Lock()

    def end(self, number: int, failure: BaseException | None) -> None:
        """Note that a point has ended; a failure stops the others."""
        with self._lock:
            worker = self.running.pop(number, None)
            if worker is not None and not worker.retired:
                _idle.append(worker)
            self._left -= 1
            if failure is not None:
                self.failed[number] = failure
                self.stop.set()
            if not self._left:
                self.ended.set()

    def interrupt(self) -> None:
        """Raise KeyboardInterrupt in the threads whose points go on: Python code looks at no event."""
        with self._lock:
            for worker in self.running.values():
                worker.retire()


class _Worker(threading.Thread):
    """A thread that runs one point after the other; retired: it ends after this one."""

    def __init__(self) -> None:
        super().__init__(name="tessera-point", daemon=True)
        self._wake = threading.Semaphore(0)
        self._work: tuple[_Batch, int, Point] | None = None
        self.retired = False

    def begin(self, batch: _Batch, number: int, point: Point) -> None:
        """Run a point."""
        self._work = (batch, number, point)
        self._wake.release()

    def retire(self) -> None:
        """Raise KeyboardInterrupt in this thread, which ends after its point."""
        self.retired = True
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.ident or 0), ctypes.py_object(KeyboardInterrupt))

    def run(self) -> None:
        """Serve until retired."""
        try:
            while not self.retired:
                self._wake.acquire()
                assert self._work is not None
                batch, number, point = self._work
                self._work = None
                failure = _failure(batch, point)
                batch.end(number, failure)
        except KeyboardInterrupt:  # came between two points
            return


def _failure(batch: _Batch, point: Point) -> BaseException | None:
    try:
        with stoppable(batch.stop):
            raise_if_stopped()
            point()
    except BaseException as failure:  # noqa: BLE001 - it is raised where the launch is waited for
        return failure
    return None


_idle: Final[list[_Worker]] = []


def run_points(points: Sequence[Point]) -> None:
    """Run all points at once and wait for them; raise what the first of those that failed raised.

    KeyboardInterrupt, and the stop of a launch that this one is part of, stop all points.
    """
    if len(points) == 1:
        points[0]()
        return
    batch = _Batch(len(points))
    try:
        for number, point in enumerate(points):
            worker = _worker()
            batch.running[number] = worker
            worker.begin(batch, number, point)
        while not batch.ended.wait(LOOK):
            raise_if_stopped()
            if batch.stop.is_set():  # one failed
                _stop(batch)
                break
    except BaseException:
        _stop(batch)
        raise
    _raise_first(batch)


def _worker() -> _Worker:
    try:
        return _idle.pop()
    except IndexError:
        made = _Worker()
        made.start()
        return made


def _stop(batch: _Batch) -> None:
    """Stop what still runs: by its event, then by an exception; give up what heeds neither."""
    batch.stop.set()
    until = time.monotonic() + _PATIENCE
    if not batch.ended.wait(_GRACE):
        batch.interrupt()
        batch.ended.wait(max(0.0, until - time.monotonic()))


def _raise_first(batch: _Batch) -> None:
    stopped = {number for number, failure in batch.failed.items() if isinstance(failure, KeyboardInterrupt)}
    for number in sorted(batch.failed, key=lambda each: (each in stopped, each)):
        raise batch.failed[number]
