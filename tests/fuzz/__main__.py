"""Fuzz for a while: `python -m fuzz --seconds 3600 --target cpu`, on a GPU `--target cuda --large`.

`--what` says what: random kernels, graphs of operators (for a target of a GPU they are compiled only), these on
simulated meshes of 1 to 72 devices, programs as people write them (closures that change, number arguments, updates, loops,
arrays of several libraries, derivatives), or cascades.
Cases run in child processes, a batch each, so a crash or a lost context is told with its seed.  Each failure prints
a seed that brings it back (`python -m fuzz --target cpu --only SEED`) and the smallest case that was found.  Ends
with 1 where there was one.
"""

import argparse
import json
import pickle
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import tessera
from fuzz.check import Outcome
from fuzz.graph_reduce import alike
from fuzz.subjects import SUBJECTS, Subject

BATCH = 25
"""Seeds of a child: on a GPU, with large arrays, a few seconds each."""
MINIMISING = 60.0
"""Seconds for making a failure small."""
_STOPPED = 3


def child(first: int, count: int, target: str, large: bool, what: str = "kernels") -> int:
    """Run seeds, one line of JSON before and after each; ends at a failure, after which a GPU may not answer any more."""
    subject = SUBJECTS[what]
    with tempfile.TemporaryDirectory() as cache:
        tessera.configure(cache_dir=Path(cache))
        for seed in range(first, first + count):
            print(json.dumps({"begins": seed}), flush=True)
            case = subject.case(seed, large)
            outcome = subject.check(case, target)
            report = {"ends": seed, "kind": outcome.kind, "detail": outcome.detail}
            if outcome.kind == "differs":
                report["case"] = subject.describe(
                    subject.reduced(case, partial(_ends_as, subject, target, outcome), MINIMISING)
                )
            print(json.dumps(report), flush=True)
            if outcome.kind == "fails":
                return _STOPPED
    return 0


def _ends_as(subject: Subject, target: str, outcome: Outcome, case: object) -> bool:
    return alike(subject.check(case, target)) == alike(outcome)


def batch(first: int, count: int, target: str, large: bool, what: str = "kernels") -> Iterator[dict[str, object]]:
    """What became of each seed; a seed that took the process down is told by what it had begun."""
    seed, last, subject = first, first + count, SUBJECTS[what]
    while seed < last:
        arguments = ["--child", str(seed), str(last - seed), "--target", target, "--what", what]
        arguments += ["--large"] if large else []
        code, out, errors = _process(arguments, 60 + count * 20)
        lines = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        ended = {line["ends"]: line for line in lines if "ends" in line}
        yield from (line for line in ended.values() if line["kind"] != "fails")
        begun = [line["begins"] for line in lines if "begins" in line]
        lost = next((one for one in begun if one not in ended or ended[one]["kind"] == "fails"), None)
        if lost is None and seed + len(ended) >= last:
            return
        lost = seed + len(ended) if lost is None else lost
        ending = f"the process ended with {code}\n{errors[-2000:]}"
        detail = ended[lost]["detail"] if lost in ended else ending
        case = subject.reduced(subject.case(lost, large), partial(_fails_alone, target, what), MINIMISING)
        yield {"ends": lost, "kind": "fails", "detail": detail, "case": subject.describe(case)}
        seed = lost + 1


def _fails_alone(target: str, what: str, case: object) -> bool:
    """Whether a case fails in a process of its own."""
    with tempfile.NamedTemporaryFile() as file:
        file.write(pickle.dumps(case))
        file.flush()
        return _process(["--replay", file.name, "--target", target, "--what", what], 120)[0] not in (0, 1)


def _process(arguments: list[str], seconds: float) -> tuple[int | str, str, str]:
    """How `python -m fuzz` with such arguments ended, what it said, and its complaints."""
    process = subprocess.Popen(
        [sys.executable, "-m", "fuzz", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        return _said(process, seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        _, out, errors = _said(process, None)
        return "no answer in time", out, errors


def _said(process: subprocess.Popen[str], seconds: float | None) -> tuple[int, str, str]:
    out, errors = process.communicate(timeout=seconds)
    return process.returncode, out, errors


def fuzz(seconds: float, target: str, large: bool, first: int, processes: int, what: str = "kernels") -> int:
    """Run batches until the time is over, one at least by each process; gives the number of failures."""
    end, counts, failures = time.monotonic() + seconds, Counter[str](), 0
    print(f"{what}, seeds from {first}, target {target}, {processes} processes, {seconds:.0f} s", flush=True)
    starts = iter(range(first, 1 << 62, BATCH))

    def work(_: int) -> int:
        bad, more = 0, True
        while more:
            start = next(starts)
            for report in batch(start, BATCH, target, large, what):
                counts[str(report["kind"])] += 1
                if report["kind"] in ("differs", "fails"):
                    bad += 1
                    again = f"python -m fuzz --what {what} --target {target} --only {report['ends']}"
                    print(f"\nFAILS: {again}{' --large' if large else ''}\n{report['detail']}\n{report.get('case', '')}",
                          flush=True)  # fmt: skip
            print(f"{max(0, end - time.monotonic()):6.0f} s left, {dict(counts)}", flush=True)
            more = time.monotonic() < end
        return bad

    with ThreadPoolExecutor(processes) as pool:
        failures = sum(pool.map(work, range(processes)))
    print(f"{sum(counts.values())} {what}, {dict(counts)}; next seed {next(starts)}", flush=True)
    return failures


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--target", default="cpu")
    parser.add_argument("--what", choices=list(SUBJECTS), default="kernels", help="what is fuzzed")
    parser.add_argument("--large", action="store_true", help="a third of the kernels on arrays that fill a GPU")
    parser.add_argument("--first", type=int, default=int(time.time()) % 1_000_000 * 1000, help="the first seed")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", type=int, help="run and show one seed")
    parser.add_argument("--child", type=int, nargs=2, metavar=("FIRST", "COUNT"), help=argparse.SUPPRESS)
    parser.add_argument("--replay", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    subject = SUBJECTS[options.what]
    if options.child:
        first, count = options.child
        return child(first, count, options.target, options.large, options.what)
    if options.replay:
        case = pickle.loads(options.replay.read_bytes())
        return _STOPPED if subject.check(case, options.target).kind == "fails" else 0
    if options.only is not None:
        case = subject.case(options.only, options.large)
        outcome = subject.check(case, options.target)
        print(f"{subject.describe(case)}\n{outcome.kind} {outcome.detail}")
        return int(outcome.bad)
    failures = fuzz(options.seconds, options.target, options.large, options.first, options.processes, options.what)
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
