"""The table of a search."""

from tessera.tuning import DUPLICATE, ILLEGAL, MEASURED, PRUNED, SKIPPED, Trial, Tuning
from tessera.viz.tuning_view import ROWS, tuning_html, tuning_text, tuning_view

TUNING = Tuning(
    "gemm",
    "cpu",
    (
        Trial({"BM": 64}, MEASURED, (3e-3, 2e-3, 9e-3), "a"),
        Trial({"BM": 128}, MEASURED, (2e-3,), "b", predicted=1e-3),
        Trial({"BM": 129}, DUPLICATE, (), "b", same_as={"BM": 128}),
        Trial({"BM": 0}, ILLEGAL, error="TSR-E205 <bad>"),
        Trial({"BM": 7}, SKIPPED),
        Trial({"BM": 1}, PRUNED, error="predicted 9,000.0 us, 9.0 times the best prediction", predicted=9e-3),
    ),
    complete=False,
)


def test_rows_are_fastest_first_and_told_against_the_best() -> None:
    rows = tuning_view(TUNING).rows
    assert [row.config for row in rows] == ["BM=128", "BM=64", "BM=129", "BM=0", "BM=7", "BM=1"]
    assert [row.ratio for row in rows] == [1.0, 1.5, 0.0, 0.0, 0.0, 0.0]
    assert rows[1].remark == "3,000.0 µs, 1.50 times the best (median of 3 runs)"
    assert rows[0].remark.endswith("(median of 1 runs, predicted 1,000.0 µs)")
    assert [row.remark for row in rows[2:]] == [
        "same code as BM=128",
        "illegal TSR-E205 <bad>",
        "skipped",
        "pruned predicted 9,000.0 us, 9.0 times the best prediction",
    ]


def test_the_text_has_no_times() -> None:
    assert tuning_text(TUNING) == "tuning of gemm: 6 configurations, not all tried"


def test_the_table_has_bars_and_is_escaped() -> None:
    html = tuning_html(TUNING)
    assert html.count("height:10px") == 2
    assert "&lt;bad&gt;" in html


def test_long_searches_are_cut() -> None:
    many = Tuning("k", "cpu", tuple(Trial({"B": i}, MEASURED, (1e-3,)) for i in range(ROWS + 2)), complete=True)
    assert tuning_view(many).left == 2
    assert "and 2 more" in tuning_html(many)
