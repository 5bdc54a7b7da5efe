"""View model of a search: its trials as columns of numbers, one row a configuration, so that 10,000 stay fluid.

Sorting, brushing and the best so far are decided here; the renderer repeats the first two on the same columns, as a
page has no kernel to ask.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, cast

import numpy as np

from tessera.core.program.program import Attribute
from tessera.tuning.final_rounds import Finalist, final_rounds
from tessera.tuning.results import MEASURED, PASSING, STATUSES, Config, Trial, Tuning, choose, config_key

Column = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
Codes = np.ndarray[tuple[int, ...], np.dtype[np.int32]]

TIME: Final = "time"
PREDICTED: Final = "predicted"
TRIAL: Final = "trial"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of the space: an axis.

    values: what it takes, in order, as texts; keys: the same as JSON, of which keys of configurations are made
    codes: of each row, the place of its value in `values`, -1 where the configuration does not have the parameter
    """

    name: str
    values: tuple[str, ...]
    keys: tuple[str, ...]
    codes: Codes


@dataclass(frozen=True, slots=True)
class TuningModel:
    """A search as columns; NaN, or -1, where a row has no value.

    status: place in `STATUSES`; seconds: the median of a launch; shortest: the fastest launch
    predicted: as the cost model said it, to be multiplied with `scale`
    rank: when a row was settled, 0 for the first, -1 for one that was not; at: seconds after the first
    message: place in `messages`, which say why a row has no time; same_as: the row whose code it has
    disturbed: launches that other work of the process disturbed; launches: how many were timed
    best, default: rows, -1 where there is none
    flops, traffic: operations and bytes of a launch, 0 where they are not counted
    told: the error of the predictions so far, in words
    finalists: what the rounds that decided say, the best first
    """

    kernel: str
    device: str
    log: str
    parameters: tuple[Parameter, ...]
    status: Codes
    seconds: Column
    shortest: Column
    predicted: Column
    rank: Codes
    at: Column
    message: Codes
    messages: tuple[str, ...]
    same_as: Codes
    disturbed: Codes
    launches: Codes
    best: int
    default: int
    scale: float
    told: str
    flops: float
    traffic: float
    complete: bool
    interrupted: bool
    notes: tuple[str, ...]
    finalists: tuple[Finalist, ...] = ()

    def __len__(self) -> int:
        return len(self.status)

    @property
    def settled(self) -> int:
        """Rows that had their turn."""
        passing = [STATUSES.index(status) for status in PASSING]
        return int(len(self) - np.isin(self.status, passing).sum())

    def config(self, row: int) -> dict[str, Attribute]:
        """Return the configuration of a row."""
        found: dict[str, Attribute] = {}
        for parameter in self.parameters:
            code = int(parameter.codes[row])
            if code >= 0:
                found[parameter.name] = _thawed(cast("object", json.loads(parameter.keys[code])))
        return found

    def column(self, name: str) -> Column:
        """Return a column by its name: a parameter's places, or one of `time`, `predicted`, `trial`.

        Raises KeyError for any other name.
        """
        if name == TIME:
            return self.seconds
        if name == PREDICTED:
            return self.predicted * self.scale
        if name == TRIAL:
            return np.where(self.rank < 0, np.nan, self.rank).astype(np.float64)
        for parameter in self.parameters:
            if parameter.name == name:
                return np.where(parameter.codes < 0, np.nan, parameter.codes).astype(np.float64)
        raise KeyError(name)

    def sorted_by(self, name: str, *, descending: bool = False) -> Codes:
        """Return the rows in the order of a column; those without a value come last, equal ones as they stand."""
        values = self.column(name)
        signed = -values if descending else values
        return np.lexsort((np.arange(len(self)), np.where(np.isnan(values), np.inf, signed))).astype(np.int32)

    def brushed(self, ranges: Mapping[str, tuple[float, float]]) -> Codes:
        """Return the rows that lie inside every range, ends included; one without a value lies in none."""
        inside = np.ones(len(self), bool)
        for name, (low, high) in ranges.items():
            values = self.column(name)
            inside &= (values >= low) & (values <= high)
        return np.flatnonzero(inside).astype(np.int32)

    def best_so_far(self) -> tuple[Codes, Column]:
        """Return the ranks at which a row was faster than all before, and the seconds of these."""
        order = np.argsort(self.rank, kind="stable")
        order = order[(self.rank[order] >= 0) & ~np.isnan(self.seconds[order])]
        lowest = np.minimum.accumulate(self.seconds[order]) if len(order) else self.seconds[order]
        before = np.concatenate(([np.inf], lowest))[: len(order)]
        steps = order[lowest < before]
        return self.rank[steps], self.seconds[steps]


def model_of(tuning: Tuning) -> TuningModel:
    """Return what to draw of a search, finished or not."""
    trials = tuning.trials
    rows = {config_key(trial.config): row for row, trial in enumerate(trials)}
    chosen = choose(trials, tuning.default)
    best = -1 if chosen is None else rows[config_key(chosen.config)]
    messages = tuple(dict.fromkeys(trial.error for trial in trials if trial.error))
    places = {text: place for place, text in enumerate(messages)}
    return TuningModel(
        tuning.kernel, tuning.device, tuning.log, parameters_of([trial.config for trial in trials]),
        _codes(STATUSES.index(trial.status) for trial in trials),
        _column(trial.median for trial in trials),
        _column(shortest(trial) for trial in trials),
        _column(trial.predicted for trial in trials),
        *_order(trials),
        _codes(places.get(trial.error, -1) for trial in trials), messages,
        _codes(-1 if t.same_as is None else rows.get(config_key(t.same_as), -1) for t in trials),
        _codes(trial.disturbed for trial in trials),
        _codes(len(trial.compared or trial.seconds) for trial in trials),
        best,
        -1 if tuning.default is None else rows.get(config_key(tuning.default), -1),
        tuning.calibration.scale, tuning.calibration.told, tuning.flops, tuning.traffic,
        tuning.complete, tuning.interrupted, tuning.notes, final_rounds(trials, best),
    )  # fmt: skip


def shortest(trial: Trial) -> float | None:
    """Return the fastest launch of a trial."""
    return min(trial.compared or trial.seconds, default=None)


def parameters_of(configs: Sequence[Config]) -> tuple[Parameter, ...]:
    """Return the axes: numbers in their order, and other values in that of their texts."""
    found: list[Parameter] = []
    for name in dict.fromkeys(name for config in configs for name in config):
        # By type too: True and 1 are equal, and two values.
        held = [(type(config[name]), config[name]) if name in config else None for config in configs]
        ordered = sorted({each for each in held if each is not None}, key=lambda each: _place(each[1]))
        codes = {each: code for code, each in enumerate(ordered)}
        texts = tuple(str(value) for _, value in ordered)
        keys = tuple(json.dumps(value, default=list) for _, value in ordered)
        found.append(Parameter(name, texts, keys, _codes(-1 if each is None else codes[each] for each in held)))
    return tuple(found)


def _place(value: Attribute) -> tuple[int, float, str]:
    if isinstance(value, int | float):
        return (0, float(value), "")
    return (1, 0.0, str(value))


def _order(trials: Sequence[Trial]) -> tuple[Codes, Column]:
    """Return when each trial was settled: its rank, and the seconds since the first.

    Trials without a time, as records of earlier versions have them, are taken to be in order.
    """
    settled = [row for row, trial in enumerate(trials) if trial.status not in PASSING or trial.at]
    settled.sort(key=lambda row: trials[row].at)
    rank, at = np.full(len(trials), -1, np.int32), np.full(len(trials), np.nan)
    first = trials[settled[0]].at if settled else 0.0
    for place, row in enumerate(settled):
        rank[row], at[row] = place, trials[row].at - first
    return rank, at


def time_left(settled: int, total: int, seconds: float, budget: float) -> float | None:
    """Estimate the seconds that a search still takes: as long for each configuration as so far, within its budget.

    None: nothing is settled yet.
    """
    if not settled:
        return None
    return max(0.0, min((total - settled) * seconds / settled, budget - seconds))


def measured_rows(model: TuningModel) -> Codes:
    """Return the rows with a time."""
    return np.flatnonzero(model.status == STATUSES.index(MEASURED)).astype(np.int32)


def _thawed(value: object) -> Attribute:
    if isinstance(value, list):
        return tuple(_thawed(item) for item in cast("list[object]", value))
    return cast("Attribute", value)


def _codes(values: Iterable[int]) -> Codes:
    return np.fromiter(values, np.int32)


def _column(values: Iterable[float | None]) -> Column:
    return np.fromiter((math.nan if value is None else value for value in values), np.float64)
