"""The routine of `argsort`: stable both ways, NaN greatest, zeros equal, nothing at all."""

from typing import Literal

import numpy as np
import pytest

from tessera.ops.libraries import sorting
from tessera.ops.libraries.sorting import argsort


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_both_ways(dtype: type[np.floating]):
    x = np.array([[0.0, -0.0, np.nan, 1.0], [-0.0, -np.nan, np.nan, -np.inf]], dtype)
    (rising,) = argsort([x], {"axis": 1, "descending": False})
    (falling,) = argsort([x], {"axis": 1, "descending": True})
    np.testing.assert_array_equal(rising, [[0, 1, 3, 2], [3, 0, 1, 2]])
    np.testing.assert_array_equal(falling, [[2, 3, 0, 1], [1, 2, 0, 3]])
    assert rising.dtype == falling.dtype == np.int64


def test_other_axes_and_nothing():
    x = np.array([[3, 1], [1, 2], [1, 0]], np.uint64)
    np.testing.assert_array_equal(argsort([x], {"axis": 0, "descending": True})[0], [[0, 1], [1, 0], [2, 2]])
    for shape in ((0, 3), (3, 0)):
        (order,) = argsort([np.zeros(shape)], {"axis": 1, "descending": True})
        assert (order.shape, order.dtype) == (shape, np.int64)


class ByBits:
    """NumPy, but for sorts of floats: by their bits, negative numbers in reverse, as a radix sort has them."""

    def __getattr__(self, name: str) -> object:
        return getattr(np, name)

    @staticmethod
    def argsort(keys: np.ndarray, axis: int, kind: Literal["stable"]) -> np.ndarray:
        bits = keys.view(np.int32)
        return np.argsort(np.where(bits < 0, bits ^ 0x7FFFFFFF, bits), axis=axis, kind=kind)


@pytest.mark.parametrize("descending", [False, True])
def test_signs_of_zeros_and_nan_do_not_count(monkeypatch: pytest.MonkeyPatch, descending: bool):
    x = np.random.default_rng(0).choice(np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, -np.nan]), 200)
    options = {"axis": 0, "descending": descending}
    (want,) = argsort([x.astype(np.float32)], options)
    monkeypatch.setattr(sorting, "library_for", lambda _: ByBits())
    (got,) = argsort([x.astype(np.float32)], options)
    np.testing.assert_array_equal(got, want)
