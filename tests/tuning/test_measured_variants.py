"""What a search on disk measured for a profile, and advice that it does not contradict."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import tessera
from tessera import autotune
from tessera.core.settings import overridden
from tessera.kernels.kernel import Kernel
from tessera.profiling.advice.explanation import explanation
from tessera.profiling.results import Profile
from tessera.tuning.measured_variants import measured_variants
from tessera.tuning.results import Tuning, config_key

TEXT = """
B = 64
BM = 16
BN = 16

@kernel
def scaled(x: f32[n], y: mut f32[n]):
    for t in tile.range(n, step=B):
        y[t : t + B] = 2.0 * x[t : t + B]

@kernel
def row_sums(x: f32[m, n], y: mut f32[m]):
    for i in tile.range(m, step=BM):
        y[i : i + BM] = tile.sum(x[i : i + BM, :], axis=1)

@kernel
def gemm(A: f32[m, k], B: f32[k, n], C: mut f32[m, n]):
    for i, j, l in tile.mma(A, B, C, BM=BM, BN=BN, BK=16):
        tile.mma_sync(i, j, l)
"""
SPACES: Mapping[str, Mapping[str, list[int]]] = {
    "scaled": {"B": [16, 64, 256, 4096]},
    "row_sums": {"BM": [4, 16, 64]},
    "gemm": {"BM": [16, 64], "BN": [16, 64]},
}


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path):
    with overridden(cache_dir=tmp_path):
        yield


def arguments(name: str) -> list[np.ndarray]:
    rng = np.random.default_rng(1)

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    if name == "scaled":
        return [normal(1 << 16), np.zeros(1 << 16, np.float32)]
    if name == "row_sums":
        return [normal(256, 256), np.zeros(256, np.float32)]
    return [normal(128, 128), normal(128, 128), np.zeros((128, 128), np.float32)]


def searched(name: str) -> tuple[Kernel, list[np.ndarray], Tuning]:
    kernel: Kernel = getattr(tessera.compile_source(TEXT), name)
    values = arguments(name)
    return kernel, values, autotune.search(kernel=kernel, params=SPACES[name], args=values, progress=False)


def profiled(kernel: Kernel, values: list[np.ndarray]) -> Profile:
    return tessera.profile(kernel)(*values)


@pytest.mark.parametrize("name", SPACES)
def test_advice_never_contradicts_the_log_of_trials(name: str):
    kernel, values, tuning = searched(name)
    names = {config_key(trial.config) for trial in tuning.trials}
    for config in [tuning.default, *(trial.config for trial in tuning.trials)]:
        profile = profiled(kernel.variant(**dict(config or {})), values)
        measured = measured_variants(profile.origin)
        assert measured is not None
        assert {config_key(trial.config) for trial in measured.tuning.trials} == names
        told = explanation(profile, measured_variants)
        own = measured.tuning.find(measured.own)
        assert own is not None
        assert own.median is not None
        for options in (options for advice in told.advice for options in advice.options):
            trial = measured.tuning.find({**measured.own, **options})
            assert trial is None or trial.median is None or trial.median < own.median, "no advice to be slower"
        best = measured.tuning.best
        if (best.median or 0.0) < 0.9 * own.median:
            (other,) = (advice for advice in told.advice if advice.kind == "other values")
            assert {**measured.own, **other.options[0]} == best.config
            assert other.origin is profile.origin


def test_only_a_search_of_such_arguments_counts():
    kernel, values, _ = searched("scaled")
    profile = profiled(kernel, values)
    assert measured_variants(profile.origin) is not None
    with overridden(cache=False):
        assert measured_variants(profile.origin) is None
    other = tessera.compile_source(TEXT.replace("2.0", "3.0")).scaled
    assert measured_variants(profiled(other, values).origin) is None, "another kernel of the same name"
    wide = [np.zeros(1 << 20, np.float32), np.zeros(1 << 20, np.float32)]
    assert measured_variants(profiled(kernel, wide).origin) is None, "another class of shapes"
    assert measured_variants(None) is None
