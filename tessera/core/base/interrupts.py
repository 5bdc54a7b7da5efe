"""Ctrl-C: where it may come, and how soon it must.

The interpreter raises KeyboardInterrupt between any two bytecodes of the main thread, also inside the library's Python
code that takes a lock: `threading.Condition` then stays locked for good.  What changes shared state in several steps
does so inside `deferred_interrupts`.

Threads other than the main one get no signals.  What they do on behalf of the user runs inside `stoppable`: once its
event is set, the waits of that thread raise KeyboardInterrupt as they do in the main thread after Ctrl-C.

A signal that comes between the interpreter's last look and a wait for a lock does not end the wait: whatever waits on
behalf of the user waits in steps of `LOOK`, so that Ctrl-C is delivered within 0.2 s.
"""

# `signal` wraps what is in `_signal` in conversions from and to enumerations, which take ten times as long.
import _signal  # pyright: ignore[reportMissingModuleSource] - it is built in
import inspect
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Final, Self

LOOK: Final = 0.05
"""Seconds between two looks."""


class DeferredInterrupts:
    """Handler of SIGINT while `deferred_interrupts`, which returns it, is entered."""

    __slots__ = ("_handler", "_pending")

    def __init__(self) -> None:
        self._handler: Callable[[int, FrameType | None], object] | None = None
        self._pending = False

    def __call__(self, _: int, __: FrameType | None) -> None:
        """Remember that SIGINT came."""
        self._pending = True

    def __enter__(self) -> Self:
        if threading.get_ident() == threading.main_thread().ident:
            handler = _signal.getsignal(signal.SIGINT)
            if callable(handler) and not isinstance(handler, DeferredInterrupts):
                self._handler = handler
                _signal.signal(signal.SIGINT, self)
        return self

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        self.restore()

    def deliver(self) -> None:
        """Call the handler, which may raise KeyboardInterrupt, if SIGINT has come: for the steps of a wait.

        In a thread that is told to stop, see `stoppable`, it raises KeyboardInterrupt too.
        """
        if self._pending and self._handler is not None:
            self._pending = False
            self._handler(signal.SIGINT, inspect.currentframe())
        elif self._handler is None:
            raise_if_stopped()

    def lifted(self) -> "LiftedDeferral":
        """Return a context in which SIGINT is delivered at once: for what may take long and can be cleaned up after.

        It lifts this deferral alone: inside another one, which began before, that one still holds.
        """
        return LiftedDeferral(self)

    def restore(self) -> None:
        """Put the handler back and deliver what has come."""
        if self._handler is None:
            return
        if _signal.getsignal(signal.SIGINT) is self:
            _signal.signal(signal.SIGINT, self._handler)
        if self._pending:
            self._pending = False
            signal.raise_signal(signal.SIGINT)

    def resume(self) -> None:
        """Be the handler again."""
        if self._handler is not None:
            _signal.signal(signal.SIGINT, self)


class LiftedDeferral:
    """The part of a deferral in which there is none."""

    __slots__ = ("_deferral",)

    def __init__(self, deferral: DeferredInterrupts) -> None:
        self._deferral = deferral

    def __enter__(self) -> None:
        self._deferral.deliver()  # if it raises, the deferral stays in force
        self._deferral.restore()

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        self._deferral.resume()


def deferred_interrupts() -> DeferredInterrupts:
    """Hold Ctrl-C back inside the `with`, and deliver it at its end, or where `DeferredInterrupts.deliver` is called.

    It does nothing in threads other than the main one, which get no signals, inside another one, and where SIGINT is
    not handled by Python.  What waits inside calls `deliver` every `LOOK` seconds.
    """
    return DeferredInterrupts()


class _Thread(threading.local):
    """Event that tells this thread to stop; None: there is none."""

    stop: threading.Event | None = None


_THREAD: Final = _Thread()


@contextmanager
def stoppable(stop: threading.Event) -> Generator[None]:
    """Let waits of this thread raise KeyboardInterrupt once `stop` is set: threads get no signals."""
    before, _THREAD.stop = _THREAD.stop, stop
    try:
        yield
    finally:
        _THREAD.stop = before


def stop_event() -> threading.Event | None:
    """Return the event that this thread is told to stop by, for the threads that it starts; None: there is none."""
    return _THREAD.stop


def raise_if_stopped() -> None:
    """Raise KeyboardInterrupt where this thread is told to stop, for the steps of a wait."""
    stop = _THREAD.stop
    if stop is not None and stop.is_set():
        raise KeyboardInterrupt
