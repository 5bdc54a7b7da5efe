"""Time a launch: on the CPU by the clock around it, on a GPU by events around it on the device.

On a GPU fills of memory go first, for longer than the host takes to get the events and the launch under way: the device
then never waits for the host, whose time is not in the figure, and what an earlier launch left in the cache is gone.
"""

import contextlib
import math
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Final, Protocol

from tessera.core.targets import TargetKind
from tessera.runtime.driver import driver as door
from tessera.runtime.memory.device_arrays import device_of

_FILL: Final = 64 << 20
"""Bytes of a fill: more than the caches of most GPUs, and some 20 microseconds of work."""
_SAFETY: Final = 1.5
_MOST_FILLS: Final = 100


class Timer(Protocol):
    """Times launches on one machine."""

    def time(self, launch: Callable[[], None]) -> float:
        """Run `launch` and return the seconds it took, when it is done.  Ctrl-C ends the wait."""
        ...

    def inside(self) -> AbstractContextManager[None]:
        """Return the context in which launches are made."""
        ...

    def close(self) -> None:
        """Give back what timing needs."""
        ...


class HostTimer:
    """The clock around a call that returns when the work is done."""

    def time(self, launch: Callable[[], None]) -> float:
        """Return the seconds of a call."""
        start = time.perf_counter()
        launch()
        return time.perf_counter() - start

    def inside(self) -> AbstractContextManager[None]:
        """Need no context."""
        return contextlib.nullcontext()

    def close(self) -> None:
        """Do nothing: there is nothing to give back."""


class DeviceTimer:
    """Events on the default stream of one GPU: the one that the arrays of a call lie on, or else the current one."""

    def __init__(self, values: Sequence[object] = (), fill: int = _FILL) -> None:
        self._api = door.driver()
        self._api.enter()
        found = device_of(values)
        self._device = self._api.device() if found is None else found
        self._host = 0.0
        with self.inside():
            self._first, self._second = self._api.new_event(), self._api.new_event()
            self._fill, self._memory = fill, self._api.allocate(fill, 0)
            self._clear(2)
            self._filling = self._between(self._clear) or fill / 1e12

    def time(self, launch: Callable[[], None]) -> float:
        """Return the seconds on the device between what comes before the launch and its end."""
        self._clear(min(_MOST_FILLS, math.ceil(_SAFETY * self._host / self._filling) + 1))
        return self._between(launch)

    def _between(self, launch: Callable[[], None]) -> float:
        """Return the seconds on the device between two events around a call; remember the host's own time for it."""
        api = self._api
        begun = time.perf_counter()
        api.record(self._first, 0)
        launch()
        api.record(self._second, 0)
        self._host = time.perf_counter() - begun
        api.wait_event(self._second)
        return api.elapsed(self._first, self._second)

    def _clear(self, count: int = 1) -> None:
        for _ in range(count):
            self._api.clear(self._memory, self._fill, 0)

    def inside(self) -> AbstractContextManager[None]:
        """Make the device current."""
        return self._api.inside(self._device)

    def close(self) -> None:
        """Give memory and events back, unless a fault has taken them."""
        if self._api.gone:
            return
        with self.inside():
            self._api.free(self._memory, 0)
            self._api.close_event(self._first)
            self._api.close_event(self._second)


def timer_for(kind: TargetKind, values: Sequence[object] = ()) -> Timer:
    """Return the timer for a target's launches: events on a GPU, the clock on the host."""
    return DeviceTimer(values) if kind.on_gpu else HostTimer()
