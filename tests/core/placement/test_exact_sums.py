"""Exact sums: against rational arithmetic and `math.fsum`, in any order."""

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from tessera.core.base import dtypes
from tessera.core.base.dtypes import DType
from tessera.core.placement.exact_sums import decode, encode, state_rows

FLOATS = [dtype for dtype in dtypes.ALL if dtype.is_float]


def bits(x: np.ndarray) -> np.ndarray:
    return x.view(f"u{x.dtype.itemsize}")


def finite(dtype: DType, leaves: int, elements: int) -> np.ndarray:
    """Numbers of every exponent, denormals and zeros of both signs among them."""
    rng = np.random.default_rng(leaves)
    x = rng.integers(0, 1 << dtype.bits, (leaves, elements), dtype=f"u{dtype.bytes}").view(dtype.numpy)
    with np.errstate(invalid="ignore"):
        x = np.where(np.isfinite(x), x, np.array(1).astype(dtype.numpy))
    x[:, 1] = np.array(-0.0).astype(dtype.numpy)
    close = rng.standard_normal((leaves, elements // 2)) * 2.0 ** rng.integers(-6, 6, (leaves, elements // 2))
    x[:, elements // 2 : elements // 2 * 2] = close.astype(dtype.numpy)
    return x


@pytest.mark.parametrize("dtype", FLOATS, ids=repr)
@pytest.mark.parametrize("leaves", [1, 2, 7, 72])
def test_no_other_number_is_nearer(dtype: DType, leaves: int):
    x = finite(dtype, leaves, 60)
    found = decode(sum((encode(leaf) for leaf in x[1:]), encode(x[0])), dtype)
    checked = 0
    for column, got in zip(x.T, found, strict=True):
        exact = sum((Fraction(float(each)) for each in column), Fraction(0))
        if not math.isfinite(float(got)):
            assert abs(exact) > Fraction(float(_largest(dtype)))
            continue
        for step in (-1, 1):
            near = int(bits(np.array([got]))[0]) + step
            if 0 <= near < 1 << dtype.bits:
                other = float(np.array([near], f"u{dtype.bytes}").view(dtype.numpy)[0])
                if math.isfinite(other):
                    assert abs(Fraction(other) - exact) >= abs(Fraction(float(got)) - exact)
                    checked += 1
    assert checked > 50


def _largest(dtype: DType) -> np.ndarray:
    every = np.arange(1 << 16 if dtype.bits == 16 else 1 << 8, dtype=f"u{min(2, dtype.bytes)}")
    if dtype.bits > 16:
        return np.array(np.finfo(dtype.numpy).max)
    with np.errstate(invalid="ignore"):
        found = every.view(dtype.numpy).astype(np.float64)
    return np.array(found[np.isfinite(found)].max())


def test_f64_is_fsum():
    x = finite(dtypes.f64, 9, 400)
    x = np.where(np.abs(x) > 1e300, 1.0, x)
    found = decode(sum((encode(leaf) for leaf in x[1:]), encode(x[0])), dtypes.f64)
    expected = np.array([math.fsum(column) for column in x.T])
    some = expected != 0
    assert np.array_equal(bits(found[some]), bits(expected[some]))


def test_any_order_and_any_grouping_has_the_same_state():
    x = finite(dtypes.f32, 24, 33)
    states = [encode(leaf) for leaf in x]
    forward = sum(states[1:], states[0])
    backward = sum(states[-2::-1], states[-1])
    grouped = sum(states[:7], np.zeros_like(forward)) + sum(states[7:], np.zeros_like(forward))
    assert np.array_equal(forward, backward)
    assert np.array_equal(forward, grouped)
    assert forward.shape == (state_rows(dtypes.f32), 33)


def test_what_a_tree_loses_is_kept():
    x = np.array([[1e8], [1.0], [-1e8], [2.0**-149]], np.float32)
    assert decode(sum((encode(leaf) for leaf in x[1:]), encode(x[0])), dtypes.f32)[0] == 1.0
    y = np.array([[1e30], [3 * 2.0**-149], [-1e30]], np.float32)
    assert decode(sum((encode(leaf) for leaf in y[1:]), encode(y[0])), dtypes.f32)[0] == np.float32(3 * 2.0**-149)


def test_values_that_are_no_numbers():
    inf, nan = math.inf, math.nan
    columns: list[Any] = [
        [inf, 1.0], [-inf, 1.0], [inf, -inf], [nan, 1.0], [-0.0, -0.0], [-0.0, 0.0], [1.0, -1.0], [3e38, 3e38],
    ]  # fmt: skip
    x = np.array(columns, np.float32).T
    found = decode(encode(x[0]) + encode(x[1]), dtypes.f32)
    expected = np.array([inf, -inf, nan, nan, -0.0, 0.0, 0.0, inf], np.float32)
    assert np.array_equal(bits(found), bits(expected))


def test_shapes_of_elements_are_kept():
    x = np.ones((3, 4, 5), np.float32)
    assert decode(encode(x[0]) + encode(x[1]) + encode(x[2]), dtypes.f32).tolist() == np.full((4, 5), 3.0).tolist()
