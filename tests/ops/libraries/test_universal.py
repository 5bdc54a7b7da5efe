"""The libraries' part of universal functions, on NumPy's arrays."""

import numpy as np

from tessera.ops.libraries import universal


def test_significands_and_exponents():
    (significand, exponent) = universal.frexp([np.array([8.0, -0.75, 0.0, np.inf])], {})
    np.testing.assert_array_equal(significand, [0.5, -0.75, 0.0, np.inf])
    np.testing.assert_array_equal(exponent, [4, 0, 0, 0])
    (scaled,) = universal.ldexp([np.array([0.5, -0.75]), np.array([4, 0], np.int32)], {})
    np.testing.assert_array_equal(scaled, [8.0, -0.75])


def test_neighbors_by_bits():
    x, y = np.array([1.0, 1.0, 0.0, np.inf, 2.0], np.float32), np.array([2, 0, -1, 0, 2], np.float32)
    np.testing.assert_array_equal(universal.nextafter([x, y], {"step": 1})[0], np.nextafter(x, y))
    one, two = np.ones(1, np.float32), np.full(1, 2.0, np.float32)
    (beside,) = universal.nextafter([one, two], {"step": 1 << 16})  # of bf16
    np.testing.assert_array_equal(beside, [1.0078125])


def test_divisors_and_multiples():
    x, y = np.array([12, 0, 7]), np.array([18, 0, 3])
    np.testing.assert_array_equal(universal.gcd([x, y], {})[0], [6, 0, 1])
    np.testing.assert_array_equal(universal.lcm([x, y], {})[0], [36, 0, 21])
