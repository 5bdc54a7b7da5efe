"""Advice as data, and its trials: compiled, compared and measured, on copies."""

import statistics
from pathlib import Path

import numpy as np
import pytest

import tessera
from tessera.core.program.program import Attribute
from tessera.core.settings import overridden
from tessera.profiling.advice.model import Advice, Evidence, TrialResult
from tessera.profiling.comparison import Agreement, Comparison
from tessera.profiling.origin import Origin


def test_evidence_is_a_number_with_its_unit():
    assert str(Evidence("idle", 0.254, "%")) == "idle 25%"
    assert str(Evidence("groups", 16384, "")) == "groups 16,384"
    assert str(Evidence("time", 59.26, "ns")) == "time 59.26 ns"


def test_a_change_of_the_text_cannot_be_tried():
    advice = Advice("memory-bound", "narrower types", (Evidence("share", 0.9, "%"),), 0.1)
    with pytest.raises(ValueError, match="no option to try"):
        advice.try_()


SOURCE = """
STEP = 16
FACTOR = 2.0

@kernel
def scaled(x: f32[n], y: mut f32[n]):
    for t in tile.range(n, step=STEP):
        y[t:t+STEP] = y[t:t+STEP] + x[t:t+STEP] * FACTOR
"""


def advice(origin: Origin, options: dict[str, Attribute]) -> Advice:
    return Advice("kind", "text", (), options=(options,), origin=origin)


@pytest.fixture
def call(tmp_path: Path):
    with overridden(cache_dir=tmp_path):
        x, y = np.ones(4096, np.float32), np.zeros(4096, np.float32)
        origin = tessera.profile(tessera.compile_source(SOURCE).scaled)(x, y).origin
        assert origin is not None
        yield origin, x, y


def test_a_variant_is_measured_beside_the_original_and_nothing_is_written(call: tuple[Origin, object, np.ndarray]):
    origin, _, y = call
    before = y.copy()
    steps: list[str] = []
    found = advice(origin, {"STEP": 64}).trial(told=steps.append)
    assert found.agrees
    assert found.comparison.same
    original, variant = (statistics.median(times) for times in (found.comparison.original, found.comparison.other))
    assert found.ratio == pytest.approx(variant / original)
    assert steps[:2] == ["compiling", "comparing results"]
    assert steps[2:] == [f"measuring, {n + 1} of at most 15 rounds" for n in range(len(found.comparison.other))]
    np.testing.assert_array_equal(y, before)


def test_other_results_are_told(call: tuple[Origin, object, object]):
    (found,) = advice(call[0], {"FACTOR": 3.0}).try_()
    assert not found.agrees
    assert found.comparison.difference == pytest.approx(1 / 4, abs=0.1)
    assert "OTHER RESULTS" in str(found)


def test_arguments_that_are_gone_are_asked_for(tmp_path: Path):
    with overridden(cache_dir=tmp_path):
        kernel = tessera.compile_source(SOURCE).scaled
        origin = tessera.profile(kernel)(np.ones(64, np.float32), np.zeros(64, np.float32)).origin
        assert origin is not None
        with pytest.raises(ValueError, match="are gone"):
            advice(origin, {"STEP": 32}).trial()
        assert advice(origin, {"STEP": 32}).trial(0, (np.ones(64, np.float32), np.zeros(64, np.float32))).agrees


def test_in_words():
    same = Agreement("y", 4, 4, 0.0, 0.0, ())
    result = TrialResult({"STEP": 64}, Comparison((same,), (2e-4,) * 9, (1e-4,) * 9))
    assert str(result) == "STEP=64: 2.00 times as fast (200.0 µs to 100.0 µs, 9 launches each), same results"
    other = TrialResult({"STEP": 64}, Comparison((Agreement("y", 4, 3, 1.0, 0.5, (0,)),), (1e-4, 2e-4), (2e-4, 1e-4)))
    assert str(other).endswith("2 launches each, within the launches' noise), OTHER RESULTS (differ by 0.5)")
