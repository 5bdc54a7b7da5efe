"""Follow a search that runs: what changed since a page was told last, in a few kilobytes, ten times a second at most.

Trials come one by one, in the search's thread, and change rows of columns; a model is made from scratch only where
configurations are added by hand.
"""

import dataclasses
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from tessera.performance.cost_model import Calibration
from tessera.tuning.background import BackgroundSearch
from tessera.tuning.final_rounds import Finalist, final_rounds
from tessera.tuning.results import STATUSES, Trial, Tuning, choose, config_key
from tessera.viz.base.payload import Json, encode
from tessera.viz.tuning.importance import importance
from tessera.viz.tuning.model import TuningModel, model_of, shortest, time_left

PAUSE: Final = 0.1
"""Seconds between two messages to a page, at least."""
Push = Callable[[Mapping[str, object]], object]


@dataclass(frozen=True, slots=True)
class Head:
    """Headline above the charts.

    state, phase: of the search; settled, total: configurations; seconds: so far; left: those it still takes, estimated
    best, default, pins: rows; scale, told: of the predictions; effects, full: main effects, see `importance`
    curve: ranks and seconds of the best so far; finalists: what the rounds that decided say, the best first
    """

    state: str
    phase: str
    settled: int
    total: int
    seconds: float
    budget: float
    left: float | None
    best: int
    default: int
    pins: tuple[int, ...]
    scale: float
    told: str
    flops: float
    traffic: float
    effects: tuple[object, ...]
    full: bool
    curve: tuple[tuple[int, float], ...]
    finalists: tuple[Finalist, ...]


def head_of(
    model: TuningModel, state: str, phase: str = "", seconds: float = math.nan, budget: float = math.nan,
    pins: Sequence[int] = (),
) -> Head:  # fmt: skip
    """Return what stands above the charts of a model."""
    running = not math.isnan(budget)
    ranks, times = model.best_so_far()
    found = importance(model)
    return Head(
        state, phase, model.settled, len(model), seconds, budget,
        time_left(model.settled, len(model), seconds, budget) if running else None,
        model.best, model.default, tuple(pins), model.scale, model.told, model.flops, model.traffic,
        found.effects, found.full, tuple(zip(map(int, ranks), map(float, times), strict=True)), model.finalists,
    )  # fmt: skip


class Follower:
    """The model of a search that runs, kept up to date row by row, and the pages that are told of it."""

    def __init__(self, search: BackgroundSearch) -> None:
        self._search = search
        self._lock = threading.RLock()
        self._pushes: tuple[Push, ...] = ()
        self._version = 0
        self._next = 0.0
        self._told: tuple[object, ...] = ()
        self._told_version = 0
        self._at_end: tuple[Callable[[], object], ...] = ()
        self._ended = False
        self._build(search.result)
        self.close = search.listen(self)

    def _build(self, tuning: Tuning) -> None:
        self._tuning = tuning
        self._trials = list(tuning.trials)
        self._rows = {config_key(trial.config): row for row, trial in enumerate(self._trials)}
        self._model = model_of(tuning)
        self._changed = np.full(len(self._trials), self._version, np.int64)
        self._first = min((t.at for t in self._trials if t.at), default=0.0)
        self._messages = {text: place for place, text in enumerate(self._model.messages)}
        self._built = self._version

    # -- in the search's thread -------------------------------------------------------------------------------------

    def recorded(self, trial: Trial) -> None:
        """Change the trial's row."""
        with self._lock:
            self._version += 1
            row = self._rows.get(config_key(trial.config))
            if row is None:
                self._build(self._search.result)
                return
            self._trials[row] = trial
            self._changed[row] = self._version
            self._set(row, trial)

    def _set(self, row: int, trial: Trial) -> None:
        model = self._model
        model.status[row] = STATUSES.index(trial.status)
        model.seconds[row] = _number(trial.median)
        model.shortest[row] = _number(shortest(trial))
        model.predicted[row] = _number(trial.predicted)
        if model.rank[row] < 0:
            model.rank[row] = int(model.rank.max()) + 1
        self._first = self._first or trial.at
        model.at[row] = trial.at - self._first
        model.message[row] = self._messages.setdefault(trial.error, len(self._messages)) if trial.error else -1
        model.same_as[row] = -1 if trial.same_as is None else self._rows.get(config_key(trial.same_as), -1)
        model.disturbed[row] = trial.disturbed
        model.launches[row] = len(trial.compared or trial.seconds)

    def beat(self) -> None:
        """Tell the pages what changed, unless they were told just now or nothing did."""
        search = self._search
        ended = search.state not in ("running", "paused")
        self._tell_end(ended=ended)
        if time.monotonic() < self._next and not ended:
            return
        with self._lock:
            news = (self._version, search.state, search.phase, search.pins)
            if news == self._told and not ended:
                return
            before, self._told, self._told_version = self._told_version, news, self._version
            if not self._pushes:
                return
            message = self.since(before)
            pushes = self._pushes
        for push in pushes:
            push(message)
        self._next = time.monotonic() + PAUSE

    def _tell_end(self, *, ended: bool) -> None:
        with self._lock:
            now, self._ended = ended and not self._ended, ended
        if now:
            for then in self._at_end:
                then()

    def when_ended(self, then: Callable[[], object]) -> None:
        """Call `then` whenever the search has ended: again where it goes on with configurations by hand."""
        with self._lock:
            self._at_end = (*self._at_end, then)
        if self._search.state not in ("running", "paused"):
            then()

    # -- from anywhere ----------------------------------------------------------------------------------------------

    def follow(self, push: Push) -> None:
        """Have a page told of every change."""
        with self._lock:
            self._pushes = (*self._pushes, push)

    @property
    def model(self) -> TuningModel:
        """The search as it is now: the same for ever."""
        return model_of(self._search.result)

    def payload(self) -> dict[str, Json]:
        """Return everything that a page draws, as it is now."""
        with self._lock:
            return payload_of(self._model, self._head(self._current()), self._version, tuple(self._messages))

    def since(self, version: int) -> dict[str, object]:
        """Return what changed since a version, for a page that knows that one."""
        with self._lock:
            if version < self._built:
                return {"type": "anew"}
            rows = np.flatnonzero(self._changed > version).astype(np.int32)
            model = self._model
            named = {name: encode(getattr(model, name)[rows]) for name in COLUMNS}
            return {
                "type": "delta", "from": version, "to": self._version, "rows": encode(rows), "columns": named,
                "messages": tuple(self._messages), "head": encode(self._head(self._current())),
            }  # fmt: skip

    def _current(self) -> TuningModel:
        """Return the model with what follows from all rows: the best, the error of predictions, the work."""
        model = self._model
        ratios = model.shortest / model.predicted
        known = Calibration(tuple(ratios[np.isfinite(ratios)].tolist()))
        best = self._best()
        work = [(t.flops, t.traffic) for t in self._trials if t.flops or t.traffic]
        flops = min((flops for flops, _ in work if flops), default=0.0)
        traffic = min((traffic for _, traffic in work if traffic), default=0.0)
        return dataclasses.replace(
            model, best=best, scale=known.scale, told=known.told, flops=flops, traffic=traffic,
            finalists=final_rounds(self._trials, best),
        )  # fmt: skip

    def _best(self) -> int:
        """Return the row that `choose` takes, which looks at few rows: those compared, or else the fastest one."""
        model, default = self._model, self._tuning.default
        rows = {row for row, trial in enumerate(self._trials) if trial.compared}
        if not rows and np.isfinite(model.seconds).any():
            rows = {int(np.nanargmin(model.seconds))}
        if model.default >= 0:
            rows |= {model.default, int(model.same_as[model.default])} - {-1}
        found = choose([self._trials[row] for row in sorted(rows)], default)
        return -1 if found is None else self._rows[config_key(found.config)]

    def _head(self, model: TuningModel) -> Head:
        search = self._search
        pins = [self._rows[key] for key in map(config_key, search.pins) if key in self._rows]
        return head_of(model, search.state, search.phase, search.seconds, search.budget, pins)


COLUMNS: Final = (
    "status", "seconds", "shortest", "predicted", "rank", "at", "message", "same_as", "disturbed", "launches",
)  # fmt: skip
"""Columns of a model with one number a row."""


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def payload_of(
    model: TuningModel, head: Head, version: int = 0, messages: Sequence[str] | None = None
) -> dict[str, Json]:  # fmt: skip
    """Return what the renderer draws from."""
    return {
        "parameters": [
            {"name": each.name, "values": list(each.values), "keys": list(each.keys), "codes": encode(each.codes)}
            for each in model.parameters
        ],
        "columns": {name: encode(getattr(model, name)) for name in COLUMNS},
        "messages": list(model.messages if messages is None else messages),
        "statuses": list(STATUSES),
        "head": encode(head),
        "version": version,
        "notes": list(model.notes),
        "kernel": model.kernel,
        "device": model.device,
    }
