"""Detection of measurements that other work of the process took part of the machine from, such as a cell that ran.

A search in the background shares the cores with the cells that run meanwhile.  Two signs of that are cheap to read: the
processor time of the main thread, in which cells run, and launches on the CPU's threads that overlapped.  What is not
seen: work of other processes, and work that a cell left on a GPU before.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tessera.runtime.launch.thread_pool import overlaps

REPEATS: Final = 3
"""Times that a disturbed launch is timed again, before it is taken as it is."""
_SHARE: Final = 0.05
"""Of a launch's time that the main thread may be busy: the notebook's own messages."""
_ALWAYS: Final = 50e-6
"""Seconds that the main thread may be busy in any case."""


@dataclass(frozen=True, slots=True)
class Activity:
    """Work of the rest of the process so far: seconds of the main thread's processor time, launches at once."""

    busy: float
    overlaps: int

    def disturbs(self, before: "Activity", seconds: float) -> bool:
        """Return whether the rest of the process took the machine during a launch of so many seconds."""
        allowed = _SHARE * seconds + _ALWAYS
        return self.overlaps != before.overlaps or self.busy - before.busy > allowed


Watch = Callable[[], Activity]


def nothing() -> Activity:
    """Return that nothing else happens: for the search of a cell, which is the main thread's work itself."""
    return Activity(0.0, 0)


def rest_of_process() -> Activity:
    """Return what the main thread, and launches of other threads, have done so far."""
    return Activity(_main_thread_seconds(), overlaps())


def _main_thread_seconds() -> float:
    main = threading.main_thread()
    clock_of = getattr(time, "pthread_getcpuclockid", None)  # Linux has it, macOS has not
    if clock_of is None or main.ident is None or not main.is_alive():
        return 0.0
    return time.clock_gettime(clock_of(main.ident))
