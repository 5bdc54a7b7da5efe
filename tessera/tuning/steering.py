"""Hooks by which a search is steered while it runs: pause and stop, configurations by hand, and turns of searches.

Only one search of a process measures at a time.  One of a cell goes before one in the background, which gives its turn
away between two launches and takes it again when the cell's search has ended.
"""

import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Final

from tessera.core.base.interrupts import LOOK, DeferredInterrupts, deferred_interrupts
from tessera.tuning.results import Config, Trial


class Steering:
    """Steering that a search consults between two launches; this one lets it go on, as in a cell."""

    background = False

    def checkpoint(self) -> float:
        """Wait as long as the search is paused; return the seconds.  Raises KeyboardInterrupt to end it."""
        return 0.0

    def by_hand(self) -> Sequence[Config]:
        """Return the configurations that were added since the last call."""
        return ()

    def recorded(self, trial: Trial) -> None:
        """Hear of a trial that was settled, or of which more was measured."""

    def pinned(self, config: Config) -> bool:  # noqa: ARG002 - for those who override it
        """Return whether a configuration is measured to the end, however slow it is."""
        return False


UNSTEERED: Final = Steering()


class MeasuringTurn:
    """The right to measure, which one search of the process has at a time; searches inside of a search share it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # an interrupt cannot leave it locked, as it could a Condition
        self._changed = threading.Condition(self._lock)
        self._owner: int | None = None
        self._depth = 0
        self._cells_waiting = 0

    @contextmanager
    def held(self, *, background: bool) -> Generator[None]:
        """Wait for the turn, and have it inside the `with`."""
        self.take(background=background)
        try:
            yield
        finally:
            self.give()

    @property
    def wanted(self) -> bool:
        """Return whether the search of a cell waits for the turn."""
        return self._cells_waiting > 0

    def take(self, *, background: bool, each_look: Callable[[], object] = lambda: None) -> None:
        """Wait for the turn; `each_look` is called meanwhile.  Ctrl-C, and `stoppable`'s event, end the wait."""
        me = threading.get_ident()
        with deferred_interrupts() as deferral, self._changed:
            if self._owner == me:
                self._depth += 1
                return
            self._cells_waiting += not background
            try:
                self._wait(deferral, background, each_look)
            finally:
                self._cells_waiting -= not background
            self._owner, self._depth = me, 1

    def _wait(self, deferral: DeferredInterrupts, background: bool, each_look: Callable[[], object]) -> None:
        while self._owner is not None or (background and self._cells_waiting):
            self._changed.wait(LOOK)
            deferral.deliver()
            each_look()

    def give(self) -> None:
        """Give the turn away; does nothing where this thread does not have it."""
        with deferred_interrupts(), self._changed:
            if self._owner != threading.get_ident():
                return
            self._depth -= 1
            if self._depth == 0:
                self._owner = None
                self._changed.notify_all()


TURN: Final = MeasuringTurn()
"""The process's."""
