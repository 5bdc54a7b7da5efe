"""Products with sparse matrices against NumPy, with batches, derivatives, and the warning where dense is faster."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportCallIssue=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false, reportArgumentType=false

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import tessera
from support.operators import FLOATS, TOLERANCE, close, drawn, everywhere
from tessera import op
from tessera.core.errors.catalog import OperandMismatch


def sparse(rows: int, columns: int, share: float, seed: int = 0) -> tuple[NDArray[Any], tuple[NDArray[Any], ...]]:
    """Return a dense matrix, and it in CSR form."""
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random((rows, columns)) < share, rng.normal(size=(rows, columns)), 0)
    starts = np.concatenate([[0], np.cumsum((dense != 0).sum(1))])
    return dense, (dense[dense != 0], np.nonzero(dense)[1], starts)


@pytest.mark.parametrize(("rows", "columns", "width", "share"), [(12, 9, 4, 0.2), (1, 70, 129, 0.6), (5, 3, 1, 1.0)])
def test_products(rows: int, columns: int, width: int, share: float):
    dense, (values, places, starts) = sparse(rows, columns, share)
    matrix = drawn((columns, width), np.float64)
    close(everywhere(op.spmm, values, places, starts, matrix), dense @ matrix, 1e-13)
    batch = drawn((2, 3, columns, width), np.float64)
    close(everywhere(op.spmm, values, places.astype(np.int32), starts, batch), dense @ batch, 1e-13)


@pytest.mark.parametrize("dtype", FLOATS)
def test_every_float_is_rounded_once(dtype: str):
    dense, (values, places, starts) = sparse(6, 40, 0.5)
    short = values.astype(FLOATS[dtype])
    dense[dense != 0] = short
    matrix = drawn((40, 3), FLOATS[dtype])
    got = everywhere(op.spmm, short, places, starts, matrix)
    assert got.dtype == matrix.dtype
    close(got, dense @ matrix.astype(np.float64), 4 * TOLERANCE[dtype])


def test_types_meet():
    _, (values, places, starts) = sparse(4, 5, 0.5)
    assert (
        np.asarray(op.spmm(values.astype(np.float32), places, starts, np.ones((5, 2), np.float16))).dtype == np.float32
    )
    counts = np.asarray(op.spmm(values > 0, places, starts, np.ones((5, 2), bool)))
    assert counts.dtype == np.int64


def test_rows_and_matrices_without_elements():
    nothing, rows = np.zeros(0), np.zeros(4, np.int64)
    close(everywhere(op.spmm, nothing, rows[:0], rows, np.ones((2, 3))), np.zeros((3, 3)), 0)
    close(everywhere(op.spmm, nothing, rows[:0], rows[:1], np.ones((2, 3))), np.zeros((0, 3)), 0)


def test_derivatives():
    _, (values, places, starts) = sparse(6, 5, 0.5)
    matrix = drawn((2, 5, 3), np.float64)
    report = tessera.check_adjoint(lambda v, m: op.spmm(v, places, starts, m), values, matrix)
    assert report.within(1e-8)

    def loss(v: NDArray[Any]) -> object:
        return op.sum(op.square(op.spmm(v, places, starts, matrix[0])))

    (curvature,) = tessera.hvp(loss, (values,), (np.ones_like(values),))
    slopes = [np.asarray(tessera.grad(loss)(values + sign)) for sign in (1, -1)]
    close(curvature, (slopes[0] - slopes[1]) / 2, 1e-10)  # quadratic


def test_a_matrix_that_is_not_sparse_is_warned_of():
    count = 1 << 18
    starts = np.linspace(0, count, 1025).astype(np.int64)
    columns = np.tile(np.arange(256), 1024)
    matrix = np.ones((1024, 1), np.float32)
    with pytest.warns(RuntimeWarning, match=r"spmm of 25.0% of a matrix: from 6.2% on"):
        made = op.spmm(np.ones(count, np.float32), columns, starts, matrix)
    np.testing.assert_array_equal(made, 256)


ONES, INDEX = np.ones(3), np.arange(3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: op.spmm(ONES, np.arange(4), INDEX, np.ones((3, 2))), "in columns of"),
        (lambda: op.spmm(ONES, INDEX, np.zeros((2, 2), np.int64), np.ones((3, 2))), "starts of"),
        (lambda: op.spmm(ONES, INDEX, INDEX, ONES), r"a product with \(3,\)"),
        (lambda: op.spmm(ONES, ONES, INDEX, np.ones((3, 2))), "indices are integers"),
    ],
)
def test_mistakes(call: Callable[[], object], message: str):
    with pytest.raises(OperandMismatch, match=rf"^[^\n]*(?:{message})") as caught:
        call()
    assert "^^^" in str(caught.value)
