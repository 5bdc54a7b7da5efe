"""What a search for the fastest configuration found, and its copy on disk."""

import dataclasses
import hashlib
import json
import statistics
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

from tessera.core.program.program import Attribute

_FORMAT: Final = 1
Config = Mapping[str, Attribute]

MEASURED: Final = "measured"
DUPLICATE: Final = "duplicate"
ILLEGAL: Final = "illegal"
SKIPPED: Final = "skipped"


@dataclass(frozen=True, slots=True)
class Trial:
    """One configuration.

    status: "measured"; "duplicate": it compiles to the code of `same_as`, whose times are its own; "illegal": it
            cannot be compiled or run, `error` says why; "skipped": the search ended before its turn
    seconds: one time a launch, in the order they were taken
    code: identity of the compiled code
    """

    config: Config
    status: str
    seconds: tuple[float, ...] = ()
    code: str = ""
    error: str = ""
    same_as: Config | None = None

    @property
    def median(self) -> float | None:
        """Median of `seconds`."""
        return statistics.median(self.seconds) if self.seconds else None


@dataclass(frozen=True)
class Tuning(Mapping[str, Attribute]):
    """The outcome of a search; as a mapping, the best configuration: `tuning["BM"]`.

    device: what it was measured on; complete: every configuration had its turn
    """

    kernel: str
    device: str
    trials: tuple[Trial, ...]
    complete: bool

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
        told = ", ".join(f"{counts[s]} {s}" for s in (MEASURED, DUPLICATE, ILLEGAL, SKIPPED) if counts[s])
        return f"<tuning of {self.kernel} on {self.device}: best {show(self.best.config)}; {told}>"

    def table(self) -> str:
        """One line a trial, fastest first."""
        rows = sorted(self.trials, key=lambda trial: (trial.median is None, trial.median or 0.0))
        return "\n".join(_row(trial) for trial in rows)


def _row(trial: Trial) -> str:
    head = f"{show(trial.config):<40}"
    if trial.status == DUPLICATE:
        return f"{head} same code as {show(trial.same_as or {})}"
    if trial.median is None:
        return f"{head} {trial.status} {trial.error}".rstrip()
    return f"{head} {trial.median * 1e6:12.1f} us  ({len(trial.seconds)} runs)"


def show(config: Config) -> str:
    """BM=64 BN=128."""
    return " ".join(f"{name}={value}" for name, value in config.items())


def config_key(config: Config) -> str:
    """One configuration as a key, whatever the order of its parameters."""
    return json.dumps(dict(sorted(config.items())), default=list)


def record_key(parts: Iterable[object]) -> str:
    """Name of the record of one kernel, shape class and device."""
    return hashlib.blake2b(repr(tuple(parts)).encode(), digest_size=16).hexdigest()


def load(path: Path) -> dict[str, Trial]:
    """Return the trials recorded in `path` by configuration; none where there is no readable record."""
    try:
        document: Any = json.loads(path.read_text())
        if document["format"] != _FORMAT:
            return {}
        trials = [_trial(stored) for stored in document["trials"]]
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return {config_key(trial.config): trial for trial in trials}


def store(path: Path, trials: Iterable[Trial]) -> None:
    """Write `trials`, whole or not at all."""
    document = {"format": _FORMAT, "trials": [dataclasses.asdict(trial) for trial in trials if trial.status != SKIPPED]}
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".new-", delete=False) as file:
        json.dump(document, file)
    Path(file.name).replace(path)


def _trial(stored: dict[str, Any]) -> Trial:
    if stored["status"] not in (MEASURED, DUPLICATE, ILLEGAL):
        raise ValueError(stored["status"])
    same = stored["same_as"]
    return Trial(
        _config(stored["config"]), stored["status"], tuple(float(s) for s in stored["seconds"]), str(stored["code"]),
        str(stored["error"]), None if same is None else _config(same),
    )  # fmt: skip


def _config(stored: dict[str, Any]) -> dict[str, Attribute]:
    return {name: _attribute(value) for name, value in stored.items()}


def _attribute(value: object) -> Attribute:
    if isinstance(value, list):
        return tuple(_attribute(item) for item in cast("list[object]", value))
    if value is None or isinstance(value, int | float | str):
        return value
    raise ValueError(f"{value!r} is no value of a tuning parameter")
