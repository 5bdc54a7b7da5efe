"""Compile cases for targets and compare their hashes with the accepted ones."""

import os
import traceback
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Final

from replay import accepted
from replay.accepted import Accepted, Hashes
from replay.cases import CASES, Case
from replay.compile import TARGETS, Code, compiled, digest
from tessera.core.errors.base import TesseraError
from tessera.core.errors.catalog import CompilerCrash
from tessera.core.settings import overridden

_THREADS: Final = 8
"""Schedules for the CPU depend on the number of threads: one for all hosts."""
_TASKS: Final = 150
"""Cases after which a worker process is replaced: what LLVM and MLIR keep does not pile up."""
_SHARE: Final = 10
_STAGE_DIGITS: Final = 8
"""Of the hash of Tile IR after one pass: there are twenty for each of machine code."""
_SEPARATOR: Final = "/"


@dataclass(frozen=True, slots=True)
class Task:
    """A case, and the targets to compile it for.

    keep: a folder for the texts of what moved; everything: also of what did not
    """

    case: str
    targets: tuple[str, ...]
    keep: Path | None = None
    everything: bool = False


@dataclass(frozen=True, slots=True)
class Result:
    """The hashes of a case for one target, by unit; `failure` is the traceback of a crash."""

    case: str
    target: str
    units: dict[str, Hashes]
    failure: str = ""


def run(tasks: Sequence[Task], workers: int) -> Iterator[Result]:
    """Perform tasks in as many processes, a few for one worker in this one; results come in any order."""
    if workers == 1 and len(tasks) <= _TASKS:
        for task in tasks:
            yield from perform(task)
        return
    with get_context("spawn").Pool(workers, maxtasksperchild=_TASKS) as pool:
        for results in pool.imap_unordered(perform, tasks):
            yield from results


def perform(task: Task) -> list[Result]:
    """Compile one case for its targets."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [_result(CASES[task.case], target, task) for target in task.targets]


def _result(case: Case, target: str, task: Task) -> Result:
    units: dict[str, Hashes] = {}
    texts: dict[str, Code] = {}
    try:
        for number, code in enumerate(_codes(case, target)):
            unit = case.name if number == 0 else f"{case.name} #{number + 1}"
            units[unit] = _hashes(code)
            if isinstance(code, Code):
                texts[unit] = code
    except Exception:  # noqa: BLE001 - reported with the case, and the others go on
        return Result(case.name, target, {}, traceback.format_exc())
    if task.keep is not None:
        known = _accepted().of_case(case.name, target)
        chosen = texts if task.everything else dict(accepted.moved(known, units))
        for unit in chosen:
            if unit in texts:
                _write(task.keep / target.replace(":", "-") / unit.replace(_SEPARATOR, "-"), texts[unit])
    return Result(case.name, target, units)


def _codes(case: Case, name: str) -> Iterator[Code | str]:
    """Yield the code of each program of a case, or the code of the mistake that refuses it."""
    target = TARGETS[name]
    with overridden(target="cpu" if target.name == "cpu" else name, threads=_THREADS, cache=False):
        try:
            for program in case.programs():
                try:
                    yield compiled(program, target)
                except CompilerCrash:
                    raise
                except TesseraError as refusal:
                    yield refusal.code
        except CompilerCrash:
            raise
        except TesseraError as refusal:
            yield refusal.code


def _hashes(code: Code | str) -> Hashes:
    if isinstance(code, str):
        return Hashes(code)
    stages = tuple(digest(text)[:_STAGE_DIGITS] for _, text in code.stages)
    return Hashes(digest(code.machine), stages, tuple(name for name, _ in code.stages))


def _write(folder: Path, code: Code) -> None:
    """Write every level of one program into a folder; passes have numbers, as their names may change."""
    folder.mkdir(parents=True, exist_ok=True)
    stages = [(f"tile-{number:02}", f"// {name}\n{text}") for number, (name, text) in enumerate(code.stages)]
    for name, text in (*stages, *code.below, ("machine-code", code.machine)):
        (folder / f"{name}.txt").write_text(f"{text}\n", encoding="utf-8")


@cache
def _accepted() -> Accepted:
    return accepted.read()


def cores() -> int:
    """Return how many processes there is room for."""
    return len(os.sched_getaffinity(0))


def tenth(target: str) -> list[str]:
    """Return a tenth of the cases, another one for each target, with one of each family at least."""
    families: dict[str, list[str]] = {}
    for case in CASES.values():
        families.setdefault(case.family, []).append(case.name)
    first = list(TARGETS).index(target)
    chosen = (names[first % min(_SHARE, len(names)) :: _SHARE] for names in families.values())
    return [name for names in chosen for name in names]


def differences(results: Iterable[Result], known: Accepted) -> list[str]:
    """Return a line for each unit that is not as accepted, or failed."""
    lines: list[str] = []
    for result in results:
        if result.failure:
            lines.append(f"{result.target}  {result.case}: failed\n{result.failure}")
            continue
        before = known.of_case(result.case, result.target)
        lines += [f"{result.target}  {unit}: {what}" for unit, what in accepted.moved(before, result.units)]
    return lines
