"""What a search for the fastest configuration found, and its copies on disk.

A record is a JSON file with everything known about one kernel, class of shapes and device; beside it lies its log, with
one JSON object a line, to which every event of every search is appended when it happens: a dashboard can read it while
the search runs, and a search that died is continued from it.
"""

import dataclasses
import hashlib
import json
import os
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from tessera.core.program.program import Attribute

_FORMAT: Final = 2
Config = Mapping[str, Attribute]

MEASURED: Final = "measured"
DUPLICATE: Final = "duplicate"
ILLEGAL: Final = "illegal"
PRUNED: Final = "pruned"
FAILED: Final = "failed"
SKIPPED: Final = "skipped"
STATUSES: Final = (MEASURED, DUPLICATE, ILLEGAL, PRUNED, FAILED, SKIPPED)
_PASSING: Final = (FAILED, SKIPPED)

BEGIN: Final = "begin"
TRIAL: Final = "trial"
END: Final = "end"


@dataclass(frozen=True, slots=True)
class Trial:
    """One configuration.

    status: "measured"; "duplicate": it compiles to the code of `same_as`, whose times are its own; "illegal": it
            cannot be compiled or run; "pruned": the cost model gave it no chance, so it never ran; "failed": the
            compiler crashed, took too long or lacks a tool, which says nothing of the configuration; `error` says why;
            "skipped": the search ended before its turn.  What failed or was skipped is not kept on disk
    seconds: one time a launch, in the order they were taken
    code: identity of the compiled code
    predicted: seconds the cost model expects, None where it was not asked
    """

    config: Config
    status: str
    seconds: tuple[float, ...] = ()
    code: str = ""
    error: str = ""
    same_as: Config | None = None
    predicted: float | None = None

    @property
    def median(self) -> float | None:
        """Median of `seconds`."""
        return statistics.median(self.seconds) if self.seconds else None

    def to_dict(self) -> dict[str, Any]:
        """The trial as plain data, with its median."""
        return {**dataclasses.asdict(self), "median": self.median}


@dataclass(frozen=True)
class Tuning(Mapping[str, Attribute]):
    """The outcome of a search; as a mapping, the best configuration: `tuning["BM"]`.

    device: what it was measured on; complete: every configuration had its turn
    log: path of the search's log, "" where nothing is kept on disk
    """

    kernel: str
    device: str
    trials: tuple[Trial, ...]
    complete: bool
    log: str = ""

    @property
    def best(self) -> Trial:
        """The fastest trial; of duplicates, the first."""
        measured = [trial for trial in self.trials if trial.status == MEASURED and trial.seconds]
        return min(measured, key=lambda trial: trial.median or 0.0)

    @property
    def config(self) -> dict[str, Attribute]:
        """The best configuration."""
        return dict(self.best.config)

    def __getitem__(self, name: str) -> Attribute:
        return self.best.config[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.best.config)

    def __len__(self) -> int:
        return len(self.best.config)

    def __repr__(self) -> str:
        counts = Counter(trial.status for trial in self.trials)
        told = ", ".join(f"{counts[s]} {s}" for s in STATUSES if counts[s])
        return f"<tuning of {self.kernel} on {self.device}: best {show(self.best.config)}; {told}>"

    def table(self) -> str:
        """One line a trial, fastest first."""
        rows = sorted(self.trials, key=lambda trial: (trial.median is None, trial.median or 0.0))
        return "\n".join(_row(trial) for trial in rows)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain data."""
        return {
            "kernel": self.kernel,
            "device": self.device,
            "complete": self.complete,
            "best": self.config,
            "trials": [trial.to_dict() for trial in self.trials],
        }


def _row(trial: Trial) -> str:
    head = f"{show(trial.config):<40}"
    if trial.status == DUPLICATE:
        return f"{head} same code as {show(trial.same_as or {})}"
    if trial.median is None:
        return f"{head} {trial.status} {trial.error}".rstrip()
    expected = f", predicted {trial.predicted * 1e6:.1f}" if trial.predicted is not None else ""
    return f"{head} {trial.median * 1e6:12.1f} us  ({len(trial.seconds)} runs{expected})"


def show(config: Config) -> str:
    """BM=64 BN=128."""
    return " ".join(f"{name}={value}" for name, value in config.items())


def config_key(config: Config) -> str:
    """One configuration as a key, whatever the order of its parameters."""
    return json.dumps(dict(sorted(config.items())), default=list)


def record_key(parts: Iterable[object]) -> str:
    """Name of the record of one kernel, shape class and device."""
    return hashlib.blake2b(repr(tuple(parts)).encode(), digest_size=16).hexdigest()


def log_path(record: Path) -> Path:
    """Where the log of a record lies."""
    return record.with_suffix(".jsonl")


def load(path: Path) -> dict[str, Trial]:
    """Return the trials known of `path`, from the record and then from its log, by configuration."""
    found: dict[str, Trial] = {}
    try:
        document: Any = json.loads(path.read_text())
        if document["format"] == _FORMAT:
            found = {config_key(trial.config): trial for trial in map(_trial, document["trials"])}
    except (OSError, ValueError, KeyError, TypeError):
        found = {}
    for event in read_log(log_path(path)):
        if event["event"] == BEGIN and event.get("again"):
            found.clear()
        elif event["event"] == TRIAL and event["trial"]["status"] not in _PASSING:
            trial = _trial(event["trial"])
            found[config_key(trial.config)] = trial
    return found


def store(path: Path, trials: Iterable[Trial]) -> None:
    """Write `trials`, whole or not at all."""
    kept = [dataclasses.asdict(trial) for trial in trials if trial.status not in _PASSING]
    document = {"format": _FORMAT, "trials": kept}
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".new-", delete=False) as file:
        json.dump(document, file)
    Path(file.name).replace(path)


def append(path: Path, event: str, **facts: object) -> None:
    """Add one event to a log, with the time (seconds since 1970)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps({"event": event, "format": _FORMAT, "time": time.time(), **facts}, default=list) + "\n"
    with path.open("ab+") as file:
        end = file.seek(0, os.SEEK_END)
        if end:
            file.seek(end - 1)
            if file.read(1) != b"\n":  # a process that died has left half a line, which must not swallow this one
                line = "\n" + line
        file.write(line.encode())


def read_log(path: str | Path) -> list[dict[str, Any]]:
    """The events of a log, oldest first; lines that cannot be read, such as one being written, are left out.

    "begin": kernel, device, configurations, again; "trial": trial, see `Trial.to_dict`; "end": best, complete.
    """
    try:
        lines = Path(path).read_text(errors="replace").splitlines()
    except OSError:
        return []
    return [event for event in map(_event, lines) if event is not None]


def _event(line: str) -> dict[str, Any] | None:
    try:
        event: Any = json.loads(line)
        if event["format"] != _FORMAT:
            return None
        if event["event"] == TRIAL:
            _trial(event["trial"])
    except (ValueError, KeyError, TypeError):
        return None
    return event


def _trial(stored: dict[str, Any]) -> Trial:
    if stored["status"] not in STATUSES:
        raise ValueError(stored["status"])
    same, predicted = stored["same_as"], stored["predicted"]
    return Trial(
        _config(stored["config"]), stored["status"], tuple(float(s) for s in stored["seconds"]), str(stored["code"]),
        str(stored["error"]), None if same is None else _config(same), None if predicted is None else float(predicted),
    )  # fmt: skip


def _config(stored: dict[str, Any]) -> dict[str, Attribute]:
    return {name: _attribute(value) for name, value in stored.items()}


def _attribute(value: object) -> Attribute:
    if isinstance(value, list):
        return tuple(_attribute(item) for item in cast("list[object]", value))
    if value is None or isinstance(value, int | float | str):
        return value
    raise ValueError(f"{value!r} is no value of a tuning parameter")
