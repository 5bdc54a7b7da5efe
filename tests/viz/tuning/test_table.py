"""The table of a search."""

from tessera.tuning.results import DUPLICATE, ILLEGAL, MEASURED, PRUNED, SKIPPED, Trial, Tuning
from tessera.viz.tuning.table import ROWS, tuning_html, tuning_table, tuning_text

TUNING = Tuning(
    "gemm",
    "cpu",
    (
        Trial({"BM": 64}, MEASURED, (3e-3, 3e-3, 9e-3), "a", predicted=1e-3),
        Trial({"BM": 128, "stages": 2}, MEASURED, (2e-3,), "b", predicted=1e-3, flops=4e6, traffic=1e5),
        Trial({"BM": 129, "stages": 2}, DUPLICATE, (), "b", same_as={"BM": 128, "stages": 2}),
        Trial({"BM": 0, "stages": 2}, ILLEGAL, error="TSR-E205 <bad>"),
        Trial({"BM": 7, "stages": 2}, SKIPPED),
        Trial({"BM": 1, "stages": 2}, PRUNED, error="predicted 9,000.0 us", predicted=9e-3),
    ),
    complete=False,
    default={"BM": 64},
    notes=("threads_per_block has no effect",),
)


def test_rows_are_fastest_first_with_a_column_for_each_parameter() -> None:
    view = tuning_table(TUNING)
    assert view.parameters == ("BM", "stages")
    values = [("128", "2"), ("64", ""), ("129", "2"), ("0", "2"), ("7", "2"), ("1", "2")]
    assert [row.values for row in view.rows] == values
    assert [row.ratio for row in view.rows] == [1.0, 1.5, 0.0, 0.0, 0.0, 0.0]


def test_a_row_tells_time_rate_prediction_and_what_remains() -> None:
    first, second, *rest = tuning_table(TUNING).rows
    assert (first.time, first.rate, first.predicted) == ("2,000.0 µs", "2.0 GFLOP/s", "2,500.0 µs (+25%)")
    assert first.remark == "the best"
    assert (second.time, second.rate, second.predicted) == ("3,000.0 µs", "1.3 GFLOP/s", "2,500.0 µs (-17%)")
    assert second.remark == "default, 1.50 times the best"
    assert [row.remark for row in rest] == [
        "same code as BM=128 stages=2", "illegal TSR-E205 <bad>", "skipped", "pruned predicted 9,000.0 us",
    ]  # fmt: skip


def test_the_error_of_predictions_and_the_notes_stand_below() -> None:
    assert tuning_table(TUNING).notes == (
        "predictions: corrected by a factor of 2.50 after 2 trials, then within 25% of all of them", "threads_per_block has no effect",
    )  # fmt: skip
    assert "<div>threads_per_block has no effect</div>" in tuning_html(TUNING)


def test_the_text_has_no_times() -> None:
    assert tuning_text(TUNING) == "tuning of gemm: 6 configurations, not all tried"


def test_the_table_has_bars_and_is_escaped() -> None:
    html = tuning_html(TUNING)
    assert html.count("height:10px") == 2
    assert "&lt;bad&gt;" in html


def test_long_searches_are_cut() -> None:
    many = Tuning("k", "cpu", tuple(Trial({"B": i}, MEASURED, (1e-3,)) for i in range(ROWS + 2)), complete=True)
    assert tuning_table(many).left == 2
    assert "and 2 more" in tuning_html(many)
    assert len(tuning_table(many, 8).rows) == 8


def test_what_was_timed_at_another_moment_says_so():
    trials = (
        Trial({"BM": 16}, MEASURED, (0.5e-3,), "a"),
        Trial({"BM": 32}, MEASURED, (2e-3,), "b", compared=(2e-3, 2e-3)),
        Trial({"BM": 64}, MEASURED, (2e-3,), "c", compared=(1e-3, 1e-3)),
    )
    rows = tuning_table(Tuning("k", "cpu", trials, complete=True)).rows
    assert [row.remark for row in rows] == [
        "the best",
        "2.00 times the best",
        "0.50 times the best, timed at another moment",
    ]
