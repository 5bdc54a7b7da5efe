"""Records and logs of searches, on disk.

A record is a JSON file with everything known about one kernel, class of shapes and device; beside it lies its log, with
one JSON object a line, to which every event of every search is appended when it happens: a dashboard can read it while
the search runs, and a search that died is continued from it.  Only their owner can read and write them.
"""

import dataclasses
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NotRequired, TypedDict, cast
from urllib.parse import quote

from tessera.core.errors.catalog import TuningFailed
from tessera.core.private_files import make_folder
from tessera.core.program.program import Attribute
from tessera.tuning.results import PASSING, STATUSES, Config, Trial, TrialDocument, Tuning, config_key

_FORMAT: Final = 3
_LONGEST: Final = 80
_PRIVATE: Final = 0o600

BEGIN: Final = "begin"
TRIAL: Final = "trial"
END: Final = "end"


class Record(TypedDict):
    """A record's file."""

    format: int
    trials: list[TrialDocument]


class LogEvent(TypedDict):
    """One line of a log; `time`: seconds since 1970.

    "begin": kernel, source (see `source_digest`), device, configurations, default, again; "trial": trial
    "end": best, complete, interrupted
    """

    event: str
    format: int
    time: float
    kernel: NotRequired[str]
    source: NotRequired[str]
    default: NotRequired[Config | None]
    interrupted: NotRequired[bool]
    device: NotRequired[str]
    configurations: NotRequired[int]
    again: NotRequired[bool]
    trial: NotRequired[TrialDocument]
    best: NotRequired[Config | None]
    complete: NotRequired[bool]


def source_digest(text: str) -> str:
    """Return an identity of a kernel's text."""
    return hashlib.blake2b(text.encode(errors="surrogatepass"), digest_size=8).hexdigest()


def record_path(folder: Path, name: str, parts: Iterable[object]) -> Path:
    """Return the path of the record of a kernel called `name`; `parts` are what it depends on.

    The file's name is ASCII, whatever the kernel's: not every file system can hold others.
    """
    key = hashlib.blake2b(repr(tuple(parts)).encode(errors="surrogatepass"), digest_size=16).hexdigest()
    return folder / f"{quote(name, safe='')[:_LONGEST]}-{key}.json"


def log_path(record: Path) -> Path:
    """Return the path of a record's log."""
    return record.with_suffix(".jsonl")


def logs_of(folder: Path, name: str, digest: str) -> list[Path]:
    """Return the logs of searches for a kernel of this name and text, the latest first."""
    prefix = f"{quote(name, safe='')[:_LONGEST]}-"
    try:
        found = [path for path in folder.iterdir() if path.suffix == ".jsonl" and path.name.startswith(prefix)]
    except OSError:
        return []
    begun: list[tuple[float, Path]] = []
    for path in found:
        times = [event["time"] for event in read_log(path) if event.get("source") == digest]
        if times:
            begun.append((max(times), path))
    return [path for _, path in sorted(begun, key=lambda each: each[0], reverse=True)]


def reopen(path: str | Path) -> Tuning:
    """Return a search from its log, finished or not: every trial that it tells of, in the order they were settled.

    Raises TuningFailed where nothing of a search can be read there.
    """
    begun: LogEvent | None = None
    trials: dict[str, Trial] = {}
    complete = interrupted = False
    for event in read_log(path):
        if event["event"] == BEGIN:
            begun, complete, interrupted = event, False, False
            if event.get("again"):
                trials.clear()
        elif event["event"] == END:
            complete, interrupted = bool(event.get("complete")), bool(event.get("interrupted"))
        elif (stored := event.get("trial")) is not None:
            trial = _trial(stored)
            known = trials.get(config_key(trial.config))
            at = trial.at or (known.at if known is not None else event["time"])
            trials[config_key(trial.config)] = dataclasses.replace(trial, at=at)
    if begun is None:
        raise TuningFailed(f"{path} holds no search", hint="name the log of a search, a .jsonl file")
    default = begun.get("default")
    return Tuning(
        begun.get("kernel", ""), begun.get("device", ""), tuple(trials.values()), complete, str(path),
        None if default is None else _config(default), (), interrupted,
    )  # fmt: skip


def load(path: Path) -> dict[str, Trial]:
    """Return the trials known of `path`, from the record and then from its log, by configuration."""
    found: dict[str, Trial] = {}
    try:
        document: Record = json.loads(path.read_text(encoding="utf-8"))
        if document["format"] == _FORMAT:
            found = {config_key(trial.config): trial for trial in map(_trial, document["trials"])}
    except (OSError, ValueError, KeyError, TypeError):
        found = {}
    for event in read_log(log_path(path)):
        stored = event.get("trial")
        if event["event"] == BEGIN and event.get("again"):
            found.clear()
        elif event["event"] == TRIAL and stored is not None and stored["status"] not in PASSING:
            trial = _trial(stored)
            found[config_key(trial.config)] = trial
    return found


def store(path: Path, trials: Iterable[Trial]) -> None:
    """Write `trials`, whole or not at all."""
    kept = [dataclasses.asdict(trial) for trial in trials if trial.status not in PASSING]
    document = {"format": _FORMAT, "trials": kept}
    make_folder(path.parent)
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, prefix=".new-", delete=False) as file:
        json.dump(document, file)
    Path(file.name).replace(path)


def append(path: Path, event: str, **facts: object) -> None:
    """Add one event to a log, with the time (seconds since 1970)."""
    make_folder(path.parent)
    line = json.dumps({"event": event, "format": _FORMAT, "time": time.time(), **facts}, default=list) + "\n"
    with open(path, "ab+", opener=_private) as file:
        end = file.seek(0, os.SEEK_END)
        if end:
            file.seek(end - 1)
            if file.read(1) != b"\n":  # a process that died has left half a line, which must not swallow this one
                line = "\n" + line
        file.write(line.encode())


def _private(path: str, flags: int) -> int:
    """Open a file that is no link, and that only its owner may read and write."""
    return os.open(path, flags | getattr(os, "O_NOFOLLOW", 0), _PRIVATE)


def read_log(path: str | Path) -> list[LogEvent]:
    """Return the events of a log, oldest first; lines that cannot be read, such as one being written, are left out."""
    try:
        lines = Path(path).read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return [event for event in map(_event, lines) if event is not None]


def _event(line: str) -> LogEvent | None:
    try:
        event: LogEvent = json.loads(line)
        if event["format"] != _FORMAT:
            return None
        if event["event"] == TRIAL:
            stored = event.get("trial")
            if stored is None:
                return None
            _trial(stored)
    except (ValueError, KeyError, TypeError):
        return None
    return event


def _trial(stored: TrialDocument) -> Trial:
    if stored["status"] not in STATUSES:
        raise ValueError(stored["status"])
    same, predicted = stored["same_as"], stored["predicted"]
    return Trial(
        _config(stored["config"]), stored["status"], _times(stored["seconds"]), str(stored["code"]),
        str(stored["error"]), None if same is None else _config(same), None if predicted is None else float(predicted),
        _times(stored["compared"]), float(stored["flops"]), float(stored["traffic"]),
        float(stored.get("at", 0.0)), int(stored.get("disturbed", 0)),
    )  # fmt: skip


def _times(stored: Iterable[float]) -> tuple[float, ...]:
    return tuple(float(seconds) for seconds in stored)


def _config(stored: Config) -> dict[str, Attribute]:
    return {name: _attribute(value) for name, value in stored.items()}


def _attribute(value: object) -> Attribute:
    if isinstance(value, list):
        return tuple(_attribute(item) for item in cast("list[object]", value))
    if value is None or isinstance(value, int | float | str):
        return value
    raise ValueError(f"{value!r} is no value of a tuning parameter")
