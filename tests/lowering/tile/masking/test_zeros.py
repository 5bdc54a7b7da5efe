"""Operations that make 0 of 0, and those that do not: sums of the former need no mask."""

import pytest

from lowering.tile.test_mask_absent import LOOP, count, masked


def selects(expression: str) -> int:
    return count(masked(LOOP + f"out[0] = tile.sum({expression})"), "arith.select")


@pytest.mark.parametrize(
    "expression",
    ["t", "t + t", "t - t * t", "abs(t)", "tile.sqrt(t)", "tile.tanh(t)", "3.0 * t", "tile.maximum(t, 0.0)"],
)
def test_zero_stays_zero(expression: str):
    assert selects(expression) == 0


@pytest.mark.parametrize("expression", ["t + 1.0", "-t", "tile.cos(t)", "t * -2.0", "t / t", "tile.maximum(t, 1.0)"])
def test_zero_does_not_stay_zero(expression: str):
    assert selects(expression) == 1
