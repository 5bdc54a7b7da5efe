"""A barrier among ranks of one process, whose time-out names the ranks that did not come."""

import threading
import time

from tessera.core.base.interrupts import LOOK, raise_if_stopped
from tessera.core.errors.catalog import CollectiveStopped, RanksMissing


def missing(ranks: list[int], timeout: float, what: str) -> RanksMissing:
    """Return the mistake that names ranks which are missing."""
    names = ", ".join(map(str, ranks))
    message = f"{what}: {'rank' if len(ranks) == 1 else 'ranks'} {names} did not come within {timeout:g} s"
    return RanksMissing(message, hint="look what they wait for, or give a longer timeout")


class RankBarrier:
    """A barrier of `ranks` threads that can be used again and again."""

    def __init__(self, ranks: int) -> None:
        self._ranks = ranks
        self._changed = threading.Condition()
        self._here: set[int] = set()
        self._round = 0
        self._ended = False

    def wait(self, rank: int, timeout: float) -> None:
        """Wait until all ranks have come.

        Raises RanksMissing, in all that wait, once one has waited too long; CollectiveStopped after `end`.
        """
        limit = time.monotonic() + timeout
        with self._changed:
            mine = self._round
            self._here.add(rank)
            if len(self._here) == self._ranks:
                self._here.clear()
                self._round += 1
                self._changed.notify_all()
                return
            while self._round == mine:
                if self._ended:
                    raise CollectiveStopped("the barrier was ended", hint="another rank has failed, or Ctrl-C came")
                raise_if_stopped()
                if time.monotonic() > limit:
                    absent = sorted(set(range(self._ranks)) - self._here)
                    self.end()
                    raise missing(absent, timeout, "barrier")
                self._changed.wait(min(LOOK, max(0.0, limit - time.monotonic()) + 0.001))

    def end(self) -> None:
        """Let everyone who waits, and who will, raise CollectiveStopped."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def renew(self) -> None:
        """Let the barrier be used again after `end`."""
        with self._changed:
            self._ended = False
            self._here.clear()
            self._round += 1
            self._changed.notify_all()
