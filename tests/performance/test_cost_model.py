"""The cost model: what it says of made-up machines."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera.core.work import Dot, Work
from tessera.performance.cost_model import Calibration, impossible, model_error, predict, resident
from tessera.performance.device_model import Machine

GPU = Machine(
    "G", 1, 100, "SM", bandwidth=1e12, cache_bandwidth=4e12, cache_bytes=1 << 25, rates={"f32": 1e13,
    "dot bf16": 1e15}, source="made up", shared_bytes=200_000, registers=65_536, lanes=2048, launch=0.0, step=0.0,
    on_gpu=True,
)  # fmt: skip


def work(groups: int = 100, **changes: object) -> Work:
    part = np.full(groups, 1e6)
    made = Work(part, 0 * part, 0 * part, {"f32": 1e9}, 1e8, 0.0, 0.0)
    return dataclasses.replace(made, **changes)


def test_the_slowest_of_memory_cache_and_arithmetic():
    assert predict(work(), GPU).parts == {"memory": 1e-4, "cache": 2.5e-5, "compute": 1e-4, "steps": 0, "launch": 0}
    assert predict(work(), GPU).seconds == 1e-4
    fast = predict(work(by_kind={"dot bf16": 1e9}, least_read=1e6), GPU)
    assert (fast.bound, fast.seconds) == ("cache", 2.5e-5)
    assert predict(work(by_kind={"exp": 1e12}), GPU).bound == "compute"  # an unknown kind is as slow as f32


@pytest.mark.parametrize(("groups", "waves"), [(100, 1.0), (101, 200 / 101), (50, 2.0), (1000, 1.0)])
def test_whole_waves(groups: int, waves: float):
    assert predict(work(groups), GPU).parts["compute"] == pytest.approx(1e-4 * waves)


def test_steps_overlap_where_several_groups_fit():
    slow = dataclasses.replace(GPU, step=1e-6, launch=5e-6)
    alone = work(dots=(Dot(256, 256, 64, "bf16"),), steps=900.0)
    beside = work(dots=(Dot(64, 64, 64, "bf16"),), steps=900.0)
    assert resident(alone, slow) == 1
    assert resident(beside, slow) == 6
    assert resident(beside, slow, lanes=1024) == 2
    assert predict(alone, slow).parts["steps"] == pytest.approx(1e-5)
    assert predict(beside, slow).parts["steps"] == pytest.approx(2.5e-6)
    assert predict(alone, slow).seconds == pytest.approx(1e-4 + 1e-5 + 5e-6)


def test_what_no_compiler_can_fit():
    assert impossible(work(dots=(Dot(128, 128, 64, "bf16"),)), GPU) == ""
    assert "262144 bytes of operands" in impossible(work(dots=(Dot(512, 512, 128, "bf16"),)), GPU)
    assert "the sums of 512 x 256 need" in impossible(work(dots=(Dot(512, 256, 16, "bf16"),)), GPU)
    cpu = dataclasses.replace(GPU, on_gpu=False, shared_bytes=0, registers=0)
    assert impossible(work(dots=(Dot(4096, 4096, 4096, "f32"),)), cpu) == ""


def test_predictions_are_corrected_by_what_was_measured():
    known = Calibration((0.5, 0.4, 0.6, 0.5))
    assert known.scale == 0.5
    assert known.corrected(2.0) == 1.0
    assert known.error == pytest.approx(0.25)
    assert known.told == "predictions: corrected by a factor of 0.50 after 4 trials, then within 25% of all of them"
    assert (Calibration().corrected(2.0), Calibration().error, Calibration().told) == (2.0, 0.0, "")
    assert Calibration((2.0,)).told == "predictions: corrected by a factor of 2.00 after 1 trial"


def test_only_what_is_slower_even_if_it_is_underestimated_most_is_hopeless():
    known = Calibration((0.5, 0.4, 0.6, 0.5))
    assert known.hopeless(1e-3, 1e-3 * 0.4 / 2) == ""
    assert known.hopeless(1e-3, 1e-3 * 0.39 / 2) == "predicted 500.0 us within 25%, the best takes 195.0"
    assert Calibration((1.0, 1.0, 3.0)).reach == "within a factor of 3.0"
    assert Calibration((0.5, 0.5, 0.5)).hopeless(1.0, 1e-9) == ""  # too few to tell


@given(st.lists(st.floats(0.1, 10.0), min_size=4, max_size=20), st.floats(1e-6, 1.0), st.floats(1e-6, 1.0))
def test_what_may_be_the_fastest_by_any_error_so_far_is_never_left_out(
    ratios: list[float], predicted: float, best: float
):
    if Calibration(tuple(ratios)).hopeless(predicted, best):
        assert all(predicted * ratio > best for ratio in ratios)


def test_no_groups():
    assert predict(work(0, by_kind={}, least_read=0.0), GPU).seconds == 0.0


def test_predictions_name_their_error():
    cpu, gpu = model_error(on_gpu=False), model_error(on_gpu=True)
    assert "in the median of 10 kernels, 0.48 to 3.6 times" in cpu.told
    for error in (cpu, gpu):
        assert error.least < error.median < error.most
