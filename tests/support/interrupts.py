"""Ctrl-C between any two lines of the runtime, and while the main thread waits in a given function."""

import signal
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

import pytest

_LOCKS = ("/threading.py", "/concurrent/futures/", "/subprocess.py", "/tessera/core/base/interrupts.py")
"""Python code of the standard library that holds locks or starts what must be ended, and what defers Ctrl-C in it."""


def interrupted(call: Callable[[], object], line: int, *where: str) -> bool:
    """Run `call`, with Ctrl-C before the `line`-th line that it executes in files of `where`, and expect its end by it.

    where: pieces of paths; left out, the runtime

    Returns whether it came to that line.
    """
    left, sent, where = line, False, where or ("tessera/runtime/",)

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left, sent
        if not any(piece in frame.f_code.co_filename for piece in where):
            return None
        if event == "line":
            left -= 1
            if left < 0 and not _finalizes(frame):
                sent = True
                sys.settrace(None)
                signal.raise_signal(signal.SIGINT)
        return trace

    def apart() -> Generator[None]:
        # A generator has a state of exceptions of its own.  One that is raised between two lines of an `except` clause
        # leaves the handled one in it for good, and would be the context of every later failure in this process.
        call()
        yield

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        next(apart())
    except KeyboardInterrupt as error:
        assert sent, "it was interrupted by another signal"
        sys.last_value = error  # as IPython does: what its frames hold is not let go
        return True
    finally:
        sys.settrace(before)
    assert not sent, "the interrupt was lost"
    return False


def _finalizes(frame: FrameType | None) -> bool:
    """Whether a `__del__` is under way, from which the interpreter lets no exception out."""
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


def interrupted_everywhere(call: Callable[[], object], check: Callable[[int], object], *where: str) -> int:
    """Run `call` again and again, with Ctrl-C before each line of `where` and of what it locks with, and `check`.

    check: called after each, with the number of the line

    Returns the number of lines.
    """
    line = 0
    while interrupted(call, line, *where, *_LOCKS):
        check(line)
        line += 1
    return line


def held(lock: Any) -> bool:
    """Return whether anybody holds a lock, this thread included: `threading.Lock`, `RLock` or `Condition`."""
    answers: list[bool] = []

    def ask() -> None:
        answers.append(lock.acquire(timeout=10))
        if answers[0]:
            lock.release()

    other = threading.Thread(target=ask)
    other.start()
    other.join()
    return not answers[0]


@contextmanager
def ctrl_c_reaches() -> Generator[Callable[[], None]]:
    """Give a function, for any thread, that sends Ctrl-C to the main thread, inside the `with` and nowhere else.

    One that comes too late, as the test's body has ended, is ignored: the test then fails as it was not interrupted.
    """
    before = signal.getsignal(signal.SIGINT)
    assert callable(before)
    inside, main = True, threading.main_thread().ident
    assert main is not None

    def handle(number: int, frame: FrameType | None) -> None:
        if inside:
            before(number, frame)

    def send() -> None:
        if inside:
            signal.pthread_kill(main, signal.SIGINT)

    signal.signal(signal.SIGINT, handle)
    try:
        yield send
    finally:
        inside = False
        signal.signal(signal.SIGINT, before)


@contextmanager
def ctrl_c_inside(function: Callable[..., object], begun: Callable[[], bool] | None = None) -> Generator[None]:
    """Send Ctrl-C to the main thread once it stands in `function`, and expect the KeyboardInterrupt.

    begun: whether that has begun what is to be interrupted; without it some time is left for that
    A timer alone would hit the lines before the call on a machine that is busy.  Python loses an interrupt that comes
    while it finalizes objects, from where no exception gets out: a body that calls `function` again gets another one.
    """
    code, main = function.__code__, threading.main_thread().ident
    assert main is not None
    ended = threading.Event()

    def watch(send: Callable[[], None]) -> None:
        sent = False
        while not ended.is_set():
            inside = _stands_in(sys._current_frames()[main], code)
            if inside and not sent:
                if begun is None:
                    time.sleep(0.05)  # it goes on to where it waits
                elif not begun():
                    time.sleep(0.002)
                    continue
                send()
            sent = inside
            time.sleep(0.002)

    with ctrl_c_reaches() as send:
        watcher = threading.Thread(target=watch, args=(send,))
        watcher.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                yield
        finally:
            ended.set()
            watcher.join()


def _stands_in(frame: FrameType | None, code: CodeType) -> bool:
    while frame is not None and frame.f_code is not code:
        frame = frame.f_back
    return frame is not None
