"""Durations in words."""

import pytest

from tessera.core.base.durations import duration_text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0 ns"), (1.25e-8, "12.5 ns"), (3.66e-4, "366 µs"), (2.0189e-3, "2.02 ms"), (1.0, "1 s"), (90.0, "90 s")],
)
def test_three_digits_and_the_unit_that_suits(seconds: float, text: str):
    assert duration_text(seconds) == text
