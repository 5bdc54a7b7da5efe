"""Launches that had to wait for their turn and are on the GPU: a few at a time, so that the order stays fair."""

from collections import deque
from typing import Final

from tessera.runtime.driver.driver import Driver

_AT_MOST: Final = 4
"""The GPU stays at work with so many, and what comes behind them goes in the order of turns."""


class InFlightLimit:
    """The latest launches, each with an event."""

    def __init__(self) -> None:
        self._marks: deque[tuple[Driver, int]] = deque()

    def add(self, driver: Driver, stream: int) -> None:
        """Note a launch in the current context, and wait until there are few enough.

        Only the "gpu" engine's thread calls this.
        """
        mark = driver.new_event(timing=False)
        driver.record(mark, stream)
        self._marks.append((driver, mark))
        while len(self._marks) >= _AT_MOST:
            owner, oldest = self._marks.popleft()
            owner.wait_event(oldest)
            owner.close_event(oldest)


outstanding: Final = InFlightLimit()
