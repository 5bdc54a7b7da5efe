"""The routines behind `spmm`: products, rows of elements, and the transposed matrix, with what lies outside."""

import numpy as np
import pytest

from tessera.core.settings import overridden
from tessera.ops.libraries.sparse import multiply, rows_of_elements, transposed

STARTS = np.array([1, 1, 4, 4, 6, 6])
"""Of five rows, three of them empty; one element lies before the first row, two behind the last."""
COLUMNS = np.array([0, 2, 0, 9, -1, 2, 1, 1])
VALUES = np.arange(1.0, 9.0)


def dense_of() -> np.ndarray:
    made = np.zeros((5, 3))
    made[1, 2], made[1, 0], made[3, 2] = 2, 3, 6
    return made


@pytest.mark.parametrize("target", ["interpret", "cpu"])
@pytest.mark.parametrize("width", [1, 33, 130])
def test_products(target: str, width: int):
    dense = np.random.default_rng(0).normal(size=(3, width))
    made = np.full((5, width), np.nan)
    with overridden(target=target):
        multiply([VALUES, COLUMNS, STARTS, dense, made], {"kind": "f64"})
    np.testing.assert_allclose(made, dense_of() @ dense, atol=1e-14)


def test_integers_and_short_floats():
    dense = np.arange(6).reshape(3, 2)
    made = np.empty((5, 2), np.int64)
    multiply([VALUES.astype(np.int64), COLUMNS.astype(np.int32), STARTS.astype(np.int32), dense, made], {"kind": "i64"})
    np.testing.assert_array_equal(made, dense_of() @ dense)
    short = np.empty((5, 2), np.float16)
    multiply([VALUES.astype(np.float16), COLUMNS, STARTS, dense.astype(np.float16), short], {"kind": "f32"})
    np.testing.assert_array_equal(short, dense_of() @ dense)
    assert multiply([VALUES, COLUMNS, STARTS, np.ones((3, 0)), np.empty((5, 0))], {"kind": "f64"})[0].shape == (5, 0)


def test_rows_of_elements():
    (rows,) = rows_of_elements([COLUMNS, STARTS], {})
    np.testing.assert_array_equal(rows, [-1, 1, 1, 1, 3, 3, 5, 5])  # 5: behind the last one


def test_the_transposed_matrix():
    order, rows, starts = transposed([COLUMNS, STARTS], {"columns": 3})
    given = np.random.default_rng(1).normal(size=(5, 4))
    made = np.empty((3, 4))
    multiply([VALUES[order], rows, starts, given, made], {"kind": "f64"})
    np.testing.assert_allclose(made, dense_of().T @ given, atol=1e-14)
    np.testing.assert_array_equal(order[starts[1] : starts[2]], [6, 7])  # in their order
