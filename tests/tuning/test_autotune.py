"""The search: real launches of real configurations, and its record."""

import os
import re
import signal
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from unittest import mock

import numpy as np
import pytest

import tessera
from support.fake_cuda import FakeDriver
from support.interrupts import ctrl_c_reaches
from tessera import autotune, graph
from tessera.core.base.interrupts import DeferredInterrupts
from tessera.core.errors.base import TesseraError
from tessera.core.errors.catalog import (
    ArgumentCount,
    BadCapture,
    BadKernelOption,
    CompilerCrash,
    CompileTimeout,
    ContextLost,
    NotCalledYet,
    NotOnCuda,
    ToolMissing,
    TuningFailed,
)
from tessera.core.program.program import Program
from tessera.core.settings import overridden
from tessera.core.targets import Target
from tessera.core.work import Work
from tessera.kernels.kernel import Kernel
from tessera.lowering.artifact_cache.store import CacheEntry, entry_of
from tessera.lowering.driver.compile import compile_program
from tessera.lowering.service.protocol import Compile, Reply, Request
from tessera.lowering.service.server import Worker
from tessera.performance import device_model as machine
from tessera.performance.cost_model import Prediction
from tessera.performance.device_model import Machine
from tessera.runtime.binding.grid import Grid
from tessera.runtime.driver import driver
from tessera.runtime.launch import cuda
from tessera.runtime.streams.streams import Stream
from tessera.session.compiled import Compiled
from tessera.session.session import Session
from tessera.tuning import search_space
from tessera.tuning.record import read_log
from tessera.tuning.results import Trial

SOURCE = """
@kernel
def gemm(A: f32[m, k], B: f32[k, n], C: mut f32[m, n]):
    for i, j, l in tile.mma(A, B, C, BM=64, BN=64, BK=32):
        tile.mma_sync(i, j, l)

@kernel
def doubled(x: f32[n], y: mut f32[n]):
    for t in tile.range(n, step=STEP):
        y[t:t+STEP] = 2.0 * x[t:t+STEP]

@kernel
def centred(x: f32[n], total: mut f32[1], y: mut f32[n]):
    for t in tile.range(n, step=STEP):
        total[0] += tile.sum(x[t:t+STEP])
    for t in tile.range(n, step=STEP):
        y[t:t+STEP] = x[t:t+STEP] - total[0]

@kernel
def softmax(x: f32[n, m], y: mut f32[n, m]):
    y[:, :] = tile.softmax(x[:, :], axis=-1)

@kernel
def lanes(x: f32[n], y: mut f32[n]):
    i = tile.linear_id()
    if i < n:
        y[i] = 2.0 * x[i]

@kernel.autotune(space=dict(STEP=[32, 64]))
def tuned(x: f32[n], y: mut f32[n]):
    for t in tile.range(n, step=STEP):
        y[t:t+STEP] = y[t:t+STEP] + x[t:t+STEP]
"""


@pytest.fixture
def module(tmp_path: Path) -> Iterator[ModuleType]:
    with overridden(cache_dir=tmp_path):
        yield tessera.compile_source(SOURCE)


def arrays(n: int = 500) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(n, dtype=np.float32), np.zeros(n, np.float32)


def records(tmp_path: Path) -> list[str]:
    return [path.name.split("-")[0] for path in (tmp_path / "tuning").glob("*.json")]


def test_search_on_the_last_call(module: ModuleType, tmp_path: Path):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((70, 70)).astype(np.float32) for _ in range(2))
    c = np.zeros((70, 70), np.float32)
    module.gemm(a, b, c)
    result = c.copy()
    found = autotune.search(kernel=module.gemm, params={"BM": [16, 32], "BN": [32]}, objective="runtime")
    assert found.complete
    configs = [{"BM": 64, "BN": 64}, {"BM": 16, "BN": 32}, {"BM": 32, "BN": 32}]  # the kernel's own values first
    assert [trial.config for trial in found.trials] == configs
    assert found.default == configs[0]
    assert {trial.status for trial in found.trials} == {"measured"}
    assert all(min(trial.seconds) > 0 for trial in found.trials)
    assert len({len(trial.compared) for trial in found.trials}) == 1
    assert found.config in configs
    assert found["BN"] in (32, 64)
    np.testing.assert_array_equal(c, result)
    assert records(tmp_path) == ["gemm"]


def test_outputs_given_are_not_written(module: ModuleType):
    x, y = arrays()
    autotune.search(kernel=module.doubled, params={"STEP": [32, 64]}, args=(x, y))
    assert not y.any()


def test_duplicates_and_illegal_configurations_are_reported(module: ModuleType):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((16, 16)).astype(np.float32) for _ in range(2))
    space = {
        "BM": [64],
        "BN": [64],
        "BK": [32],
        "rows_per_group": [1, 2, 3],
    }  # no rows are spread over groups: all the same
    found = autotune.search(kernel=module.gemm, params=space, args=(a, b, np.zeros_like(a)))
    by_rows = {trial.config.get("rows_per_group"): trial for trial in found.trials}
    assert by_rows[None].status == "measured"
    assert (by_rows[1].status, by_rows[2].status) == ("duplicate", "duplicate")
    assert by_rows[1].same_as == by_rows[2].same_as == {"BM": 64, "BN": 64, "BK": 32} == found.config
    assert by_rows[1].code == by_rows[None].code
    assert not by_rows[1].seconds
    assert by_rows[3].status == "illegal"
    assert by_rows[3].error.startswith("rows_per_group=3 is not one of")


def test_what_cannot_be_compiled_is_reported(module: ModuleType):
    found = autotune.search(kernel=module.doubled, params={"STEP": [64, 0]}, args=arrays())
    assert [trial.status for trial in found.trials] == ["measured", "illegal"]
    assert found.trials[1].error.startswith("TSR-E")
    assert found.default is None  # STEP is defined nowhere else
    assert found.config == {"STEP": 64}


def test_the_default_is_measured_first_and_taken_where_nothing_is_faster(module: ModuleType):
    seen: list[Trial] = []
    fixed = module.doubled.variant(STEP=64)
    found = autotune.search(kernel=fixed, params={"STEP": [32, 64]}, args=arrays(), on_trial=seen.append)
    assert seen[0].config == {"STEP": 64} == found.default
    assert [trial.config for trial in found.trials] == [{"STEP": 64}, {"STEP": 32}]
    assert found.own is found.trials[0]
    assert len(found.own.compared) == len(found.trials[1].compared) > 0


def test_names_that_stand_for_nothing_are_refused(module: ModuleType):
    for space in ({"STEPS": [32, 64]}, {"STEP": [32], "stagess": [2]}):
        with pytest.raises(BadKernelOption, match=r"doubled has no tuning parameter .*, nor is it an option"):
            autotune.search(kernel=module.doubled, params=space, args=arrays())
        with pytest.raises(BadKernelOption, match="doubled has no tuning parameter") as caught:
            module.doubled.autotune(space=space)
        assert caught.value.hint in ("did you mean STEP?", "did you mean stages?")
    with pytest.raises(BadKernelOption, match="k has no tuning parameter 'BMM'"):
        tessera.compile_source("""
@kernel.autotune(space=dict(BMM=[1, 2]))
def k(x: f32[n], y: mut f32[n]):
    for t in tile.range(n, step=32):
        y[t:t+32] = x[t:t+32]
""")


def test_names_without_an_effect_are_noted_and_left_out(module: ModuleType):
    x, y = arrays()
    found = autotune.search(kernel=module.doubled, params={"STEP": [32], "stages": [2, 3], "BM": [1, 2]}, args=(x, y))
    assert [trial.config for trial in found.trials] == [{"STEP": 32}]
    assert found.notes == (
        "stages has no effect on the target cpu: iterations of K that are loaded ahead", "BM has no effect: doubled does not use it",
    )  # fmt: skip
    assert found.table().splitlines()[-2:] == list(found.notes)


def test_arguments_with_defaults_may_be_left_out():
    kernel = tessera.compile_source("""
@kernel
def scaled(x: f32[n], y: mut f32[n], factor: f32 = 3.0):
    for t in tile.range(n, step=STEP):
        y[t:t+STEP] = factor * x[t:t+STEP]
""").scaled
    x, y = np.ones(100, np.float32), np.zeros(100, np.float32)
    assert autotune.search(kernel=kernel, params={"STEP": [32]}, args=(x, y)).trials[0].status == "measured"
    with pytest.raises(ArgumentCount, match="missing a required argument: 'y'"):
        autotune.search(kernel=kernel, params={"STEP": [32]}, args=(x,))


@pytest.mark.parametrize(
    ("mistake", "status", "kept"),
    [
        (CompilerCrash, "failed", False),
        (CompileTimeout, "failed", False),
        (ToolMissing, "failed", False),
        (NotOnCuda, "illegal", True),
    ],
)
def test_what_the_compiler_fails_at_is_tried_again(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch, mistake: type[TesseraError], status: str, kept: bool
):
    x, y = arrays()
    compile_kernel = Kernel.compile_quietly

    def fail(self: Kernel, *arguments: object, target: str | None = None, **keywords: object) -> Compiled:
        if self.options.constants.get("STEP") == 64:
            raise mistake("no code")
        return compile_kernel(self, *arguments, target=target, **keywords)

    monkeypatch.setattr(Kernel, "compile_quietly", fail)
    found = autotune.search(kernel=module.doubled, params={"STEP": [32, 64]}, args=(x, y))
    assert [trial.status for trial in found.trials] == ["measured", status]
    assert "no code" in found.trials[1].error
    monkeypatch.undo()
    again = autotune.search(kernel=module.doubled, params={"STEP": [32, 64]}, args=(x, y))
    assert [trial.status for trial in again.trials] == ["measured", status if kept else "measured"]


def test_the_record_is_used_again(module: ModuleType):
    x, y = arrays()
    first = autotune.search(kernel=module.doubled, params={"STEP": [32, 64]}, args=(x, y))
    again = autotune.search(kernel=module.doubled, params={"STEP": [32, 64]}, args=(x, y))
    assert again.trials == first.trials
    more = autotune.search(kernel=module.doubled, params={"STEP": [32, 64, 128]}, args=(x, y))
    assert [trial.config for trial in more.trials] == [{"STEP": 32}, {"STEP": 64}, {"STEP": 128}]
    assert len({len(trial.compared) for trial in more.trials}) == 1  # anew, all in the same rounds
    assert more.best.compared
    near = autotune.search(kernel=module.doubled, params={"STEP": [32]}, args=arrays(480))
    assert near.trials == more.trials[:1]  # 480 and 500 are of one class
    far = autotune.search(kernel=module.doubled, params={"STEP": [32]}, args=arrays(1000))
    assert far.trials != more.trials[:1]
    fresh = autotune.search(kernel=module.doubled, params={"STEP": [32]}, args=(x, y), again=True)
    assert fresh.trials != more.trials[:1]


def test_a_tuned_kernel_searches_at_its_first_call(module: ModuleType, tmp_path: Path):
    x, y = arrays()
    module.tuned(x, y)
    np.testing.assert_array_equal(y, x)
    assert records(tmp_path) == ["tuned"]
    used = dict(module.tuned.last.program.options)
    assert used["STEP"] in (32, 64)
    module.tuned(x, y)
    np.testing.assert_array_equal(y, 2 * x)
    (record,) = (tmp_path / "tuning").glob("*.json")
    before = record.stat().st_mtime_ns
    again = tessera.compile_source(SOURCE, "elsewhere.tsr")
    again.tuned(x, y)
    assert dict(again.tuned.last.program.options) == used
    assert record.stat().st_mtime_ns == before


def test_another_class_of_shapes_is_tuned_anew(module: ModuleType, tmp_path: Path):
    module.tuned(*arrays(100))
    module.tuned(*arrays(120))
    assert len(records(tmp_path)) == 1
    module.tuned(*arrays(300))
    assert len(records(tmp_path)) == 2


def test_autotune_of_an_existing_kernel(module: ModuleType):
    x, y = arrays()
    kernel = module.doubled.autotune(space={"STEP": [32, 64]})
    kernel(x, y)
    np.testing.assert_array_equal(y, 2 * x)
    assert kernel.options.space == {"STEP": (32, 64)}


def test_interpreted_kernels_are_timed_too(module: ModuleType):
    x, y = arrays(50)
    with overridden(target="interpret"):
        found = autotune.search(kernel=module.doubled, params={"STEP": [32, 64]}, args=(x, y))
    assert [trial.status for trial in found.trials] == ["measured", "measured"]
    assert found.device == "interpret"


def test_nothing_runs(module: ModuleType):
    x, y = arrays()
    with pytest.raises(TuningFailed, match="none of the 1 configurations of doubled runs: STEP=0: TSR-E"):
        autotune.search(kernel=module.doubled, params={"STEP": [0]}, args=(x, y))


def test_never_called(module: ModuleType):
    with pytest.raises(NotCalledYet, match="doubled was not called yet") as caught:
        autotune.search(kernel=module.doubled, params={"STEP": [32]})
    assert caught.value.hint == "call doubled first, or give its arguments"


def test_objectives(module: ModuleType):
    with pytest.raises(BadKernelOption, match="there is no objective 'energy'"):
        autotune.search(kernel=module.doubled, params={"STEP": [32]}, objective="energy")
    with pytest.raises(BadKernelOption, match="needs a space"):
        autotune.search(kernel=module.doubled, params={}, args=arrays())


def test_a_kernel_of_several_phases(module: ModuleType):
    rng = np.random.default_rng(0)
    x = rng.standard_normal(1000).astype(np.float32)
    total, y = np.zeros(1, np.float32), np.zeros(1000, np.float32)
    found = autotune.search(kernel=module.centred, params={"STEP": [32, 64]}, args=(x, total, y))
    assert [trial.status for trial in found.trials] == ["measured", "measured"]
    assert not total.any()
    assert not y.any()
    fixed = module.centred.variant(**found)
    fixed(x, total, y)
    assert len(fixed.last.phases) > 1
    np.testing.assert_allclose(y, x - x.sum(), rtol=1e-4, atol=1e-4)


def test_a_budget_skips_what_is_left(module: ModuleType):
    x, y = arrays()
    found = autotune.search(kernel=module.doubled, params={"STEP": [32, 64, 128]}, args=(x, y), budget=0.0)
    assert not found.complete
    assert [trial.status for trial in found.trials] == ["measured", "skipped", "skipped"]
    rest = autotune.search(kernel=module.doubled, params={"STEP": [32, 64, 128]}, args=(x, y))
    assert rest.complete
    assert {trial.status for trial in rest.trials} == {"measured"}
    assert rest.trials[0].code == found.trials[0].code


def test_an_interrupt_while_measuring_keeps_what_was_found(module: ModuleType):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((700, 700)).astype(np.float32) for _ in range(2))
    c = np.zeros((700, 700), np.float32)
    autotune.search(kernel=module.gemm, params={"BM": [64]}, args=(a, b, c))

    def interrupt(*_: object, **__: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Kernel, "launch", interrupt)
        found = autotune.search(kernel=module.gemm, params={"BM": [64, 32]}, args=(a, b, c))
    assert [trial.status for trial in found.trials] == ["measured", "skipped"]
    assert found["BM"] == 64
    assert found.interrupted
    assert not found.complete
    assert repr(found).endswith("; 1 measured, 1 skipped; interrupted>")


@pytest.fixture
def interrupt_compilers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Send Ctrl-C when a compiler is about to work on the first request of the search, which is then not yet over."""
    request, sent = Worker.request, list[Request]()

    def interrupt(self: Worker, wanted: Request, seconds: float, deferral: DeferredInterrupts) -> Reply:
        if isinstance(wanted, Compile) and not sent:
            sent.append(wanted)
            send()
        return request(self, wanted, seconds, deferral)

    monkeypatch.setattr(Worker, "request", interrupt)
    with ctrl_c_reaches() as send:
        yield
    assert sent


def test_an_interrupt_before_the_first_trial_gives_the_default(module: ModuleType, interrupt_compilers: None):
    fixed = module.doubled.variant(STEP=256)
    found = autotune.search(kernel=fixed, params={"STEP": [1 << k for k in range(3, 8)]}, args=arrays())
    assert found.interrupted
    assert found.config == {"STEP": 256} == found.default
    assert {trial.status for trial in found.trials} == {"skipped"}
    assert "best STEP=256; 6 skipped; interrupted" in repr(found)


def test_an_interrupt_with_nothing_to_return_goes_on_and_ends_the_workers(
    module: ModuleType, interrupt_compilers: None
):
    x, y = arrays()
    with pytest.raises(KeyboardInterrupt):
        autotune.search(kernel=module.doubled, params={"STEP": [1 << k for k in range(3, 8)]}, args=(x, y))
    module.doubled.variant(STEP=16)(x, y)
    np.testing.assert_array_equal(y, 2 * x)


def test_an_interrupted_call_of_a_tuned_kernel_is_interrupted_and_keeps_its_trials(
    module: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    x, y = arrays()
    launch = Kernel.launch
    launches: list[Kernel] = []

    def interrupt(
        self: Kernel, arguments: tuple[object, ...], keywords: Mapping[str, object] | None = None,
        grid: Grid | None = None, stream: Stream | None = None,
    ) -> None:  # fmt: skip
        launches.append(self)
        if len(launches) == 6:  # in the second configuration
            raise KeyboardInterrupt
        launch(self, arguments, keywords, grid, stream)

    monkeypatch.setattr(Kernel, "launch", interrupt)
    with pytest.raises(KeyboardInterrupt, match=r"tuning of tuned interrupted after 1 of 2 .* goes on from here"):
        module.tuned.run_configured((x, y), {}, None, None)
    monkeypatch.undo()
    assert not y.any()
    (log,) = (tmp_path / "tuning").glob("*.jsonl")
    assert next(event["trial"]["status"] for event in read_log(log) if event["event"] == "trial") == "measured"
    module.tuned(x, y)
    np.testing.assert_array_equal(y, x)


def test_a_search_can_be_followed(module: ModuleType, tmp_path: Path):
    x, y = arrays()
    following = autotune.follow(kernel=module.doubled, params={"STEP": [0, 32, 64]}, args=(x, y))
    steps = iter(following)
    first = next(steps)
    assert (first.config, first.status) == ({"STEP": 0}, "illegal")
    second = next(steps)
    assert (second.status, len(second.seconds)) == ("measured", 3)
    assert second.predicted > 0  # as the first one was not the default, but one of many
    assert following.outcome.config == second.config
    assert not following.outcome.complete
    assert following.log is not None
    events = read_log(following.log)  # as another process would
    assert [event["event"] for event in events] == ["begin", "trial", "trial"]
    assert events[0]["configurations"] == 3
    steps.close()
    assert read_log(following.log)[-1] | {"time": 0} == {
        "event": "end", "format": 3, "time": 0, "best": second.config, "complete": False,
        "interrupted": False,
    }  # fmt: skip
    rest = autotune.search(kernel=module.doubled, params={"STEP": [0, 32, 64]}, args=(x, y))
    assert rest.complete
    assert rest.trials[0] == first
    assert rest.log == str(following.log)


def test_every_trial_is_reported(module: ModuleType):
    x, y = arrays()
    seen: list[Trial] = []
    found = autotune.search(kernel=module.doubled, params={"STEP": [32, 64]}, args=(x, y), on_trial=seen.append)
    assert {trial.config["STEP"] for trial in seen} == {32, 64}
    assert seen[-1] in found.trials
    seen.clear()
    autotune.search(kernel=module.doubled, params={"STEP": [32, 64]}, args=(x, y), on_trial=seen.append)
    assert tuple(seen) == found.trials  # what was recorded is reported too


def test_a_search_that_died_goes_on(module: ModuleType, tmp_path: Path):
    x, y = arrays()
    steps = iter(autotune.follow(kernel=module.doubled, params={"STEP": [32, 64]}, args=(x, y)))
    done = next(steps)
    (log,) = (tmp_path / "tuning").glob("*.jsonl")
    kept = log.read_text()
    steps.close()
    for path in (tmp_path / "tuning").iterdir():
        path.unlink()
    log.write_text(kept)  # as if the process had been killed after the first trial
    with mock.patch.object(autotune.Search, "_tried", autospec=True, side_effect=autotune.Search._tried) as tried:
        found = autotune.search(kernel=module.doubled, params={"STEP": [32, 64]}, args=(x, y))
    assert tried.call_args.args[1] == [{"STEP": 64}]
    assert done.code in {trial.code for trial in found.trials}
    assert found.complete


def test_a_capture_does_not_note_the_launches_of_a_search(module: ModuleType):
    x, y = arrays()
    with pytest.raises(BadCapture, match="a search for a configuration cannot be captured"), graph.capture():
        autotune.search(kernel=module.doubled, params={"STEP": [32, 64]}, args=(x, y))
    with graph.capture() as captured:
        module.tuned(x, y)  # which searches at its first call
    assert captured.kernels == ("tuned",)
    assert not y.any()


def test_without_the_cache_nothing_is_kept(module: ModuleType, tmp_path: Path):
    x, y = arrays()
    with overridden(cache=False):
        found = autotune.search(kernel=module.doubled, params={"STEP": [32]}, args=(x, y))
    assert found.log == ""
    assert not (tmp_path / "tuning").exists()


def test_what_has_no_chance_is_not_run(module: ModuleType, monkeypatch: pytest.MonkeyPatch):
    steps = [16, 32, 64, 128, 256, 512]
    times = {**dict.fromkeys(steps, 1e-6), 256: 1.0, 512: 1.1e-6}

    def guess(work: Work, machine: Machine, lanes: int = 0) -> Prediction:
        return Prediction(times[512 // work.groups], {})

    monkeypatch.setattr(search_space, "predict", guess)
    x, y = arrays(512)
    found = autotune.search(kernel=module.doubled, params={"STEP": steps}, args=(x, y))
    status = {trial.config["STEP"]: trial.status for trial in found.trials}
    assert status == {**dict.fromkeys(steps, "measured"), 256: "pruned"}
    assert re.fullmatch(r"predicted [\d,.]+ us within [\w\d .%]+, the best takes [\d,.]+", found.trials[4].error)
    assert found.complete
    alone = autotune.search(kernel=module.doubled, params={"STEP": [256]}, args=(x, y))
    assert alone.trials[0].status == "measured"  # among these it is the best


def test_schedule_options_of_other_targets_are_left_out(module: ModuleType):
    x, y = arrays()
    found = autotune.search(kernel=module.doubled, params={"STEP": [32, 64], "stages": [2, 3]}, args=(x, y))
    assert [trial.config for trial in found.trials] == [{"STEP": 32}, {"STEP": 64}]


def test_schedule_options_of_the_target(module: ModuleType):
    x = np.random.default_rng(0).standard_normal((256, 64)).astype(np.float32)
    y = np.zeros_like(x)
    found = autotune.search(kernel=module.softmax, params={"rows_per_group": [4, 16, 3]}, args=(x, y))
    by_rows = {trial.config.get("rows_per_group"): trial for trial in found.trials}
    assert list(by_rows) == [None, 4, 16, 3]  # the compiler's own choice first
    assert {by_rows[rows].status for rows in (None, 4, 16)} <= {"measured", "duplicate"}
    assert by_rows[None].status == "measured"
    assert by_rows[3].status == "illegal"
    assert by_rows[3].error.startswith("rows_per_group=3 is not one of")
    module.softmax.variant(**found)(x, y)
    np.testing.assert_allclose(y.sum(1), 1, rtol=1e-5)


def test_the_kernel_suggests_a_space(module: ModuleType):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((96, 96)).astype(np.float32) for _ in range(2))
    seen = autotune.follow(kernel=module.gemm, args=(a, b, np.zeros((96, 96), np.float32)))
    assert seen.plan.default == seen.plan.configs[0] == {"BM": 64, "BN": 64, "BK": 32}
    configs = seen.plan.configs[1:]
    space = {name: {config[name] for config in configs} for name in configs[0]}
    assert space == {
        "BM": {32, 64, 128},
        "BN": {32, 64, 128},
        "BK": {16, 32, 64},
        "rows_per_group": {1, 2, 4, 8, 16, 32},
    }


# -- CUDA ------------------------------------------------------------------------------------------------------------


def fetch(self: Session, key: str, program: Program, target: Target, observe: bool) -> tuple[CacheEntry, str]:
    """Compile in this process and without ptxas: the fake driver runs PTX."""
    with compiling, mock.patch("tessera.lowering.cuda.to_nvvm.find_tool", return_value=None):
        return entry_of(compile_program(program, target, observe=False)), "compiler"


compiling = threading.Lock()


@pytest.mark.parametrize(("on_device", "target"), [(True, "cpu"), (True, "cuda:sm_90a"), (False, "cuda")])
def test_on_cuda(module: ModuleType, monkeypatch: pytest.MonkeyPatch, on_device: bool, target: str):
    """Arrays on a GPU mean that GPU where no target is named ("cpu" is the setting's default)."""
    fake = FakeDriver()
    for place in (driver, cuda):
        monkeypatch.setattr(place, "driver", lambda: fake)
    monkeypatch.setattr(Session, "_fetch", fetch)
    monkeypatch.setattr(machine, "_COPY_BYTES", 1 << 16)
    machine._gpu.cache_clear()
    x, y = arrays(64)
    device = [fake.device_array(array) for array in (x, y)] if on_device else []
    kept = len(fake.memory)
    space = {"threads_per_block": [32, 64, 33], "elements_per_thread": [2]}
    with overridden(target=target):
        found = autotune.search(kernel=module.lanes, params=space, args=device or [x, y])
    machine._gpu.cache_clear()
    assert found.device == "cuda:sm_90a on Fake 0 x1"
    by_lanes = {trial.config.get("threads_per_block"): trial for trial in found.trials}
    assert list(by_lanes) == [None, 32, 64, 33]
    assert [trial.status for trial in found.trials] == ["measured", "measured", "measured", "illegal"]
    assert all(set(trial.seconds) == {0.5} for trial in found.trials[:3])
    assert found.config == {}  # nothing is faster than the default
    assert {32, 64} < {size[1] for size in fake.sizes}
    assert len(fake.memory) == kept
    np.testing.assert_array_equal(device[1].get() if device else y, np.zeros(64))


def test_a_fault_ends_the_search_and_is_remembered(module: ModuleType, monkeypatch: pytest.MonkeyPatch):
    x, y = arrays()
    launch = Kernel.launch

    def fault(
        self: Kernel, arguments: tuple[object, ...], keywords: Mapping[str, object] | None = None,
        grid: Grid | None = None, stream: Stream | None = None,
    ) -> None:  # fmt: skip
        if self.options.constants.get("STEP") == 64:
            raise ContextLost("kernel doubled: an illegal memory access")
        launch(self, arguments, keywords, grid, stream)

    monkeypatch.setattr(Kernel, "launch", fault)
    with pytest.raises(ContextLost):
        autotune.search(kernel=module.doubled, params={"STEP": [32, 64, 128]}, args=(x, y))
    monkeypatch.undo()
    found = autotune.search(kernel=module.doubled, params={"STEP": [32, 64, 128]}, args=(x, y))
    assert [trial.status for trial in found.trials] == ["measured", "illegal", "measured"]
    assert "an illegal memory access" in found.trials[1].error


@pytest.mark.gpu
def test_on_a_gpu(module: ModuleType):
    cp = pytest.importorskip("cupy")
    a, b = (cp.random.standard_normal((1000, 1000), dtype=cp.float32) for _ in range(2))
    c = cp.zeros((1000, 1000), cp.float32)
    found = autotune.search(kernel=module.gemm, params={"BM": [16, 64], "BN": [64, 128], "BK": [32]}, args=(a, b, c))
    assert found.device.startswith("cuda")
    assert not c.any()
    module.gemm.variant(**found)(a, b, c)
    cp.testing.assert_allclose(c, a @ b, rtol=1e-3, atol=1e-2)
    assert found.best.median is not None
    assert found.best.median < 0.1


@pytest.mark.parametrize("moment", ["append", "store"])
def test_a_record_that_cannot_be_written_costs_one_warning(
    moment: str, module: ModuleType, monkeypatch: pytest.MonkeyPatch
):
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(f"tessera.tuning.search.{moment}", full)
    x = np.arange(300, dtype=np.float32)
    with pytest.warns(RuntimeWarning, match="the search is not kept: .*No space left on device") as told:
        tuning = autotune.search(kernel=module.doubled, params={"STEP": [64, 128]}, args=(x, np.zeros_like(x)))
    assert len(told) == 1
    assert tuning.complete
    assert len(tuning.trials) == 2
