"""Trials, and which of them is taken."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera.core.errors.catalog import TuningFailed
from tessera.tuning.results import (
    DUPLICATE,
    ILLEGAL,
    MEASURED,
    PRUNED,
    SKIPPED,
    Trial,
    Tuning,
    beats,
    choose,
    config_key,
)

FAST = Trial({"BM": 64, "fast": True}, MEASURED, (3e-6, 1e-6, 2e-6), "a")
SLOW = Trial({"BM": 128, "fast": True}, MEASURED, (9e-6,), "b")
SAME = Trial({"BM": 64, "fast": False}, DUPLICATE, code="a", same_as=FAST.config)
BAD = Trial({"BM": 0, "fast": True}, ILLEGAL, error="TSR-E303 bad step: 0")
LATE = Trial({"BM": 256, "fast": True}, SKIPPED)


def test_a_tuning_is_its_best_configuration():
    tuning = Tuning("k", "cpu", (SLOW, FAST, SAME, BAD, LATE), complete=False)
    assert tuning.best is FAST
    assert tuning["BM"] == 64
    assert dict(tuning) == tuning.config == {"BM": 64, "fast": True}
    assert len(tuning) == 2
    assert repr(tuning) == ("<tuning of k on cpu: best BM=64 fast=True; 2 measured, 1 duplicate, 1 illegal, 1 skipped>")
    assert tuning.table().splitlines() == [
        " BM   fast",
        " 64   True  2.0 us",
        "128   True  9.0 us",
        " 64  False  same code as BM=64 fast=True",
        "  0   True  illegal TSR-E303 bad step: 0",
        "256   True  skipped",
    ]


def test_median():
    assert FAST.median == 2e-6
    assert BAD.median is None


def test_predictions_show():
    found = Tuning("k", "cpu", (Trial({"B": 1}, MEASURED, (2e-6,), "a", predicted=1e-6), HOPELESS), complete=True)
    assert repr(found) == "<tuning of k on cpu: best B=1; 1 measured, 1 pruned>"
    assert found.table().splitlines() == [
        "B", "1  2.0 us, predicted 2.0 us (+0%)", "2  pruned predicted 9.0 us",
        "predictions: corrected by a factor of 2.00 after 1 trial",
    ]  # fmt: skip
    document = json.loads(json.dumps(found.to_dict()))
    assert document["best"] == {"B": 1}
    assert document["trials"][0]["median"] == 2e-6


HOPELESS = Trial({"B": 2}, PRUNED, error="predicted 9.0 us", predicted=9e-6)


def test_keys():
    assert config_key({"a": 1, "b": 2}) == config_key({"b": 2, "a": 1})
    assert config_key({"a": 1}) != config_key({"a": 2})


def compared(name: int, *seconds: float) -> Trial:
    return Trial({"B": name}, MEASURED, (9.0,), str(name), compared=seconds)


def test_the_default_is_taken_where_nothing_is_faster():
    default = compared(1, *[1.0] * 10)
    assert choose([default, compared(2, *[0.9] * 10)], {"B": 1}).config == {"B": 2}
    assert choose([default, compared(2, *[0.995] * 10)], {"B": 1}) is default  # a tie
    assert choose([default, compared(2, *[1.1] * 10)], {"B": 1}) is default
    lucky = compared(2, *[0.5] * 6, *[1.1] * 4)  # faster in its median, and in no more rounds than chance gives
    assert choose([default, lucky], {"B": 1}) is default
    assert choose([default, lucky], None) is lucky


def test_only_what_was_compared_counts_where_some_was():
    stale = Trial({"B": 3}, MEASURED, (0.1,), "3")  # from another moment, when the machine was faster
    assert choose([compared(1, *[1.0] * 10), compared(2, *[0.8] * 10), stale], {"B": 1}).config == {"B": 2}
    assert choose([Trial({"B": 1}, MEASURED, (1.0,)), stale], {"B": 1}) is stale
    assert choose([Trial({"B": 1}, SKIPPED)], {"B": 1}) is None


def test_a_default_that_is_another_ones_code():
    default = Trial({}, DUPLICATE, code="2", same_as={"B": 2})
    trials = [default, compared(2, *[1.0] * 10), compared(3, *[0.999] * 10)]
    assert choose(trials, {}).config == {"B": 2}


@given(st.lists(st.floats(1e-6, 1e-3), min_size=5, max_size=30))
def test_nothing_beats_itself_and_not_both_beat_each_other(times: list[float]):
    assert not beats(times, times)
    assert not (beats(times, times[::-1]) and beats(times[::-1], times))


def test_rates_are_of_the_least_work():
    padded = Trial({"B": 2}, MEASURED, (1e-3,), "b", flops=3e9, traffic=2e6)
    gemm = Tuning("k", "cpu", (Trial({"B": 1}, MEASURED, (2e-3,), "a", flops=2e9, traffic=1e6), padded), complete=True)
    assert [gemm.rate(trial) for trial in gemm.trials] == ["1,000.0 GFLOP/s", "2,000.0 GFLOP/s"]
    copy = Tuning("k", "cpu", (Trial({}, MEASURED, (1e-3,), "a", flops=1e6, traffic=1e6),), complete=True)
    assert copy.rate(copy.trials[0]) == "1.0 GB/s"
    assert Tuning("k", "cpu", (FAST,), complete=True).rate(FAST) == ""


def test_nothing_measured():
    tuning = Tuning("k", "cpu", (LATE,), complete=False, default=LATE.config, interrupted=True)
    assert tuning.best is LATE
    assert tuning.speedup is None
    with pytest.raises(TuningFailed, match="nothing was measured of k"):
        Tuning("k", "cpu", (LATE,), complete=False).best  # noqa: B018
