"""How a search shows how far it is: one line of a terminal, or a display of a notebook, that is kept up to date.

Where neither is there, as in a script whose errors go to a file, nothing is shown.  The setting `progress` and the
argument of that name switch it off.
"""

import shutil
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Final, Protocol, TextIO

from tessera.core.events import Event, TrialMeasured, subscribe
from tessera.core.settings import current
from tessera.tuning.results import PASSING, Tuning, choose, show

_PAUSE: Final = 0.1
"""Seconds between two states that are shown, at least: showing one takes time from what is measured."""


@dataclass(frozen=True, slots=True)
class Status:
    """How far a search is.

    tuning: what was found so far; phase: what it is doing, in words; seconds: since it began
    """

    tuning: Tuning
    phase: str
    seconds: float

    @property
    def settled(self) -> int:
        """Configurations that had their turn."""
        return sum(trial.status not in PASSING for trial in self.tuning.trials)

    @property
    def line(self) -> str:
        """The state in one line."""
        tuning = self.tuning
        parts = [f"tuning {tuning.kernel}: {self.settled} of {len(tuning.trials)}", *self._best()]
        if len(tuning.calibration.ratios) > 1:
            parts.append(f"predictions {tuning.calibration.reach}")
        return "; ".join([*parts, self.phase])

    @property
    def last_line(self) -> str:
        """What remains to be said when the search has ended."""
        tuning, count = self.tuning, len(self.tuning.trials)
        if tuning.interrupted:
            head = f"tuning of {tuning.kernel} interrupted after {self.settled} of {count} configurations"
            return "; ".join([head, *(self._best() or ["nothing was measured"]), "the next search goes on from here"])
        head = f"tuned {tuning.kernel}: {self.settled} of {count} configurations in {self.seconds:.1f} s"
        return "; ".join([head, *self._best()])

    def _best(self) -> list[str]:
        best = choose(self.tuning.trials, self.tuning.default)
        if best is None or best.median is None:
            return []
        faster = self.tuning.speedup
        ratio = f", {faster:.2f} times as fast as the default" if faster is not None else ""
        return [f"best {show(best.config)} with {best.median * 1e6:,.1f} us{ratio}"]


class Reporter(Protocol):
    """Shows the state of one search."""

    def show(self, status: Status) -> None:
        """Show a state in place of the one before."""
        ...

    def close(self, status: Status) -> None:
        """Show the last one."""
        ...


class Line:
    """The last line of a terminal, written again and again."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def show(self, status: Status) -> None:
        """Write the line over the one before; what the terminal's width has no room for is cut off."""
        width = shutil.get_terminal_size().columns - 1
        self._write(f"\r\x1b[K{status.line[:width]}")

    def close(self, status: Status) -> None:
        """Leave the last line standing."""
        self._write(f"\r\x1b[K{status.last_line}\n")

    def _write(self, text: str) -> None:
        encoding = self._stream.encoding or "ascii"
        self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
        self._stream.flush()


@dataclass(slots=True)
class Notebook:
    """Where displays of a notebook are made: whoever knows how sets `opener`; it gives None outside of notebooks."""

    opener: Callable[[], Reporter | None] | None = None


NOTEBOOK: Final = Notebook()
"""The notebook of this process."""


class Progress:
    """A subscriber that shows states of one search from its first trial on, at most one every tenth of a second.

    search: its number in `TrialMeasured`; wanted: None: what the setting says
    """

    def __init__(self, search: int, status: Callable[[str], Status], wanted: bool | None) -> None:
        self._search, self._status = search, status
        self._wanted = current().progress if wanted is None else wanted
        self._reporter: Reporter | None = None
        self._next = 0.0

    def watching(self) -> AbstractContextManager[object]:
        """Subscribe to the trials inside the `with`, where anything is to be shown."""
        return subscribe(self.see, TrialMeasured) if self._wanted else nullcontext()

    def see(self, event: Event) -> None:
        """Show the state, unless that was done just now."""
        if not isinstance(event, TrialMeasured) or event.search != self._search:
            return
        if not self._wanted or time.monotonic() < self._next:
            return
        if self._reporter is None:
            self._reporter = _reporter()
            self._wanted = self._reporter is not None
        if self._reporter is not None:
            self._reporter.show(self._status(event.phase))
        self._next = time.monotonic() + _PAUSE

    def close(self) -> None:
        """Show the end, if anything was shown."""
        if self._reporter is not None:
            self._reporter.close(self._status(""))


def _reporter() -> Reporter | None:
    found = NOTEBOOK.opener() if NOTEBOOK.opener is not None else None
    if found is not None:
        return found
    stream = sys.stderr
    return Line(stream) if stream is not None and stream.isatty() else None  # pyright: ignore[reportUnnecessaryComparison] - under pythonw there is none
