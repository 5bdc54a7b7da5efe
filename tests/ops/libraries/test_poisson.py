"""Counts of arrays of rates: the frequencies, both methods at their limits, the stream of each element."""

import math

import numpy as np
import pytest

from tessera.core.base.philox import random_bits
from tessera.core.settings import overridden
from tessera.ops.libraries.poisson import poisson
from tessera.ops.tiles.poisson import MOST_INVERTED

KEY = np.array([42, 7], np.uint32)


def counts(rates: np.ndarray, dtype: type[np.generic] = np.int64) -> np.ndarray:
    made = np.empty(rates.shape, dtype)
    poisson([rates.astype(np.float32), KEY, made], {"stream": 5})
    return made


@pytest.mark.parametrize("rate", [0.1, 4.0, 9.99, MOST_INVERTED, 11.5, 60.0, 3000.0])
def test_frequencies(rate: float):
    """Chi-squared of all counts that are expected ten times, four standard deviations from its mean."""
    n = 1 << 18
    found = np.bincount(counts(np.full(n, rate)))
    masses = [math.exp(-rate + k * math.log(rate) - math.lgamma(k + 1)) for k in range(len(found))]
    wanted = n * np.array(masses)
    often = wanted > 10
    distance = float(((found - wanted)[often] ** 2 / wanted[often]).sum())
    degrees = int(often.sum())
    assert abs(distance - degrees) <= 4 * math.sqrt(2 * degrees) + 4
    assert found[~often].sum() <= 10 * max(10, float(wanted[~often].sum()))


def test_rates_that_are_none():
    made = counts(np.array([[-1.0, np.nan, 0.0, -0.0]]), np.int32)
    np.testing.assert_array_equal(made, [[-1, -1, 0, 0]])
    assert made.dtype == np.int32
    assert counts(np.empty((0, 3))).shape == (0, 3)


def test_an_element_draws_from_its_own_stream():
    """Rates of other elements, and how many trials these need, do not matter."""
    rates = np.random.default_rng(0).uniform(0, 40, 500)
    whole = counts(rates)
    others = rates.copy()
    others[::2] = 25.0
    np.testing.assert_array_equal(counts(others)[1::2], whole[1::2])
    word = random_bits(KEY, 4, 5)[3]
    below = math.exp(-2.0) * (1 + 2 + 2)  # at most 2
    assert (counts(np.full(4, 2.0))[3] <= 2) == (int(word) < below * 2**32)


def test_the_oracle_gives_the_same_bits():
    rates = np.random.default_rng(1).uniform(0, 300, 300)
    with overridden(target="interpret"):
        oracle = counts(rates)
    np.testing.assert_array_equal(oracle, counts(rates))
