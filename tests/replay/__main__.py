"""`python -m replay`, or `make replay`: compile every case for every target, and say which ones moved."""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from replay import accepted
from replay.accepted import Accepted
from replay.cases import CASES
from replay.compile import TARGETS
from replay.run import Result, Task, cores, differences, run, tenth


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; the exit status is 1 where something moved and was not accepted."""
    options = _parser().parse_args(arguments)
    keep = options.keep / "now" if options.keep else options.everything
    tasks = _tasks(options.only, options.tenth, keep, everything=options.everything is not None)
    known = accepted.read()
    start = time.monotonic()
    results = _run(tasks, options.workers)
    total = sum(len(result.units) for result in results)
    sys.stderr.write(f"{total} programs compiled in {time.monotonic() - start:.0f} s\n")
    lines = differences(results, known)
    if options.accept:
        _accept(known, results, whole=not (options.only or options.tenth))
        sys.stdout.write(
            "".join(f"{result.failure}\n" for result in results if result.failure) + f"{len(lines)} accepted\n"
        )
        return 1 if any(result.failure for result in results) else 0
    sys.stdout.write("".join(f"{line}\n" for line in sorted(lines)))
    if options.keep and lines:
        _write_before(options.keep / "before", options.before or _accepting_commit(), results, known)
        sys.stdout.write(f"compare: diff -r {options.keep / 'before'} {options.keep / 'now'}\n")
    if known.versions != accepted.versions():
        sys.stdout.write(f"accepted with: {known.versions}\ncompiled with: {accepted.versions()}\n")
    sys.stdout.write(f"{len(lines)} moved\n")
    return 1 if lines else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m replay", description=__doc__)
    add = parser.add_argument
    add("--accept", action="store_true", help="accept the hashes of what was compiled")
    add("--only", default="", metavar="TEXT", help="targets and parts of names of cases, with commas between them")
    add("--tenth", action="store_true", help="only what the tests run")
    add("--keep", type=Path, metavar="DIR", help="write the texts of what moved, as they were and as they are")
    add(
        "--before",
        metavar="REVISION",
        help="where --keep takes the former texts from: by default where they were accepted",
    )
    add("--everything", type=Path, metavar="DIR", help="write the texts of all that is compiled")
    add("--workers", type=int, default=cores(), metavar="N", help="processes at a time")
    return parser


def _tasks(only: str, some: bool, keep: Path | None, *, everything: bool) -> list[Task]:
    """Return what to do; `only` holds targets and parts of names, between commas that no space follows."""
    words = [word for word in re.split(r",(?! )", only) if word]
    targets = [name for name in TARGETS if name in words] or list(TARGETS)
    parts = [word for word in words if word not in TARGETS]
    chosen = {target: set(tenth(target)) if some else set(CASES) for target in targets}
    tasks: list[Task] = []
    for name in CASES:
        own = tuple(target for target in targets if name in chosen[target])
        if own and (not parts or any(part in name for part in parts)):
            tasks.append(Task(name, own, keep, everything))
    return tasks


def _run(tasks: Sequence[Task], workers: int) -> list[Result]:
    """Perform the tasks, and show how far they are."""
    results: list[Result] = []
    cases = sum(len(task.targets) for task in tasks)
    for result in run(tasks, min(workers, max(1, len(tasks)))):
        results.append(result)
        if sys.stderr.isatty() or len(results) % 200 == 0:
            end = "\r" if sys.stderr.isatty() else "\n"
            sys.stderr.write(f"{len(results)} of {cases}  {result.target}  {result.case}".ljust(100)[:100] + end)
            sys.stderr.flush()
    return results


def _accepting_commit() -> str:
    """Return the commit that the accepted hashes were checked in with."""
    return _git("log", "-1", "--format=%H", "--", *map(str, accepted.FOLDER.glob("*.txt")))


def _write_before(folder: Path, revision: str, results: Sequence[Result], known: Accepted) -> None:
    """Compile what moved with the compiler of an earlier revision, in a checkout of its own, and write the texts."""
    moved = [result for result in results if differences([result], known)]
    only = ",".join(sorted({result.case for result in moved} | {result.target for result in moved}))
    with tempfile.TemporaryDirectory(prefix="tessera-replay-") as place:
        checkout = Path(place, "checkout")
        _git("worktree", "add", "--detach", str(checkout), revision)
        try:
            command = [sys.executable, "-m", "replay", "--only", only, "--everything", str(folder.absolute())]
            environment = {**os.environ, "PYTHONPATH": f"{checkout}{os.pathsep}{checkout / 'tests'}"}
            subprocess.run(command, cwd=checkout, env=environment, check=False, stdout=subprocess.DEVNULL)
        finally:
            _git("worktree", "remove", "--force", str(checkout))


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=accepted.FOLDER, check=True, capture_output=True, text=True).stdout.strip()


def _accept(known: Accepted, results: Sequence[Result], *, whole: bool) -> None:
    """Write new hashes; a run of all cases also drops what is no longer there."""
    units = {} if whole else dict(known.units)
    for result in results:
        if result.failure:
            continue
        for unit in known.of_case(result.case, result.target):
            units.pop((result.target, unit), None)
        units |= {(result.target, unit): hashes for unit, hashes in result.units.items()}
    accepted.write(Accepted(accepted.versions(), units))


if __name__ == "__main__":
    sys.exit(main())
