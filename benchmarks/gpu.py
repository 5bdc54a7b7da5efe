"""Speed of the CUDA target beside cuBLAS, cuDNN, FlashAttention, Triton and Pallas, in one run on one GPU.

    python3 benchmarks/gpu.py [--only gemm,attention] [--row NAME] [--set BM=128,BN=256] [--quick] [--date TODAY]

Every row first checks each contender's result on random inputs, then times all in turns with device events, and
compares medians.  `--set` adds a contender with those tuning parameters, and may be given again.  Rows are measured in
a process of their own, which is replaced when a kernel hangs or takes the device down; the rest goes on without that
contender.  The JSON holds every sample with date, card, driver and versions.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, cast

import gpu_measure

ROOT: Final = Path(__file__).resolve().parent.parent
RESULTS: Final = Path(__file__).with_name("results")
SECTIONS: Final = ("gemm", "fp8", "f32", "odd", "attention", "backward", "memory", "launch", "graph")
MARK: Final = "@@benchmark "  # begins a line that the measuring process writes for the one above it
_MOST_RUNS: Final = 800  # in a sample: a device takes about a thousand launches ahead, then the host has to wait
_FULL: Final = gpu_measure.Effort(rounds=7, sample_ms=60.0, most_runs=_MOST_RUNS, settle=1)
_QUICK: Final = gpu_measure.Effort(rounds=3, sample_ms=5.0, most_runs=_MOST_RUNS)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    made.add_argument("--only", default="", help=f"sections, joined by commas: {', '.join(SECTIONS)}")
    made.add_argument("--row", action="append", default=[], help="only rows whose name holds this (may be given again)")
    made.add_argument("--set", action="append", default=[], dest="sets", metavar="BM=128,BN=256",
                      help="one more contender, with these tuning parameters (may be given again)")  # fmt: skip
    made.add_argument("--tune", action="store_true", help="one more contender, tuned first")
    made.add_argument("--contenders", default="", help="only these, joined by commas: tessera,cublas,cudnn,triton,...")
    made.add_argument("--quick", action="store_true", help="a third of the samples, each a quarter as long")
    made.add_argument(
        "--patience", type=float, default=90.0, help="seconds without a sign of life until a row is given up"
    )
    made.add_argument("--budget", type=float, default=math.inf, help="seconds after which no more is measured")
    made.add_argument("--date", default="", help="date for the JSON; default: today")
    made.add_argument("--out", type=Path, default=RESULTS / "gpu.json", help="where the JSON goes")
    made.add_argument("--child", default="", help=argparse.SUPPRESS)
    return made


def read_arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line, checked: leaves with a message for an unknown section or a constant that cannot be read."""
    made = parser()
    options = made.parse_args(given)
    options.sections = tuple(name for name in options.only.split(",") if name) or SECTIONS
    for name in options.sections:
        if name not in SECTIONS:
            made.error(f"there is no section {name!r}: choose from {', '.join(SECTIONS)}")
    for text in options.sets:
        try:
            gpu_measure.read_constants(text)
        except ValueError as error:
            made.error(f"--set: {error}")
    return options


@dataclass
class Supervisor:
    """Runs the measuring process, again and again until every row was measured or given up.

    command: starts it, and gets what is left to do as JSON behind it; patience: seconds between signs of life
    budget: seconds for everything; what was measured by then is kept
    """

    command: Sequence[str]
    patience: float
    budget: float = math.inf
    rows: dict[str, gpu_measure.Row] = field(default_factory=dict[str, gpu_measure.Row])
    facts: dict[str, Any] = field(default_factory=dict[str, Any])
    excluded: dict[str, dict[str, str]] = field(default_factory=dict[str, dict[str, str]])
    given_up: dict[str, str] = field(default_factory=dict[str, str])
    _place: tuple[str, str] = ("", "")

    def run(self, job: dict[str, Any]) -> None:
        """Do `job`; what a process that died was doing is not tried again."""
        until = time.monotonic() + self.budget
        finished = False
        while not finished:
            left = {**job, "done": [*self.rows, *self.given_up], "excluded": self.excluded}
            self._place = ("", "")
            finished, end = self._once(left, until)
            if time.monotonic() >= until:
                print(f"-- {self.budget:.0f} s are over", flush=True)
                return
            if not finished:
                self._blame(end)

    def _blame(self, end: str) -> None:
        """Leave out what was running when the process ended."""
        case, contender = self._place
        print(f"-- the measuring process {end} at {case or 'its start'}, {contender or 'no contender'}", flush=True)
        if not case:
            raise SystemExit(f"the measuring process {end} before its first row")
        if contender and contender not in self.excluded.get(case, {}):
            self.excluded.setdefault(case, {})[contender] = end
        else:
            self.given_up[case] = end

    def _once(self, job: dict[str, Any], until: float) -> tuple[bool, str]:
        """One process: whether it finished everything, and if not, how it ended."""
        lines: queue.Queue[str | None] = queue.Queue()
        with subprocess.Popen(
            [*self.command, json.dumps(job)], stdout=subprocess.PIPE, text=True, bufsize=1
        ) as process:
            reader = threading.Thread(target=_pump, args=(process, lines), daemon=True)
            reader.start()
            try:
                for line in _until_silent(lines, self.patience, until):
                    if self._heard(line):
                        return True, ""
                if reader.is_alive():
                    return False, f"said nothing for {self.patience:.0f} s"
                return False, f"ended with status {process.wait()}"
            finally:
                process.kill()
                reader.join()

    def _heard(self, line: str) -> bool:
        """Note what the process says; True when it is done."""
        if not line.startswith(MARK):
            print(line, end="", flush=True)
            return False
        said = json.loads(line[len(MARK) :])
        if "begin" in said:
            self._place = (said["begin"], said.get("contender", ""))
        if "row" in said:
            row = gpu_measure.from_json(said["row"])
            self.rows[row.name] = row
            print(gpu_measure.table([row]).splitlines()[1], flush=True)
        if "given_up" in said:
            self.given_up[said["given_up"]] = said["reason"]
            print(f"{said['given_up']}: {said['reason']}", flush=True)
        self.facts |= said.get("facts", {})
        return bool(said.get("finished"))


def _pump(process: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        lines.put(line)
    lines.put(None)


def _until_silent(lines: queue.Queue[str | None], patience: float, until: float) -> Iterator[str]:
    """Lines as they come, until the last one, until none came for `patience` seconds, or until the time `until`."""
    deadline = min(until, time.monotonic() + patience)
    while time.monotonic() < deadline:
        try:
            line = lines.get(timeout=0.2)
        except queue.Empty:
            continue
        if line is None:
            return
        yield line
        deadline = min(until, time.monotonic() + patience)


def say(**what: object) -> None:
    """A line from the measuring process to the one above it."""
    print(MARK + json.dumps(what), flush=True)


def child(job: dict[str, Any]) -> None:
    """Measure the rows of `job` in this process, and tell of each."""
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # JAX would take the memory of all the others
    sys.path[:0] = [str(ROOT)]
    import gpu_cases  # noqa: PLC0415 - torch and Tessera are needed on the GPU's machine only

    say(facts=gpu_cases.facts())
    clock = gpu_cases.DeviceClock()
    effort = _QUICK if job["quick"] else _FULL
    plan = gpu_cases.Plan(tuple(job["sets"]), job["tune"], tuple(job["contenders"]))
    for name, make in gpu_cases.cases(tuple(job["sections"]), plan):
        if name in job["done"] or (job["rows"] and not any(part in name for part in job["rows"])):
            continue
        say(begin=name)
        try:
            case = make()
            row = gpu_measure.measure(
                case,
                clock,
                effort,
                excluded=job["excluded"].get(name),
                begins=lambda who, at=name: say(begin=at, contender=who),
            )
        except gpu_measure.DeviceLost as lost:
            print(f"{name}: the device is lost: {lost}", flush=True)
            os._exit(3)  # an orderly end would wait for the device
        except Exception as error:  # noqa: BLE001 - one failing row must not hide the others
            say(given_up=name, reason=f"{type(error).__name__}: {error}"[:1500])
            continue
        say(row=gpu_measure.as_json(row))
        gpu_cases.release()
    say(finished=True)


def main(given: Sequence[str] | None = None) -> int:
    """Measure, print the table, write the JSON; the exit status is 1 when one of our results was wrong or missing."""
    options = read_arguments(given)
    if options.child:
        child(json.loads(options.child))
        return 0
    job = {
        "sections": options.sections, "rows": options.row, "sets": options.sets, "tune": options.tune,
        "contenders": [name for name in options.contenders.split(",") if name], "quick": options.quick,
    }  # fmt: skip
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the measuring process ends with this one
    supervisor = Supervisor([sys.executable, __file__, "--child"], options.patience, options.budget)
    supervisor.run(job)
    rows = list(supervisor.rows.values())
    gpu_measure.judge(rows)
    write(options.out, document(supervisor, options))
    print("\n" + gpu_measure.table(rows))
    for name, reason in supervisor.given_up.items():
        print(f"  {name}: {reason.splitlines()[0][:300]}")
    ours = [outcome for row in rows for name, outcome in row.outcomes.items() if gpu_measure.is_ours(name)]
    return int(bool(supervisor.given_up) or any(outcome.failure for outcome in ours))


def document(supervisor: Supervisor, options: argparse.Namespace) -> dict[str, Any]:
    """What the JSON file holds."""
    return {
        "date": options.date or datetime.now(UTC).date().isoformat(),
        **supervisor.facts,
        "quick": options.quick,
        "rows": [gpu_measure.as_json(row) for row in supervisor.rows.values()],
        "given_up": supervisor.given_up,
    }


def write(path: Path, what: dict[str, Any]) -> None:
    """Write the JSON; infinities and NaN become null, since JSON has none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(_finite(what), indent=1) + "\n", encoding="utf-8")


def _finite(value: object) -> object:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in cast("dict[str, object]", value).items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in cast("Sequence[object]", value)]
    return None if isinstance(value, float) and not math.isfinite(value) else value


if __name__ == "__main__":
    sys.exit(main())
