"""Timing the configurations of a search: who is timed how often, and what is recorded when it ends early."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext

import numpy as np
import pytest

import tessera
from tessera import tuning_rounds
from tessera.core.mistakes import BadGrid, ContextLost
from tessera.kernel_class import Kernel
from tessera.tuning import MEASURED, Trial
from tessera.tuning_rounds import FIRST_ROUNDS, ROUNDS, Candidate, Rounds
from tessera.tuning_space import Proposal

SOURCE = """
@kernel
def doubled(x: f32[n], y: mut f32[n]):
    for t in tile.range(n, step=STEP):
        y[t:t+STEP] = 2.0 * x[t:t+STEP]
"""


class Clock:
    """A timer whose launches take what `seconds` says of their number; `fail` is raised at that number."""

    def __init__(self, seconds: Callable[[int], float], fail: dict[int, BaseException]) -> None:
        self.seconds, self.fail = seconds, fail
        self.launches = 0
        self.closed = False

    def time(self, launch: Callable[[], None]) -> float:
        self.launches += 1
        if self.launches in self.fail:
            raise self.fail[self.launches]
        launch()
        return self.seconds(self.launches)

    def inside(self) -> nullcontext[None]:
        return nullcontext()

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def candidates() -> list[Candidate]:
    kernel: Kernel = tessera.compile_source(SOURCE).doubled
    return [
        Candidate(Proposal({"STEP": step}, kernel.with_constants({"STEP": step})), f"code {step}", (False, True))
        for step in (16, 32, 64)
    ]


def measured(
    monkeypatch: pytest.MonkeyPatch, candidates: list[Candidate], clock: Clock, enough: Iterator[bool] | None = None
) -> tuple[list[Trial], list[Trial]]:
    """The trials that measuring gives, and those that it records."""
    monkeypatch.setattr(tuning_rounds, "timer_for", lambda target, values: clock)
    recorded: list[Trial] = []

    def record(trial: Trial) -> Trial:
        recorded.append(trial)
        return trial

    x = np.ones(100, np.float32)
    ends = (lambda: False) if enough is None else (lambda: next(enough))
    given = list(Rounds("cpu", (x, np.zeros_like(x)), None, None, ends, record).measure(candidates))
    return given, recorded


def test_hopeful_candidates_are_timed_further(monkeypatch: pytest.MonkeyPatch, candidates: list[Candidate]):
    clock = Clock(lambda number: 3.0 if 5 <= number <= 8 else 1.0, {})  # the second one is hopeless
    given, recorded = measured(monkeypatch, candidates, clock)
    assert [len(trial.seconds) for trial in given] == [FIRST_ROUNDS] * 3 + [ROUNDS] * 2
    assert [trial.config["STEP"] for trial in given] == [16, 32, 64, 16, 64]
    assert recorded == given
    assert clock.closed


def test_launches_end_when_there_is_enough(monkeypatch: pytest.MonkeyPatch, candidates: list[Candidate]):
    enough = iter([False, False, False, *[False] * 4, True])  # four more launches, of which the first one has two
    given, recorded = measured(monkeypatch, candidates, Clock(lambda _: 1.0, {}), enough)
    assert [len(trial.seconds) for trial in given] == [FIRST_ROUNDS] * 3
    assert [len(trial.seconds) for trial in recorded[3:]] == [FIRST_ROUNDS + 2, FIRST_ROUNDS + 1, FIRST_ROUNDS + 1]
    assert measured(monkeypatch, candidates, Clock(lambda _: 1.0, {}), iter([True]))[0] == []


def test_what_a_launch_refuses_is_a_trial(monkeypatch: pytest.MonkeyPatch, candidates: list[Candidate]):
    given, _ = measured(monkeypatch, candidates, Clock(lambda _: 1.0, {1: BadGrid("too many groups")}))
    assert [trial.status for trial in given[:3]] == ["illegal", MEASURED, MEASURED]
    assert "too many groups" in given[0].error
    assert given[0].code == "code 16"


def test_an_interrupt_keeps_what_was_measured(monkeypatch: pytest.MonkeyPatch, candidates: list[Candidate]):
    clock = Clock(lambda _: 1.0, {14: KeyboardInterrupt()})
    with pytest.raises(KeyboardInterrupt):
        measured(monkeypatch, candidates, clock)
    assert clock.closed
    assert [len(candidate.seconds) for candidate in candidates] == [FIRST_ROUNDS + 1, FIRST_ROUNDS, FIRST_ROUNDS]


def test_a_fault_is_recorded_and_ends_it(monkeypatch: pytest.MonkeyPatch, candidates: list[Candidate]):
    recorded: list[Trial] = []
    clock = Clock(lambda _: 1.0, {5: ContextLost("an illegal memory access")})
    monkeypatch.setattr(tuning_rounds, "timer_for", lambda target, values: clock)
    x = np.ones(100, np.float32)
    rounds = Rounds(
        "cpu", (x, np.zeros_like(x)), None, None, lambda: False, lambda trial: recorded.append(trial) or trial
    )
    with pytest.raises(ContextLost):
        list(rounds.measure(candidates))
    assert [trial.status for trial in recorded] == [MEASURED, "illegal"]


def test_nothing_is_measured_of_nothing(monkeypatch: pytest.MonkeyPatch):
    assert measured(monkeypatch, [], Clock(lambda _: 1.0, {})) == ([], [])
