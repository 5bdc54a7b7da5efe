"""The plotly figure."""

from typing import Any, cast

import pytest

pytest.importorskip("plotly", reason="plotly is not installed")

from tessera.tuning.results import MEASURED, SKIPPED, Trial, Tuning
from tessera.viz.tuning.figure import parallel_coordinates
from tessera.viz.tuning.model import model_of


def test_an_axis_for_each_parameter_and_one_for_the_time():
    trials = (
        Trial({"BM": 64}, MEASURED, (3e-6,)), Trial({"BM": 32, "swizzle": "128B"}, MEASURED, (1e-6,)), Trial({"BM": 16}, SKIPPED),
    )  # fmt: skip
    made = parallel_coordinates(model_of(Tuning("gemm", "cpu", trials, complete=False)))
    figure = cast("Any", made.to_dict())  # pyright: ignore[reportUnknownMemberType]
    (drawn,) = figure["data"]
    assert drawn["type"] == "parcoords"
    assert [(each["label"], list(each["values"])) for each in drawn["dimensions"]] == [
        ("BM", [2, 1]), ("swizzle", [-1, 0]), ("time [µs]", [pytest.approx(3.0), pytest.approx(1.0)]),
    ]  # fmt: skip
    assert list(drawn["dimensions"][0]["ticktext"]) == ["16", "32", "64"]
    assert figure["layout"]["title"]["text"] == "tuning of gemm on cpu"
