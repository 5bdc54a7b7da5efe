"""Columns of a search: order, sorting, brushing, best so far."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera.tuning.results import DUPLICATE, ILLEGAL, MEASURED, SKIPPED, STATUSES, Trial, Tuning, config_key
from tessera.viz.tuning.model import model_of, parameters_of, time_left

TUNING = Tuning(
    "gemm",
    "cpu",
    (
        Trial({"BM": 64}, MEASURED, (3e-3, 3e-3, 9e-3), "a", predicted=1e-3, at=10.0),
        Trial({"BM": 128, "stages": 2}, MEASURED, (2e-3,), "b", predicted=1e-3, flops=4e6, traffic=1e5, at=12.0),
        Trial({"BM": 9, "stages": 2}, DUPLICATE, (), "b", same_as={"BM": 128, "stages": 2}, at=14.0),
        Trial({"BM": 0, "stages": 2}, ILLEGAL, error="bad", at=11.0),
        Trial({"BM": 7, "stages": True}, SKIPPED),
    ),
    complete=False,
    default={"BM": 64},
)

SECONDS = st.one_of(st.none(), st.sampled_from([1e-6, 2e-6, 3e-6]), st.floats(1e-9, 10.0))
SEARCHES = st.lists(
    st.tuples(st.integers(0, 4), st.booleans(), SECONDS, st.integers(1, 30)),
    min_size=1,
    max_size=30,
    unique_by=lambda t: t[:2],
)


def search(rows: list[tuple[int, bool, float | None, int]]) -> Tuning:
    return Tuning("k", "cpu", tuple(
        Trial({"A": a, **({"B": a % 2} if b else {})}, SKIPPED if s is None else MEASURED, () if s is None else (s,), str(i), at=at if s else 0)
        for i, (a, b, s, at) in enumerate(rows)
    ), complete=True)  # fmt: skip


def test_columns():
    model = model_of(TUNING)
    bm, stages = model.parameters
    assert bm.values == ("0", "7", "9", "64", "128")
    assert bm.codes.tolist() == [3, 4, 2, 0, 1]
    assert stages.values == ("True", "2")
    assert stages.codes.tolist() == [-1, 1, 1, 1, 0]
    assert [STATUSES[code] for code in model.status] == [trial.status for trial in TUNING.trials]
    assert model.seconds[:2].tolist() == [3e-3, 2e-3]
    assert np.isnan(model.seconds[2:]).all()
    assert model.rank.tolist() == [0, 2, 3, 1, -1]
    assert model.at[:4].tolist() == [0.0, 2.0, 4.0, 1.0]
    assert model.messages == ("bad",)
    assert model.message.tolist() == [-1, -1, -1, 0, -1]
    assert model.same_as.tolist() == [-1, -1, 1, -1, -1]
    assert model.launches.tolist() == [3, 1, 0, 0, 0]
    assert (model.best, model.default, model.settled, len(model)) == (1, 0, 4, 5)
    assert (model.flops, model.traffic, model.scale) == (4e6, 1e5, 2.5)


def test_configurations_come_back_from_their_codes():
    model = model_of(TUNING)
    assert [model.config(row) for row in range(5)] == [dict(trial.config) for trial in TUNING.trials]


def test_values_of_all_kinds_are_axes():
    configs = [{"a": (1, 2)}, {"a": None}, {"a": "x"}, {"a": 1.5}, {"a": 1}, {"a": True}]
    (axis,) = parameters_of(configs)
    assert axis.values == ("1", "True", "1.5", "(1, 2)", "None", "x") or axis.values[2:] == (
        "1.5",
        "(1, 2)",
        "None",
        "x",
    )
    assert [json.loads(axis.keys[code]) for code in axis.codes] == [[1, 2], None, "x", 1.5, 1, True]
    assert config_key({"a": (1, 2)}) == f'{{"a": {axis.keys[axis.codes[0]]}}}'


@given(SEARCHES, st.sampled_from(["A", "B", "time", "predicted", "trial"]), st.booleans())
def test_sorting_is_stable_and_puts_gaps_last(
    rows: list[tuple[int, bool, float | None, int]], name: str, descending: bool
):
    try:
        model = model_of(search(rows))
        values = model.column(name)
    except KeyError:
        return
    order = model.sorted_by(name, descending=descending)
    assert sorted(order.tolist()) == list(range(len(model)))
    keys = [
        (
            bool(np.isnan(values[row])),
            0.0 if np.isnan(values[row]) else (-values[row] if descending else values[row]),
            row,
        )
        for row in order
    ]
    assert keys == sorted(keys)


@given(SEARCHES, st.floats(0, 5), st.floats(0, 5), st.floats(1e-9, 10.0))
def test_brushing_keeps_what_lies_in_every_range(
    rows: list[tuple[int, bool, float | None, int]], low: float, high: float, slowest: float
):
    model = model_of(search(rows))
    kept = set(model.brushed({"A": (low, high), "time": (0.0, slowest)}).tolist())
    codes = model.parameters[0].codes
    assert kept == {
        row for row in range(len(model))
        if low <= codes[row] <= high and not np.isnan(model.seconds[row]) and model.seconds[row] <= slowest
    }  # fmt: skip
    assert model.brushed({}).tolist() == list(range(len(model)))


@given(SEARCHES)
def test_the_best_so_far_falls_to_the_fastest(rows: list[tuple[int, bool, float | None, int]]):
    model = model_of(search(rows))
    ranks, seconds = model.best_so_far()
    assert (np.diff(ranks) > 0).all()
    assert (np.diff(seconds) < 0).all()
    if len(seconds):
        assert seconds[-1] == np.nanmin(model.seconds)
        assert ranks[0] == min(model.rank[~np.isnan(model.seconds)])


def test_an_unknown_column_is_refused():
    with pytest.raises(KeyError, match="nothing"):
        model_of(TUNING).column("nothing")


@pytest.mark.parametrize(
    ("settled", "total", "seconds", "budget", "left"),
    [
        (0, 10, 1.0, 60.0, None),
        (5, 10, 10.0, 60.0, 10.0),
        (1, 100, 2.0, 60.0, 58.0),
        (10, 10, 3.0, 60.0, 0.0),
        (5, 10, 70.0, 60.0, 0.0),
    ],
)
def test_the_time_left(settled: int, total: int, seconds: float, budget: float, left: float | None):
    assert time_left(settled, total, seconds, budget) == left


def test_finalists_are_rows_of_the_columns():
    trials = (
        Trial({"BM": 16}, MEASURED, (0.5e-3,), "a"),  # faster at another moment
        Trial({"BM": 32}, MEASURED, (2e-3,), "b", compared=(1.1e-3, 2.2e-3)),
        Trial({"BM": 64}, MEASURED, (2e-3,), "c", compared=(1e-3, 2e-3)),
    )
    tuning = Tuning("k", "cpu", trials, complete=True)
    model = model_of(tuning)
    assert model.best == 2
    assert [(each.row, each.rounds) for each in model.finalists] == [(2, 2), (1, 2)]
    assert [trial.config["BM"] for trial in tuning.sorted_trials()] == [64, 32, 16]
