"""The search: real launches of real configurations, and its record."""

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import tessera
from tessera import autotune
from tessera.core.mistakes import BadKernelOption, TuningFailed
from tessera.core.settings import overridden
from tessera.kernel_class import Kernel
from tessera.session import session

SOURCE = """
@kernel
def gemm(A: f32[m, k], B: f32[k, n], C: mut f32[m, n]):
    for i, j, l in tile.mma(A, B, C, BM=64, BN=64, BK=32):
        tile.mma_sync(i, j, l)

@kernel
def doubled(x: f32[n], y: mut f32[n]):
    for t in tile.range(n, step=STEP):
        y[t:t+STEP] = 2.0 * x[t:t+STEP]

@kernel.autotune(space=dict(STEP=[32, 64], unused=[1, 2]))
def tuned(x: f32[n], y: mut f32[n]):
    for t in tile.range(n, step=STEP):
        y[t:t+STEP] = y[t:t+STEP] + x[t:t+STEP]
"""


@pytest.fixture
def module(tmp_path: Path) -> Iterator[object]:
    with overridden(cache_dir=tmp_path):
        yield tessera.compile_source(SOURCE)


def arrays(n: int = 500) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(n, dtype=np.float32), np.zeros(n, np.float32)


def records(tmp_path: Path) -> list[str]:
    return [path.name.split("-")[0] for path in (tmp_path / "tuning").glob("*.json")]


def test_search_on_the_last_call(module, tmp_path: Path):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((70, 70)).astype(np.float32) for _ in range(2))
    c = np.zeros((70, 70), np.float32)
    module.gemm(a, b, c)
    result = c.copy()
    found = autotune.search(kernel=module.gemm, params={"BM": [16, 32], "BN": [32]}, objective="runtime")
    assert found.complete
    assert [trial.config for trial in found.trials] == [{"BM": 16, "BN": 32}, {"BM": 32, "BN": 32}]
    assert {trial.status for trial in found.trials} == {"measured"}
    assert all(len(trial.seconds) in (3, 9) and min(trial.seconds) > 0 for trial in found.trials)
    assert found.config in ({"BM": 16, "BN": 32}, {"BM": 32, "BN": 32})
    assert found["BN"] == 32
    np.testing.assert_array_equal(c, result)
    assert records(tmp_path) == ["gemm"]


def test_outputs_given_are_not_written(module):
    x, y = arrays()
    autotune.search(kernel=module.doubled, params={"STEP": [32, 64]}, args=(x, y))
    assert not y.any()


def test_duplicates_and_illegal_configurations_are_reported(module):
    x, y = arrays()
    space = {"STEP": [64, 0], "unused": [1, 2]}
    found = autotune.search(kernel=module.doubled, params=space, args=(x, y))
    by_config = {(t.config["STEP"], t.config["unused"]): t for t in found.trials}
    assert by_config[64, 1].status == "measured"
    assert by_config[64, 2].status == "duplicate"
    assert by_config[64, 2].same_as == {"STEP": 64, "unused": 1}
    assert by_config[0, 1].status == by_config[0, 2].status == "illegal"
    assert by_config[0, 1].error.startswith("TSR-E")
    assert found.config == {"STEP": 64, "unused": 1}


def test_the_record_is_used_again(module):
    x, y = arrays()
    first = autotune.search(kernel=module.doubled, params={"STEP": [32, 64]}, args=(x, y))
    again = autotune.search(kernel=module.doubled, params={"STEP": [32, 64]}, args=(x, y))
    assert again.trials == first.trials
    more = autotune.search(kernel=module.doubled, params={"STEP": [32, 64, 128]}, args=(x, y))
    assert more.trials[:2] == first.trials
    assert more.trials[2].status == "measured"
    near = autotune.search(kernel=module.doubled, params={"STEP": [32]}, args=arrays(480))
    assert near.trials == first.trials[:1]  # 480 and 500 are of one class
    far = autotune.search(kernel=module.doubled, params={"STEP": [32]}, args=arrays(1000))
    assert far.trials != first.trials[:1]
    fresh = autotune.search(kernel=module.doubled, params={"STEP": [32]}, args=(x, y), again=True)
    assert fresh.trials != first.trials[:1]


def test_a_tuned_kernel_searches_at_its_first_call(module, tmp_path: Path):
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


def test_another_class_of_shapes_is_tuned_anew(module, tmp_path: Path):
    module.tuned(*arrays(100))
    module.tuned(*arrays(120))
    assert len(records(tmp_path)) == 1
    module.tuned(*arrays(300))
    assert len(records(tmp_path)) == 2


def test_autotune_of_an_existing_kernel(module):
    x, y = arrays()
    kernel = module.doubled.autotune(space={"STEP": [32, 64]})
    kernel(x, y)
    np.testing.assert_array_equal(y, 2 * x)
    assert kernel.options.space == {"STEP": (32, 64)}


def test_interpreted_kernels_are_timed_too(module):
    x, y = arrays(50)
    with overridden(target="interpret"):
        found = autotune.search(kernel=module.doubled, params={"STEP": [32, 64]}, args=(x, y))
    assert [trial.status for trial in found.trials] == ["measured", "measured"]
    assert found.device == "interpret"


def test_nothing_runs(module):
    x, y = arrays()
    with pytest.raises(TuningFailed, match="none of the 1 configurations of doubled runs: STEP=0: TSR-E"):
        autotune.search(kernel=module.doubled, params={"STEP": [0]}, args=(x, y))


def test_never_called(module):
    with pytest.raises(TuningFailed, match="doubled was not called yet") as caught:
        autotune.search(kernel=module.doubled, params={"STEP": [32]})
    assert "args=(...)" in caught.value.hint


def test_objectives(module):
    with pytest.raises(BadKernelOption, match="there is no objective 'energy'"):
        autotune.search(kernel=module.doubled, params={"STEP": [32]}, objective="energy")
    with pytest.raises(BadKernelOption, match="needs a space"):
        autotune.search(kernel=module.doubled, params={}, args=arrays())


def test_a_budget_skips_what_is_left(module):
    x, y = arrays()
    found = autotune.search(kernel=module.doubled, params={"STEP": [32, 64, 128]}, args=(x, y), budget=0.0)
    assert not found.complete
    assert [trial.status for trial in found.trials] == ["measured", "skipped", "skipped"]
    rest = autotune.search(kernel=module.doubled, params={"STEP": [32, 64, 128]}, args=(x, y))
    assert rest.complete
    assert rest.trials[0] == found.trials[0]


def test_an_interrupt_while_measuring_keeps_what_was_found(module):
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


def test_an_interrupt_while_compiling_ends_the_workers(module):
    x, y = arrays()
    wanted = {"STEP": [1 << k for k in range(3, 11)]}

    def interrupt() -> None:
        while not session().service.busy:
            pass
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        autotune.search(kernel=module.doubled, params=wanted, args=(x, y))
    thread.join()
    module.doubled.variant(STEP=16)(x, y)
    np.testing.assert_array_equal(y, 2 * x)
