"""Searches in the background: what they are asked happens, and nothing of it depends on how fast they are."""

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import tessera
from support.interrupts import ctrl_c_inside
from tessera import autotune
from tessera.core.base.interrupts import LOOK, raise_if_stopped
from tessera.core.errors.catalog import BadKernelOption, TuningFailed
from tessera.core.settings import overridden
from tessera.kernels.kernel import Kernel
from tessera.tuning.background import FAILED, FINISHED, PAUSED, RUNNING, STOPPED, BackgroundSearch
from tessera.tuning.compile_pipeline import Pipeline
from tessera.tuning.results import MEASURED, Trial
from tessera.tuning.search_space import Proposal
from tessera.tuning.steering import TURN

SOURCE = """
@kernel
def doubled(x: f32[n], y: mut f32[n]):
    for t in tile.range(n, step=STEP):
        y[t:t+STEP] = 2.0 * x[t:t+STEP]
"""
SPACE = {"STEP": [16, 32, 64, 128]}


@pytest.fixture
def module(tmp_path: Path) -> Iterator[ModuleType]:
    with overridden(cache_dir=tmp_path):
        yield tessera.compile_source(SOURCE)


def arrays() -> tuple[np.ndarray, np.ndarray]:
    return np.arange(500, dtype=np.float32), np.zeros(500, np.float32)


class Gate:
    """Holds launches of the search's thread until they are let through, and counts them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open, self.launches, self.reached = threading.Event(), 0, threading.Event()
        launch = Kernel.launch

        def held(kernel: Kernel, *arguments: object, **keywords: object) -> None:
            if threading.current_thread().name == "tessera-search":
                self.reached.set()
                while not self.open.wait(LOOK):
                    raise_if_stopped()  # as a launch on the CPU does
                self.launches += 1
            launch(kernel, *arguments, **keywords)  # pyright: ignore[reportArgumentType]

        monkeypatch.setattr(Kernel, "launch", held)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    made = Gate(monkeypatch)
    yield made
    made.open.set()


@pytest.fixture
def started(module: ModuleType) -> Iterator[Callable[..., BackgroundSearch]]:
    made: list[BackgroundSearch] = []

    def start(**changes: object) -> BackgroundSearch:
        arguments = {"kernel": module.doubled, "params": SPACE, "args": arrays(), **changes}
        made.append(autotune.start(**arguments))  # pyright: ignore[reportArgumentType]
        return made[-1]

    yield start
    for search in made:
        search.stop()


class Heard:
    """Hears of trials, and of the end of a wait."""

    def __init__(self) -> None:
        self.trials: list[Trial] = []
        self.beats = threading.Semaphore(0)

    def recorded(self, trial: Trial) -> None:
        self.trials.append(trial)

    def beat(self) -> None:
        self.beats.release()

    def wait(self, count: int) -> None:
        """Wait for so many beats."""
        for _ in range(count):
            assert self.beats.acquire(timeout=60)


def settled(search: BackgroundSearch) -> int:
    return sum(trial.status == MEASURED for trial in search.result.trials)


def test_it_finds_what_a_search_in_a_cell_finds(started: Callable[..., BackgroundSearch], module: ModuleType):
    values = arrays()
    search = started(args=values)
    found = search.wait(120)
    assert search.state == FINISHED
    assert [trial.config for trial in found.trials] == [{"STEP": step} for step in SPACE["STEP"]]
    assert found.complete
    assert found.config in [trial.config for trial in found.trials]
    assert not values[1].any()  # it has measured copies
    assert autotune.search(kernel=module.doubled, params=SPACE, args=values).trials == found.trials  # from the record
    assert all(trial.at > 0 for trial in found.trials)


def test_a_pause_begins_no_further_launch(started: Callable[..., BackgroundSearch], gate: Gate):
    search, heard = started(), Heard()
    search.listen(heard)
    assert gate.reached.wait(60)
    search.pause()
    assert search.state == search.phase == PAUSED
    gate.open.set()  # the launch under way goes on; no further one follows
    while heard.beats.acquire(blocking=False):
        pass
    heard.wait(5)
    assert gate.launches == 1
    assert settled(search) == 0
    search.resume()
    assert search.state == RUNNING
    assert search.wait(120).complete


def test_a_stop_keeps_the_best(started: Callable[..., BackgroundSearch]):
    search = started(params={"STEP": [16 * step for step in range(1, 40)]})
    enough = threading.Event()

    class Few(Heard):
        def recorded(self, trial: Trial) -> None:
            super().recorded(trial)
            if sum(each.status == MEASURED for each in self.trials) >= 2:
                enough.set()

    search.listen(Few())
    assert enough.wait(120)
    found = search.stop()
    assert search.state == STOPPED
    assert found.interrupted
    assert not found.complete
    assert found.best.status == MEASURED
    assert found.best.median == min(trial.median for trial in found.trials if trial.median is not None)
    assert search.wait() == found
    reopened = autotune.reopen(found.log)
    assert reopened.interrupted
    assert reopened.best.config == found.best.config


@pytest.mark.parametrize("paused", [True, False])
def test_a_stop_ends_a_launch_and_a_pause(started: Callable[..., BackgroundSearch], gate: Gate, paused: bool):
    search = started()
    if paused:
        search.pause()
    else:
        assert gate.reached.wait(60)
    assert search.stop().interrupted
    assert search.error is None
    assert search.state == STOPPED
    assert gate.launches == 0


@pytest.fixture
def submitted(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The steps that compilers get, in this order: workers may be done with them in any other."""
    steps: list[object] = []
    submit = Pipeline.submit

    def recording(pipeline: Pipeline, proposal: Proposal) -> None:
        steps.append(proposal.config["STEP"])
        submit(pipeline, proposal)

    monkeypatch.setattr(Pipeline, "submit", recording)
    return steps


def test_a_configuration_by_hand_is_compiled_next(
    started: Callable[..., BackgroundSearch], gate: Gate, submitted: list[object]
):
    search = started(params={"STEP": [16 * step for step in range(1, 30)]})
    assert gate.reached.wait(60)  # the default's first launch is under way, and nothing else is compiled yet
    assert search.add(STEP=1024) == {"STEP": 1024}
    gate.open.set()
    statuses = {trial.config["STEP"]: trial.status for trial in search.wait(300).trials}
    assert submitted[:2] == [16, 1024]
    assert statuses[1024] == MEASURED


def test_a_configuration_by_hand_goes_before_all_that_no_worker_has(
    started: Callable[..., BackgroundSearch], gate: Gate, submitted: list[object]
):
    search = started(params={"STEP": [16 * step for step in range(1, 30)]})
    submitted_before: list[object] = []

    class AddsAfterTheThird(Heard):
        def recorded(self, trial: Trial) -> None:
            super().recorded(trial)
            if settled(search) >= 3 and not submitted_before:
                submitted_before.extend(submitted)
                search.add(STEP=1024)

    listener = AddsAfterTheThird()
    search.listen(listener)
    gate.open.set()
    search.wait(300)
    assert submitted[: len(submitted_before) + 1] == [*submitted_before, 1024]
    assert {trial.config["STEP"]: trial.status for trial in listener.trials}[1024] == MEASURED


def test_a_search_that_has_ended_goes_on_with_a_configuration_by_hand(started: Callable[..., BackgroundSearch]):
    search = started()
    search.wait(120)
    search.add(STEP=256)
    found = search.wait(120)
    assert found.trials[-1].config == {"STEP": 256}
    assert found.trials[-1].status == MEASURED
    search.stop()
    search.add(STEP=512)
    assert search.wait(120).trials[-1].status == MEASURED
    assert search.state == FINISHED


def test_what_the_kernel_cannot_have_is_refused(started: Callable[..., BackgroundSearch]):
    search = started()
    with pytest.raises(BadKernelOption, match="doubled has no tuning parameter 'STEPS'"):
        search.add(STEPS=3)
    search.wait(120)
    with pytest.raises(BadKernelOption):
        search.add(stages=-1)


@pytest.mark.parametrize("value", ["banana", True, 1.5])
def test_a_value_of_another_kind_is_refused(started: Callable[..., BackgroundSearch], value: str | float):
    search = started(params={"STEP": [8, 256]})
    with pytest.raises(BadKernelOption) as refused:
        search.add(STEP=value)
    assert refused.value.hint.startswith("the search has STEP = ")
    search.wait(120)
    assert all(isinstance(trial.config["STEP"], int) for trial in search.result.trials)


def test_a_missing_value_is_that_of_the_best(module: ModuleType, started: Callable[..., BackgroundSearch]):
    search = started()
    best = search.wait(120).config
    assert search.completed({"rows_per_group": 1}) == {**best, "rows_per_group": 1}


def test_a_missing_value_without_a_best_is_refused(started: Callable[..., BackgroundSearch], gate: Gate):
    search = started()
    with pytest.raises(BadKernelOption, match="the configuration lacks STEP"):
        search.add(rows_per_group=1)


def test_a_pinned_configuration_is_compared_however_slow(started: Callable[..., BackgroundSearch], gate: Gate):
    search = started(params={"STEP": [8, 256, 512, 1024, 2048, 4096, 16384, 32768]})
    for step in (8, 512):
        search.pin({"STEP": step})
    search.pin({"STEP": 256})
    search.unpin({"STEP": 256})
    assert search.pins == ({"STEP": 8}, {"STEP": 512})
    gate.open.set()
    trials = {trial.config["STEP"]: trial for trial in search.wait(300).trials}
    assert trials[8].compared
    assert trials[512].compared


def test_what_the_search_raises_comes_out_of_wait(started: Callable[..., BackgroundSearch]):
    search = started(params={"STEP": [0]})
    with pytest.raises(TuningFailed, match="none of the 1 configurations of doubled runs"):
        search.wait(120)
    assert search.state == FAILED
    assert isinstance(search.error, TuningFailed)
    assert search.phase.startswith("failed: ")


def test_a_wait_ends_in_time_and_leaves_the_search(started: Callable[..., BackgroundSearch], gate: Gate):
    search = started()
    with pytest.raises(TimeoutError, match="the search of doubled still runs"):
        search.wait(0)
    with ctrl_c_inside(BackgroundSearch.wait):
        search.wait()
    assert search.state == RUNNING
    gate.open.set()
    assert search.wait(120).complete


def test_the_search_of_a_cell_goes_before(module: ModuleType, started: Callable[..., BackgroundSearch]):
    search, heard = started(params={"STEP": [16 * step for step in range(1, 30)]}), Heard()
    search.listen(heard)
    heard.wait(1)
    found = autotune.search(kernel=module.doubled, params={"STEP": [24]}, args=arrays())
    assert found.config == {"STEP": 24}
    assert search.wait(300).complete
    assert not TURN.wanted


def test_two_in_the_background_measure_one_after_the_other(
    started: Callable[..., BackgroundSearch], gate: Gate, module: ModuleType
):
    first = started()
    assert gate.reached.wait(60)
    second = started(params={"STEP": [24, 48]})
    gate.reached.clear()
    assert second.state == RUNNING
    assert settled(second) == 0
    gate.open.set()
    assert first.wait(120).complete
    assert second.wait(120).complete


def test_many_threads_steer_it(started: Callable[..., BackgroundSearch]):
    search = started()
    wanted = [32 * step for step in range(9, 25)]

    def steer(step: int) -> None:
        search.pause()
        search.add(STEP=step)
        search.pin({"STEP": step})
        search.resume()
        search.unpin({"STEP": step})

    threads = [threading.Thread(target=steer, args=(step,)) for step in wanted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    search.resume()
    found = {trial.config["STEP"]: trial.status for trial in search.wait(300).trials}
    assert {found[step] for step in wanted} <= {MEASURED, "duplicate"}
    assert search.pins == ()


def test_it_ends_with_the_process(tmp_path: Path):
    script = tmp_path / "ends.py"
    script.write_text(
        "import numpy as np, tessera\nfrom tessera import autotune\n"
        f"module = tessera.compile_source('''{SOURCE}''')\n"
        "x = np.ones(500, np.float32)\n"
        "search = autotune.start(kernel=module.doubled, params={'STEP': [16 * i for i in range(1, 60)]}, args=(x, x.copy()))\n"
        "while not any(trial.status == 'measured' for trial in search.result.trials): pass\n"
        "print(search.state)\n"
    )
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=False)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "running\n", "")


def test_it_says_what_it_is(started: Callable[..., BackgroundSearch], gate: Gate):
    search = started()
    assert repr(search) == "<search of doubled: running, 0 of 4 configurations>"
    gate.open.set()
    search.wait(120)
    assert repr(search).startswith("<search of doubled: finished, 4 of 4 configurations; best STEP=")
