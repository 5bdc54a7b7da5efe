"""How a search shows how far it is; `core/progress.py` says where."""

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from tessera.core.events import TrialMeasured, subscribe
from tessera.core.progress import PAUSE, Reporter, reporter
from tessera.core.settings import current
from tessera.tuning.results import PASSING, Tuning, choose, show


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
    def share(self) -> float:
        """The share of the configurations that had their turn."""
        return self.settled / max(1, len(self.tuning.trials))

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
        """The last line, when the search has ended."""
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

    def see(self, event: TrialMeasured) -> None:
        """Show the state, unless that was done just now."""
        if event.search != self._search or not self._wanted or time.monotonic() < self._next:
            return
        if self._reporter is None:
            self._reporter = reporter()
            self._wanted = self._reporter is not None
        if self._reporter is not None:
            self._reporter.show(self._status(event.phase))
        self._next = time.monotonic() + PAUSE

    def close(self) -> None:
        """Show the end, if anything was shown."""
        if self._reporter is not None:
            self._reporter.close(self._status(""))
