"""Run the chunks of launches in native code: the loop of the CPU's threads, without the interpreter's lock.

With Python between the chunks, and one thread calling the next, sixteen threads needed a millisecond to begin and to
end.  Here a thread that has nothing to do looks for work for some microseconds, and only then sleeps: the kernels of a
graph follow one another sooner than that.  The code itself is in `worker_code.py`.
"""

import ctypes
import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tessera.runtime.launch.object_code import native_functions
from tessera.runtime.launch.worker_code import loop_code

POOL_BYTES: Final = 1024
"""Of a pool: the lock, the first launch, sleeping threads, waiting callers, each on a line of its own; see the code."""


class NativeLaunch(ctypes.Structure):
    """One launch, as native code sees it: `groups` groups from 0 on, in chunks of `chunk`, by the code at `entry`.

    to_start: threads that have yet to begin; working: those that have begun and not ended
    finished: the last thread has ended; failed: there was no memory for scratch
    begun: groups that threads have taken; cancel: kernels look at it often
    """

    _fields_ = (
        ("entry", ctypes.c_void_p), ("slots", ctypes.c_char_p), ("groups", ctypes.c_int64), ("chunk", ctypes.c_int64),
        ("scratch_bytes", ctypes.c_int64), ("following", ctypes.c_void_p), ("to_start", ctypes.c_int32),
        ("working", ctypes.c_int32), ("finished", ctypes.c_int32), ("failed", ctypes.c_int32),
        ("apart", ctypes.c_uint8 * 64), ("begun", ctypes.c_int64), ("apart_too", ctypes.c_uint8 * 120),
        ("cancel", ctypes.c_int32), ("apart_as_well", ctypes.c_uint8 * 60),
    )  # fmt: skip
    to_start: int
    working: int
    finished: int
    failed: int
    cancel: int


@dataclass(frozen=True, slots=True)
class WorkerLoop:
    """The native functions.  All but `open` and `close` may take long, and release the interpreter's lock.

    open(pool): prepare zeroed memory; serve(pool, looks): what a thread does until the pool is closed
    run(pool, launch, looks, ns): let a launch begin and wait; wait: the same for one that has begun
    withdraw(pool, launch): cancel it, and return how many threads work on it still; close(pool)
    """

    open: Callable[[int], None]
    serve: Callable[[int, int], None]
    run: Callable[[int, int, int, int], int]
    wait: Callable[[int, int, int, int], int]
    withdraw: Callable[[int, int], int]
    close: Callable[[int], None]


@functools.cache
def worker_loop() -> WorkerLoop:
    """Return the functions, compiled for this process."""
    names = ("open", "serve", "run", "wait", "withdraw", "close")
    opened, served, ran, waited, withdrew, closed = native_functions(loop_code(), *names)
    pointer, number, state = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32
    waiting = ctypes.CFUNCTYPE(state, pointer, pointer, number, number)
    plain = ctypes.CFUNCTYPE(None, pointer)
    return WorkerLoop(
        plain(opened), ctypes.CFUNCTYPE(None, pointer, number)(served), waiting(ran), waiting(waited),
        ctypes.CFUNCTYPE(state, pointer, pointer)(withdrew), plain(closed),
    )  # fmt: skip
