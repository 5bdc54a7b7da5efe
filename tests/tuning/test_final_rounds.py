"""What the final rounds of a search say: ratios of times taken in turns, with intervals."""

import itertools

import numpy as np
import pytest

from tessera.tuning.final_rounds import Finalist, final_rounds
from tessera.tuning.results import MEASURED, Trial


def trial(number: int, *compared: float) -> Trial:
    return Trial({"BM": number}, MEASURED, (number * 1e-3,), compared=compared)


def test_no_rounds_no_finalists():
    assert final_rounds([trial(1), trial(2)], 0) == ()
    assert final_rounds([trial(1, 1.0, 1.0)], -1) == ()


def test_ratios_are_of_the_same_round():
    """A slow spell doubles both times of a round, and no ratio."""
    best, other = trial(1, 1.0, 2.0, 4.0), trial(2, 1.25, 2.5, 5.0)
    assert final_rounds([trial(3), other, best], 2) == (
        Finalist(2, 2.0, 1.0, 1.0, 1.0, 0, 3),
        Finalist(1, 2.5, 1.25, 1.25, 1.25, 0, 3),
    )


def test_the_best_comes_first_then_the_nearest():
    trials = [trial(1, 3.0, 3.0), trial(2, 0.9, 0.9), trial(3, 1.0, 1.0), trial(4, 2.0, 2.0)]
    assert [each.row for each in final_rounds(trials, 2)] == [2, 1, 3, 0]
    assert [each.wins for each in final_rounds(trials, 2)] == [0, 2, 0, 0]


def test_other_rounds_are_not_compared():
    assert [each.row for each in final_rounds([trial(1, 1.0, 1.0), trial(2, 1.0)], 0)] == [0]


@pytest.mark.parametrize(
    ("count", "outside"), [(1, 0), (5, 0), (6, 0), (8, 0), (9, 1), (11, 1), (12, 2), (20, 5), (25, 7)]
)
def test_intervals_are_those_of_the_sign_test(count: int, outside: int):
    """Ranks as in tables of the sign test's interval at 95 per cent; of few ratios all are inside."""
    ratios = [1.0 + n / 100 for n in range(count)]
    (_, found) = final_rounds([trial(1, *[1.0] * count), trial(2, *ratios[::-1])], 0)
    assert (found.low, found.high) == (ratios[outside], ratios[count - 1 - outside])


def test_intervals_hold_the_median_as_often_as_they_say():
    """Of all orders of signs of nine ratios around a median of one, so many have it inside."""
    inside = 0
    for signs in itertools.product((-1, 1), repeat=9):
        ratios = [1.0 + sign * (n + 1) / 100 for n, sign in enumerate(signs)]
        (_, found) = sorted(final_rounds([trial(1, *[1.0] * 9), trial(2, *ratios)], 0), key=lambda each: each.row)
        inside += found.low <= 1.0 <= found.high
    assert np.isclose(inside / 2**9, 1 - 2 * 10 / 2**9)
