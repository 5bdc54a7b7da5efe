"""`transpose` against NumPy."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.library import bf16, normal
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.settings import overridden
from tessera.ops import transpose

EXTENTS = st.integers(1, 90)


@given(
    st.integers(1, 3),
    EXTENTS,
    EXTENTS,
    st.sampled_from([np.float32, np.int8, bf16]),
    st.sampled_from(["interpret", "cpu"]),
)
@settings(max_examples=30)
def test_any_shape(count: int, m: int, n: int, dtype: type[np.generic], target: str):
    x = (normal(count, m, n) * 100).astype(dtype)
    with overridden(target=target):
        np.testing.assert_array_equal(transpose(x, schedule={"BLOCK": 32}), x.transpose(0, 2, 1))


def test_matrices_and_outputs():
    x = normal(70, 130)
    out = np.zeros((130, 70), np.float32)
    assert transpose(x, out) is out
    np.testing.assert_array_equal(out, x.T)


def test_what_does_not_fit():
    with pytest.raises(OperandMismatch, match="x has 1 axes"):
        transpose(normal(4))
    with pytest.raises(OperandMismatch, match="out holds f64 and x f32"):
        transpose(normal(4, 3), np.zeros((3, 4)))
    with pytest.raises(OperandMismatch, match="empty"):
        transpose(normal(4, 0))
