"""Timing the configurations of a search: who is timed how often, and what is recorded when it ends early."""

from collections.abc import Callable
from contextlib import nullcontext

import numpy as np
import pytest

import tessera
from tessera.core.errors.catalog import BadGrid, ContextLost
from tessera.core.targets import TARGETS
from tessera.kernels.kernel import Kernel
from tessera.tuning import rounds as tuning_rounds
from tessera.tuning.results import Trial
from tessera.tuning.rounds import COMPARED, FIRST_ROUNDS, MOST_COMPARED, Bench, Candidate
from tessera.tuning.search_space import Proposal

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


@pytest.fixture
def recorded() -> list[Trial]:
    return []


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, recorded: list[Trial]) -> Callable[..., Bench]:
    """Makes a bench with a clock."""

    def make(clock: Clock, enough: Callable[[], bool] = lambda: False) -> Bench:
        monkeypatch.setattr(tuning_rounds, "timer_for", lambda target, values: clock)

        def record(trial: Trial) -> Trial:
            recorded.append(trial)
            return trial

        x = np.ones(100, np.float32)
        return Bench(TARGETS["cpu"], (x, np.zeros_like(x)), None, enough, record)

    return make


def test_a_first_trial_leaves_out_the_launch_that_gets_ready(
    bench: Callable[..., Bench], candidates: list[Candidate], recorded: list[Trial]
):
    clock = Clock(float, {})
    one = bench(clock)
    trial = one.first(candidates[0])
    assert trial.seconds == (2.0, 3.0, 4.0)
    assert recorded == [trial]
    one.close()
    assert clock.closed


def test_what_a_launch_refuses_is_a_trial(bench: Callable[..., Bench], candidates: list[Candidate]):
    trial = bench(Clock(lambda _: 1.0, {1: BadGrid("too many groups")})).first(candidates[0])
    assert trial.status == "illegal"
    assert "too many groups" in trial.error
    assert trial.code == "code 16"


def test_a_fault_is_recorded_and_goes_on(
    bench: Callable[..., Bench], candidates: list[Candidate], recorded: list[Trial]
):
    with pytest.raises(ContextLost):
        bench(Clock(lambda _: 1.0, {2: ContextLost("a fault")})).first(candidates[0])
    assert [trial.status for trial in recorded] == ["illegal"]


def test_hopeful_candidates_take_turns(
    bench: Callable[..., Bench], candidates: list[Candidate], recorded: list[Trial], monkeypatch: pytest.MonkeyPatch
):
    times = {"code 16": 1.0, "code 32": 2.5, "code 64": 1.4}
    order: list[str] = []

    def launch(self: Bench, candidate: Candidate, seconds: list[float]) -> None:
        order.append(candidate.code)
        seconds.append(times[candidate.code])

    monkeypatch.setattr(Bench, "_launch", launch)
    one = bench(Clock(lambda _: 0.0, {}))
    for candidate in candidates:
        candidate.seconds = [times[candidate.code]] * FIRST_ROUNDS
    given = list(one.heats(candidates, disturbed=False))
    turns = ["code 16", "code 64", "code 64", "code 16", "code 16", "code 64"]
    assert order == [*turns, *["code 16"] * 3]  # 64 is beaten after the first heat
    assert [(trial.code, len(trial.seconds)) for trial in given] == [("code 16", 9), ("code 64", 6)]
    assert recorded == given
    given = list(one.heats(candidates, disturbed=True))  # where compilers disturbed it, 32 may be as fast
    assert [(trial.code, len(trial.seconds)) for trial in given] == [("code 16", 6), ("code 32", 3), ("code 64", 3)]


def test_heats_end_when_there_is_enough(
    bench: Callable[..., Bench], candidates: list[Candidate], recorded: list[Trial]
):
    enough = iter([False, False])
    one = bench(Clock(lambda _: 1.0, {}), lambda: next(enough, True))
    for candidate in candidates:
        candidate.seconds = [1.0] * FIRST_ROUNDS
    given = list(one.heats(candidates, disturbed=False))
    assert [len(trial.seconds) for trial in given] == [FIRST_ROUNDS + 1, FIRST_ROUNDS + 1, FIRST_ROUNDS]


def compared(bench: Bench, candidates: list[Candidate], default: Candidate | None) -> dict[str, int]:
    for candidate in candidates:
        candidate.seconds = [1.0]
    return {trial.code: len(trial.compared) for trial in bench.compare(candidates, default)}


def test_the_best_are_compared_with_the_default_until_one_clearly_wins(
    bench: Callable[..., Bench], candidates: list[Candidate], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tuning_rounds, "_SHORT", 0.0)
    own = candidates[0]
    faster = Clock(lambda n: 1.0 if n % 6 in (1, 0) else 0.8, {})  # the default is first, then last, in turns
    assert compared(bench(faster), candidates, own) == {c.code: COMPARED for c in candidates}
    tied = Clock(lambda _: 1.0, {})
    assert compared(bench(tied), candidates, own) == {c.code: MOST_COMPARED for c in candidates}
    assert compared(bench(Clock(lambda _: 1.0, {})), candidates, None) == {c.code: COMPARED for c in candidates}


def test_short_launches_are_compared_more_often(
    bench: Callable[..., Bench], candidates: list[Candidate], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tuning_rounds, "_SHORT", 1e9)
    assert compared(bench(Clock(lambda _: 1.0, {})), candidates, None) == {c.code: MOST_COMPARED for c in candidates}


def test_long_launches_are_compared_less_often(
    bench: Callable[..., Bench], candidates: list[Candidate], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(tuning_rounds, "_LONG", 0.0)
    assert set(compared(bench(Clock(lambda _: 1.0, {})), candidates, None).values()) == {5}


def test_a_comparison_that_is_interrupted_counts_when_it_has_enough_rounds(
    bench: Callable[..., Bench], candidates: list[Candidate], recorded: list[Trial]
):
    for stop, rounds in ((8, 0), (20, 6)):
        recorded.clear()
        with pytest.raises(KeyboardInterrupt):
            compared(bench(Clock(lambda _: 1.0, {stop: KeyboardInterrupt()})), candidates, candidates[0])
        assert [len(trial.compared) for trial in recorded] == [rounds] * (3 if rounds else 0)


def test_one_candidate_needs_no_comparison(bench: Callable[..., Bench], candidates: list[Candidate]):
    assert compared(bench(Clock(lambda _: 1.0, {})), candidates[:1], candidates[0]) == {}
