"""The GPU benchmarks without a GPU: the command line, statistics, goals, the table, and a measuring process that dies."""

import importlib
import json
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # the fixtures put the folder on the path
    from benchmarks.gpu_measure import Goal, Ready

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def measure(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(FOLDER))  # pyright: ignore[reportUnknownMemberType] - of pytest itself
    return importlib.import_module("gpu_measure")


@pytest.fixture
def gpu(measure: ModuleType) -> ModuleType:
    return importlib.import_module("gpu")


class Clock:
    """A contender's time is what its notes say; `lost` makes the device not answer."""

    def __init__(self) -> None:
        self.lost = False
        self.taken: list[tuple[str, int, int]] = []

    def milliseconds(self, ready: "Ready", runs: int, first: int) -> float:
        ready.run(first)
        times = ready.notes["ms"]
        self.taken.append((ready.notes["name"], runs, first))
        return times[len([t for t in self.taken if t[0] == ready.notes["name"]]) % len(times)]

    def settle(self) -> None:
        if self.lost:
            raise RuntimeError("an illegal address")


def contender(measure: ModuleType, name: str, *ms: float, result: float = 1.0, share: int = 1):
    notes = {"name": name, "ms": ms}
    return lambda: measure.Ready(lambda _: None, lambda: result, notes=notes, share=share)


def test_medians_of_samples_taken_in_turns(measure: ModuleType):
    clock = Clock()
    case = measure.Case(
        "square", "TFLOP/s", 2e12,
        {"tessera": contender(measure, "tessera", 2.0, 1.0, 4.0), "peer": contender(measure, "peer", 4.0)},
        error=lambda x: abs(x - 1), tolerance=0.0, goal=measure.Goal("best", 1.05),
    )  # fmt: skip
    row = measure.measure(case, clock, measure.Effort(rounds=3, sample_ms=8.0))
    assert row.outcomes["tessera"].samples == [4.0, 2.0, 1.0]
    assert row.outcomes["tessera"].median == 2.0
    assert row.outcomes["tessera"].rate == 1000.0
    assert row.outcomes["peer"].rate == 500.0
    timed = [name for name, runs, _ in clock.taken if runs != 3]
    assert timed == ["tessera", "peer", "peer", "tessera", "tessera", "peer"]
    assert {runs for name, runs, _ in clock.taken if name == "peer"} == {3, 2}  # the trial, and 8 ms a sample
    measure.judge([row])
    assert (row.ratio, row.met) == (2.0, True)


def test_samples_that_only_let_the_clock_settle_are_not_counted(measure: ModuleType):
    clock = Clock()
    case = measure.Case("square", "TFLOP/s", 2e12, {"tessera": contender(measure, "tessera", 8.0, 2.0, 8.0, 4.0)})
    row = measure.measure(case, clock, measure.Effort(rounds=2, sample_ms=16.0, settle=1))
    assert row.outcomes["tessera"].samples == [4.0, 2.0]


def test_a_wrong_result_and_a_failing_kernel_are_reported_and_the_rest_goes_on(measure: ModuleType):
    def broken():
        raise MemoryError("no room")

    case = measure.Case(
        "square", "GB/s", 1e6,
        {"tessera": contender(measure, "t", 1.0, result=math.nan), "broken": broken, "peer": contender(measure, "p", 1.0)},
        error=lambda x: abs(x - 1), tolerance=0.1, goal=measure.Goal("best", 1.0),
    )  # fmt: skip
    row = measure.measure(case, Clock(), measure.Effort(rounds=2))
    assert "wrong by nan" in row.outcomes["tessera"].failure
    assert row.outcomes["tessera"].rate is None
    assert row.outcomes["broken"].failure.startswith("MemoryError: no room (broken:")
    assert row.outcomes["peer"].rate == 1.0
    measure.judge([row])
    assert row.met is None
    shown = measure.table([row])
    assert "tessera: ValueError: wrong by nan" in shown
    assert "peer 1.0" in shown


def test_a_lost_device_ends_the_process(measure: ModuleType):
    clock = Clock()

    def fault():
        clock.lost = True
        raise RuntimeError("fault")

    case = measure.Case("square", "GB/s", 1.0, {"tessera": fault})
    begun: list[str] = []
    with pytest.raises(measure.DeviceLost, match="an illegal address"):
        measure.measure(case, clock, measure.Effort(), begins=begun.append)
    assert begun == ["tessera"]
    row = measure.measure(case, Clock(), measure.Effort(), excluded={"tessera": "ended with status 3"})
    assert row.outcomes["tessera"].failure == "ended with status 3"


def row(measure: ModuleType, name: str, goal: "Goal | None" = None, **rates: float):
    outcomes = {who: measure.Outcome([1.0, 2.0, 3.0], rate) for who, rate in rates.items()}
    return measure.Row(name, "GB/s", outcomes, goal)


def test_goals_may_stand_in_other_rows(measure: ModuleType):
    rows = [
        row(measure, "copy", torch=4000.0),
        row(measure, "even", tessera=700.0),
        row(measure, "softmax", measure.Goal("peer:copy:torch", 0.92), tessera=3720.0),
        row(measure, "odd", measure.Goal("row:even", 0.85), tessera=560.0),
        row(measure, "named", measure.Goal("cublas", 1.1), tessera=110.0, cublas=100.0, triton=120.0),
        row(measure, "alone", measure.Goal("best", 1.0), tessera=110.0),
        row(measure, "launch", measure.Goal("limit", 3.0), tessera=2.5),
    ]
    measure.judge(rows)
    assert [(r.ratio, r.met) for r in rows] == [
        (None, None), (None, None), (0.93, True), (0.8, False), (1.1, True), (None, None), (None, True),
    ]  # fmt: skip
    lines = measure.table(rows).splitlines()
    assert "0.930" in lines[3]
    assert ">= 0.92 torch" in lines[3]
    assert "<= 3 us" in lines[7]


def test_a_share_of_a_run(measure: ModuleType):
    case = measure.Case("graph", "us", 0, {"tessera": contender(measure, "t", 0.1, share=100)})
    made = measure.measure(case, Clock(), measure.Effort(rounds=1))
    assert made.outcomes["tessera"].rate == pytest.approx(1.0)


def test_rows_survive_json(measure: ModuleType):
    made = row(measure, "odd", measure.Goal("row:even", 0.85), tessera=560.0)
    stored = json.loads(json.dumps(measure.as_json(made)))
    assert stored["outcomes"]["tessera"]["median_ms"] == 2.0
    assert measure.from_json(stored) == made


def test_constants(measure: ModuleType):
    assert measure.read_constants("BM=128, eps=0.5") == {"BM": 128, "eps": 0.5}
    assert measure.read_constants("") == {}
    with pytest.raises(ValueError, match="'BM' is not NAME=NUMBER"):
        measure.read_constants("BM")


def test_the_command_line(gpu: ModuleType, capsys: pytest.CaptureFixture[str]):
    options = gpu.read_arguments(["--only", "gemm,attention", "--set", "BM=64", "--set", "BM=128,BN=256", "--quick"])
    assert options.sections == ("gemm", "attention")
    assert options.sets == ["BM=64", "BM=128,BN=256"]
    assert gpu.read_arguments([]).sections == gpu.SECTIONS
    for wrong in (["--only", "gems"], ["--set", "BM"]):
        with pytest.raises(SystemExit):
            gpu.read_arguments(wrong)
    assert "there is no section 'gems'" in capsys.readouterr().err


CHILD = """
import json, os, sys, time
sys.path.insert(0, {folder!r})
import gpu, gpu_measure
job = json.loads(sys.argv[1])
gpu.say(facts=dict(card="paper"))
for name in ("first", "crashes", "hangs", "last"):
    if name in job["done"]:
        continue
    gpu.say(begin=name)
    outcomes = {{}}
    for who in ("tessera", "peer"):
        outcome = outcomes[who] = gpu_measure.Outcome(failure=job["excluded"].get(name, {{}}).get(who, ""))
        if outcome.failure:
            continue
        gpu.say(begin=name, contender=who)
        if (name, who) == ("crashes", "tessera"):
            os._exit(3)
        if (name, who) == ("hangs", "peer"):
            time.sleep(60)
        outcome.samples, outcome.rate = [1.0], 5.0
    print("an ordinary line", flush=True)
    gpu.say(row=gpu_measure.as_json(gpu_measure.Row(name, "GB/s", outcomes)))
gpu.say(finished=True)
"""


def test_what_dies_or_hangs_is_left_out_and_the_rest_goes_on(gpu: ModuleType, tmp_path: Path):
    script = tmp_path / "child.py"
    script.write_text(CHILD.format(folder=str(FOLDER)))
    supervisor = gpu.Supervisor([sys.executable, str(script)], patience=3.0)
    supervisor.run({})
    assert list(supervisor.rows) == ["first", "crashes", "hangs", "last"]
    assert supervisor.rows["crashes"].outcomes["tessera"].failure == "ended with status 3"
    assert supervisor.rows["crashes"].outcomes["peer"].rate == 5.0
    assert supervisor.rows["hangs"].outcomes["peer"].failure == "said nothing for 3 s"
    assert supervisor.given_up == {}
    assert supervisor.facts == {"card": "paper"}


def test_a_row_that_dies_without_a_contender_is_given_up(gpu: ModuleType, tmp_path: Path):
    script = tmp_path / "child.py"
    script.write_text(
        f"import json, os, sys; sys.path.insert(0, {str(FOLDER)!r}); import gpu\n"
        "if 'first' in json.loads(sys.argv[1])['done']: gpu.say(finished=True); sys.exit()\n"
        "gpu.say(begin='first'); os._exit(1)"
    )
    supervisor = gpu.Supervisor([sys.executable, str(script)], patience=10.0)
    supervisor.run({})
    assert supervisor.given_up == {"first": "ended with status 1"}


def test_what_was_measured_in_time_is_kept(gpu: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    script = tmp_path / "child.py"
    script.write_text(CHILD.format(folder=str(FOLDER)).replace('"crashes", ', ""))
    supervisor = gpu.Supervisor([sys.executable, str(script)], patience=30.0, budget=2.0)
    supervisor.run({})
    assert list(supervisor.rows) == ["first"]
    assert "-- 2 s are over" in capsys.readouterr().out


def test_the_json_holds_no_nan(gpu: ModuleType, tmp_path: Path):
    gpu.write(tmp_path / "new" / "gpu.json", {"rows": [{"error": math.nan, "ms": (1.0, math.inf)}]})
    assert json.loads((tmp_path / "new" / "gpu.json").read_text()) == {"rows": [{"error": None, "ms": [1.0, None]}]}
