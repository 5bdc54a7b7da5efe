"""The results of a search for the fastest configuration: its trials, and the choice among them."""

import json
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, NotRequired, TypedDict

from tessera.core.errors.catalog import TuningFailed
from tessera.core.program.program import Attribute
from tessera.performance.cost_model import Calibration

Config = Mapping[str, Attribute]

MEASURED: Final = "measured"
DUPLICATE: Final = "duplicate"
ILLEGAL: Final = "illegal"
PRUNED: Final = "pruned"
FAILED: Final = "failed"
SKIPPED: Final = "skipped"
STATUSES: Final = (MEASURED, DUPLICATE, ILLEGAL, PRUNED, FAILED, SKIPPED)
PASSING: Final = (FAILED, SKIPPED)
"""What says nothing of the configuration, and may be otherwise the next time."""

_MARGIN: Final = 0.01
"""A configuration that is faster than the default by less than this is no better."""
_CONFIDENCE: Final = 1.645
"""Standard deviations that a count of wins must be above chance: 19 in 20, one-sided."""
_INTENSE: Final = 16.0
"""Operations per byte of memory from which a rate is told in operations."""


class TrialDocument(TypedDict):
    """A trial as plain data, see `Trial`."""

    config: Config
    status: str
    seconds: Sequence[float]
    code: str
    error: str
    same_as: Config | None
    predicted: float | None
    compared: Sequence[float]
    flops: float
    traffic: float
    at: NotRequired[float]
    disturbed: NotRequired[int]
    median: NotRequired[float | None]


class TuningDocument(TypedDict):
    """A search as plain data; `best` and `default` are configurations."""

    kernel: str
    device: str
    complete: bool
    best: Config
    default: Config | None
    trials: list[TrialDocument]


@dataclass(frozen=True, slots=True)
class Trial:
    """One configuration.

    status: "measured"; "duplicate": it compiles to the code of `same_as`, whose times are its own; "illegal": it
            cannot be compiled or run; "pruned": the cost model gave it no chance, so it never ran; "failed": the
            compiler crashed, took too long or lacks a tool, which says nothing of the configuration; `error` says why;
            "skipped": the search ended before its turn.  What failed or was skipped is not kept on disk
    seconds: one time a launch, in the order they were taken
    code: identity of the compiled code
    predicted: seconds that the cost model expects, before it is corrected by what was measured; None: it was not asked
    compared: times of the last comparison of the best with the default, taken in turns: the n-th ones belong together
    flops, traffic: operations of a launch, and bytes that memory must move at least; 0: not counted
    at: when it was settled first, seconds since 1970; 0: that is not known
    disturbed: launches among `seconds` during which other work of this process took the machine, however often they
        were repeated
    """

    config: Config
    status: str
    seconds: tuple[float, ...] = ()
    code: str = ""
    error: str = ""
    same_as: Config | None = None
    predicted: float | None = None
    compared: tuple[float, ...] = ()
    flops: float = 0.0
    traffic: float = 0.0
    at: float = field(default=0.0, compare=False)
    disturbed: int = field(default=0, compare=False)

    @property
    def median(self) -> float | None:
        """Median of the times of the last comparison, or else of `seconds`."""
        times = self.compared or self.seconds
        return statistics.median(times) if times else None

    def to_dict(self) -> TrialDocument:
        """Return the trial as plain data, with its median."""
        return {
            "config": dict(self.config), "status": self.status, "seconds": self.seconds, "code": self.code,
            "error": self.error, "same_as": None if self.same_as is None else dict(self.same_as),
            "predicted": self.predicted, "compared": self.compared, "flops": self.flops, "traffic": self.traffic,
            "at": self.at, "disturbed": self.disturbed, "median": self.median,
        }  # fmt: skip


def beats(times: Sequence[float], others: Sequence[float]) -> bool:
    """Return whether `times` are shorter beyond noise than `others` of the same rounds: by median, and in most rounds.

    This is the sign test: a slow spell of the machine costs a round, not the comparison.
    """
    ratios = [a / b for a, b in zip(times, others, strict=True)]
    wins, count = sum(ratio < 1.0 for ratio in ratios), len(ratios)
    return statistics.median(ratios) < 1.0 - _MARGIN and wins >= count / 2 + _CONFIDENCE * math.sqrt(count) / 2


def _is_faster(trial: Trial, default: Trial) -> bool:
    """Return whether a trial is faster than the default: round by round, where they were compared."""
    if trial.compared and len(trial.compared) == len(default.compared):
        return beats(trial.compared, default.compared)
    return (trial.median or 0.0) < (1.0 - _MARGIN) * (default.median or 0.0)


def choose(trials: Iterable[Trial], default: Config | None) -> Trial | None:
    """Return the trial to take: the fastest, or the default where it is as fast; None where nothing was measured.

    Where some were compared with the default in turns, only these count: other times were taken at other moments.
    """
    by_key = {config_key(trial.config): trial for trial in trials}
    measured = [trial for trial in by_key.values() if trial.status == MEASURED and trial.median is not None]
    pool = [trial for trial in measured if trial.compared] or measured
    best = min(pool, key=lambda trial: trial.median or 0.0, default=None)
    own = by_key.get(config_key(default)) if default is not None else None
    if own is not None and own.same_as is not None:
        own = by_key.get(config_key(own.same_as))
    if best is None or own is None or own.median is None or _is_faster(best, own):
        return best
    return own


def calibration(trials: Iterable[Trial]) -> Calibration:
    """Relate the cost model's predictions to measured times: the shortest times, which noise only lengthens."""
    return Calibration(tuple(
        min(trial.compared or trial.seconds) / trial.predicted
        for trial in trials if trial.status == MEASURED and trial.seconds and trial.predicted
    ))  # fmt: skip


@dataclass(frozen=True)
class Tuning(Mapping[str, Attribute]):
    """The outcome of a search; as a mapping, the best configuration: `tuning["BM"]`.

    device: what it was measured on; complete: every configuration had its turn
    log: path of the search's log, "" where nothing is kept on disk
    default: the kernel's own values; None where it has none, as a name of the space is defined nowhere else
    notes: what there is to say of the space, such as names that have no effect
    interrupted: Ctrl-C ended the search
    """

    kernel: str
    device: str
    trials: tuple[Trial, ...]
    complete: bool
    log: str = ""
    default: Config | None = None
    notes: tuple[str, ...] = ()
    interrupted: bool = False

    @cached_property
    def best(self) -> Trial:
        """The fastest trial, or the default's where none is faster, and where nothing was measured.

        Raises TuningFailed where neither is there.
        """
        chosen = choose(self.trials, self.default)
        if chosen is None and self.default is not None:
            own = config_key(self.default)
            chosen = next((t for t in self.trials if config_key(t.config) == own and t.status in PASSING), None)
        if chosen is None:
            raise TuningFailed(f"nothing was measured of {self.kernel}")
        return chosen

    @property
    def config(self) -> dict[str, Attribute]:
        """The best configuration."""
        return dict(self.best.config)

    @cached_property
    def own(self) -> Trial | None:
        """The default's trial."""
        return self.find(self.default) if self.default is not None else None

    def is_default(self, trial: Trial) -> bool:
        """Return whether a trial is that of the kernel's own values."""
        return self.default is not None and config_key(trial.config) == config_key(self.default)

    def find(self, config: Config) -> Trial | None:
        """Return the trial of a configuration; of one that compiles to another's code, that one's."""
        by_key = {config_key(trial.config): trial for trial in self.trials}
        found = by_key.get(config_key(config))
        return by_key.get(config_key(found.same_as)) if found is not None and found.same_as is not None else found

    @property
    def speedup(self) -> float | None:
        """The default's time over the best one's; None where one of them was not measured."""
        if self.own is None or self.own.median is None or self.best.median is None:
            return None
        return self.own.median / self.best.median

    @cached_property
    def calibration(self) -> Calibration:
        """How the cost model's predictions relate to what was measured."""
        return calibration(self.trials)

    def sorted_trials(self) -> list[Trial]:
        """Return the trials, the best one first, then those compared with it, then by times; last what has none."""
        best = choose(self.trials, self.default)
        return sorted(self.trials, key=lambda t: (t is not best, not t.compared, t.median is None, t.median or 0.0))

    @property
    def flops(self) -> float:
        """Operations of a launch, the least that any configuration does; 0: not counted."""
        return min((t.flops for t in self.trials if t.flops), default=0.0)

    @property
    def traffic(self) -> float:
        """Bytes that memory must move in a launch, the least of any configuration; 0: not counted."""
        return min((t.traffic for t in self.trials if t.traffic), default=0.0)

    def rate(self, trial: Trial) -> str:
        """Return operations or bytes a second, "123.4 GFLOP/s" or "56.7 GB/s"; "" where the work was not counted.

        The work is the least that any configuration does: what a larger tile does beyond the edges is no use.
        """
        flops, traffic = self.flops, self.traffic
        if trial.median is None or not (flops or traffic):
            return ""
        if flops >= _INTENSE * traffic:
            return f"{flops / trial.median / 1e9:,.1f} GFLOP/s"
        return f"{traffic / trial.median / 1e9:,.1f} GB/s"

    def __getitem__(self, name: str) -> Attribute:
        return self.best.config[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.best.config)

    def __len__(self) -> int:
        return len(self.best.config)

    def __repr__(self) -> str:
        counts = Counter(trial.status for trial in self.trials)
        told = ", ".join(f"{counts[s]} {s}" for s in STATUSES if counts[s])
        ended = "; interrupted" if self.interrupted else ""
        return f"<tuning of {self.kernel} on {self.device}: best {show(self.best.config)}; {told}{ended}>"

    def table(self) -> str:
        """Return one line a trial, the best first; then remarks on predictions and on the space."""
        names = list(dict.fromkeys(name for trial in self.trials for name in trial.config))
        rows = [[*(_cell(trial.config, name) for name in names), self.remark(trial)] for trial in self.sorted_trials()]
        widths = [max(len(row[at]) for row in [names, *rows]) for at in range(len(names))]
        lines = [
            "  ".join([*(cell.rjust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
            for row in [[*names, ""], *rows]
        ]
        return "\n".join([*lines, *filter(None, [self.calibration.told]), *self.notes])

    def remark(self, trial: Trial) -> str:
        """Return a remark on a trial: its time, rate and prediction, or why it has none."""
        mark = " (default)" if self.is_default(trial) else ""
        if trial.status == DUPLICATE:
            return f"same code as {show(trial.same_as or {})}{mark}"
        if trial.median is None:
            return f"{trial.status} {trial.error}".rstrip() + mark
        parts = [f"{trial.median * 1e6:,.1f} us", self.rate(trial)]
        if trial.predicted is not None:
            expected = self.calibration.corrected(trial.predicted)
            parts.append(f"predicted {expected * 1e6:,.1f} us ({expected / trial.median - 1:+.0%})")
        return ", ".join(filter(None, parts)) + mark

    def failure(self) -> TuningFailed:
        """Return the mistake of a search in which no configuration runs, with the reason of the first one."""
        errors = [trial for trial in self.trials if trial.error]
        reason = f": {show(errors[0].config)}: {errors[0].error}" if errors else ""
        return TuningFailed(f"none of the {len(self.trials)} configurations of {self.kernel} runs{reason}")

    def to_dict(self) -> TuningDocument:
        """Return everything as plain data."""
        return {
            "kernel": self.kernel,
            "device": self.device,
            "complete": self.complete,
            "best": self.config,
            "default": None if self.default is None else dict(self.default),
            "trials": [trial.to_dict() for trial in self.trials],
        }


def _cell(config: Config, name: str) -> str:
    return str(config[name]) if name in config else "-"


def show(config: Config) -> str:
    """Return a configuration as text: "BM=64 BN=128"."""
    return " ".join(f"{name}={value}" for name, value in config.items()) or "the kernel's own values"


def config_key(config: Config) -> str:
    """Return one configuration as a key, whatever the order of its parameters."""
    return json.dumps(dict(sorted(config.items())), default=list)


def median_of(times: Sequence[float]) -> float:
    """Return the median; infinite where there are none."""
    return statistics.median(times) if times else float("inf")
