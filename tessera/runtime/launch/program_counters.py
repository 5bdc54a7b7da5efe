"""Sample the program counters of the threads in which CPU kernels run.

A timer for each thread sends SIGPROF, and a handler in machine code, which needs neither the interpreter nor its lock,
notes the instruction that was interrupted.  Linux on x86-64 only: the handler reads the context that this kernel hands
to signal handlers.
"""

import ctypes
import functools
import platform
import signal
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

import numpy as np

from tessera.core.base.interrupts import deferred_interrupts
from tessera.core.work import Numbers
from tessera.runtime.launch.object_code import native_function
from tessera.runtime.launch.thread_pool import pool

PERIOD: Final = 250e-6
"""Seconds between two samples of a thread."""
LEAST: Final = 20e-6
"""A thread that is interrupted much more often does nothing else."""
_MOST: Final = 1 << 16
_HANDLER: Final = """
define void @note(i32 %signal, ptr %info, ptr %context) {{
  %at = getelementptr i8, ptr %context, i64 {offset}
  %counter = load i64, ptr %at
  %number = atomicrmw add ptr inttoptr (i64 {count} to ptr), i64 1 monotonic
  %fits = icmp ult i64 %number, {most}
  br i1 %fits, label %store, label %done
store:
  %place = getelementptr i64, ptr inttoptr (i64 {samples} to ptr), i64 %number
  store i64 %counter, ptr %place
  br label %done
done:
  ret void
}}
"""
_RIP: Final = 40 + 16 * 8
"""Offset of the instruction pointer in `ucontext_t`: `uc_mcontext.gregs[REG_RIP]`, <sys/ucontext.h> on x86-64."""
_CLOCK_MONOTONIC: Final = 1
_THREAD_ID: Final = 4  # SIGEV_THREAD_ID, <signal.h>
_FLAGS: Final = 0x4 | 0x08000000 | 0x10000000  # SA_SIGINFO, SA_ONSTACK, SA_RESTART
_lock: Final = threading.Lock()


class _Action(ctypes.Structure):
    """`struct sigaction`."""

    _fields_ = (
        ("handler", ctypes.c_void_p), ("mask", ctypes.c_ulong * 16), ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )  # fmt: skip


class _Event(ctypes.Structure):
    """`struct sigevent` for a thread."""

    _fields_ = (
        ("value", ctypes.c_void_p), ("signal", ctypes.c_int), ("notify", ctypes.c_int), ("thread", ctypes.c_int),
        ("rest", ctypes.c_int * 11),
    )  # fmt: skip


class _Times(ctypes.Structure):
    """`struct itimerspec`."""

    _fields_ = (
        ("every_s", ctypes.c_long), ("every_ns", ctypes.c_long),
        ("first_s", ctypes.c_long), ("first_ns", ctypes.c_long),
    )  # fmt: skip


def can_sample() -> bool:
    """Return whether program counters can be sampled on this machine."""
    return sys.platform == "linux" and platform.machine() == "x86_64"


@contextmanager
def sampling(period: float = PERIOD) -> Generator[Callable[[], Numbers]]:
    """Sample this thread and those of CPU launches, and give what returns the addresses so far, in any order.

    Other threads of the process are left alone: each would be woken at every sample, and a hundred idle ones would use
    up the processor and the room for addresses (64 bits each).
    period: seconds between two samples of a thread.  One at a time samples; others wait.
    Raises ValueError for a period that no thread could bear, OSError where the system refuses.
    """
    if period < LEAST:
        raise ValueError("a thread is interrupted at least 20 microseconds after the last time")
    handler, count, samples = _handler()

    def read() -> Numbers:
        return np.ctypeslib.as_array(samples)[: min(count.value, _MOST)].copy()

    libc = ctypes.CDLL(None, use_errno=True)
    before, timers = _Action(), list[ctypes.c_void_p]()
    with _lock:
        count.value = 0
        with deferred_interrupts():
            _require(libc.sigaction(signal.SIGPROF, ctypes.byref(_Action(handler, flags=_FLAGS)), ctypes.byref(before)))
        try:
            for thread in {threading.get_native_id(), *pool().threads()}:
                _start(libc, thread, period, timers)
            yield read
        finally:
            with deferred_interrupts():
                for timer in timers:
                    libc.timer_delete(timer)
                # A signal that is on its way would end the process by its default action: ignoring them drops it.
                libc.sigaction(signal.SIGPROF, ctypes.byref(_Action(int(signal.SIG_IGN))), None)
                libc.sigaction(signal.SIGPROF, ctypes.byref(before), None)


def _start(libc: ctypes.CDLL, thread: int, period: float, timers: list[ctypes.c_void_p]) -> None:
    """Start the timer of a thread, unless it has ended meanwhile."""
    timer, event = ctypes.c_void_p(), _Event(None, signal.SIGPROF, _THREAD_ID, thread)
    with deferred_interrupts():
        if libc.timer_create(_CLOCK_MONOTONIC, ctypes.byref(event), ctypes.byref(timer)):
            return
        timers.append(timer)
    ns = int(period * 1e9)
    _require(libc.timer_settime(timer, 0, ctypes.byref(_Times(0, ns, 0, ns)), None))


@functools.cache
def _handler() -> tuple[int, ctypes.c_uint64, ctypes.Array[ctypes.c_uint64]]:
    """Return the handler's address and where it writes, which stays allocated: how many, and what."""
    count, samples = ctypes.c_uint64(), (ctypes.c_uint64 * _MOST)()
    text = _HANDLER.format(offset=_RIP, count=ctypes.addressof(count), samples=ctypes.addressof(samples), most=_MOST)
    return native_function(text, "note"), count, samples


def _require(status: int) -> None:
    if status:
        raise OSError(ctypes.get_errno(), "program counters cannot be sampled")
