"""The cost model: what it says of made-up machines."""

import dataclasses

import numpy as np
import pytest

from tessera.core.work import Dot, Work
from tessera.cost_model import FACTOR, hopeless, impossible, predict, resident
from tessera.machine import Machine

GPU = Machine(
    "cuda", "G", 1, 100, "SM", bandwidth=1e12, cache_bandwidth=4e12, cache_bytes=1 << 25, rates={"f32": 1e13,
    "dot bf16": 1e15}, source="made up", shared_bytes=200_000, registers=65_536, lanes=2048, launch=0.0, step=0.0,
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
    cpu = dataclasses.replace(GPU, kind="cpu", shared_bytes=0, registers=0)
    assert impossible(work(dots=(Dot(4096, 4096, 4096, "f32"),)), cpu) == ""


def test_nothing_within_the_factor_is_left_out():
    predictions = [1e-3, FACTOR * 1e-3, 3.1e-3]
    assert [bool(hopeless(p, predictions)) for p in predictions] == [False, False, True]
    assert hopeless(3.1e-3, predictions) == "predicted 3,100.0 us, 3.1 times the best prediction"
    assert hopeless(1.0, []) == ""


def test_no_groups():
    assert predict(work(0, by_kind={}, least_read=0.0), GPU).seconds == 0.0
