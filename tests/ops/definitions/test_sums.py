"""Running sums, sums at indices and sparse products against NumPy."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportCallIssue=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false, reportArgumentType=false

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import tessera
from support.operators import FLOATS, TOLERANCE, close, drawn, everywhere
from tessera import op
from tessera.core.errors.catalog import OperandMismatch


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("shape", "axis"), [((5,), 0), ((3, 130), 1), ((70, 2), 0), ((2, 1, 64), -1)])
def test_running_sums(dtype: str, shape: tuple[int, ...], axis: int):
    x = drawn(shape, FLOATS[dtype])
    got = everywhere(lambda x: op.cumsum(x, axis), x)
    assert got.dtype == x.dtype
    close(got, np.cumsum(x.astype(np.float64), axis), TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.bool_])
def test_running_sums_of_integers(dtype: type[np.generic]):
    x = drawn((2, 70), np.int64, low=0, high=9).astype(dtype)
    got = everywhere(op.cumsum, x)
    assert got.dtype == (np.int64 if dtype is np.bool_ else dtype)
    np.testing.assert_array_equal(got, np.cumsum(x, -1))


def test_what_is_not_finite_counts_from_there_on():
    x = np.array([1, np.inf, 2, -np.inf, 3], np.float32)
    np.testing.assert_array_equal(everywhere(op.cumsum, x), [1, np.inf, np.inf, np.nan, np.nan])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_scatter_add(dtype: str, axis: int):
    x, index = drawn((4, 5, 3), FLOATS[dtype]), np.array([[0, 2, 2], [-1, 7, 0]])
    shape = list(x.shape)
    shape[axis : axis + 1 if axis >= 0 else None] = index.shape
    values = drawn(tuple(shape), FLOATS[dtype], 1)
    got = everywhere(lambda x, i, v: op.scatter_add(x, i, v, axis), x, index, values)
    want = np.moveaxis(x.astype(np.float64), axis, 0)
    place = axis % 3
    flat = values.reshape((*shape[:place], 6, *shape[place + 2 :]))
    for number, each in zip(index.ravel(), np.moveaxis(flat.astype(np.float64), place, 0), strict=True):
        if 0 <= number < x.shape[axis]:
            want[number] += each
    close(got, np.moveaxis(want, 0, axis), 2 * TOLERANCE[dtype])


def sparse(rows: int, columns: int, share: float, seed: int = 0) -> tuple[NDArray[Any], tuple[NDArray[Any], ...]]:
    """Return a dense matrix, and it in CSR form."""
    rng = np.random.default_rng(seed)
    dense = np.where(rng.random((rows, columns)) < share, rng.normal(size=(rows, columns)), 0)
    starts = np.concatenate([[0], np.cumsum((dense != 0).sum(1))])
    return dense, (dense[dense != 0], np.nonzero(dense)[1], starts)


@settings(max_examples=5)
@given(st.integers(1, 12), st.integers(1, 9), st.integers(1, 4), st.sampled_from([0.2, 0.6, 1.0]), st.integers(0, 99))
def test_sparse_products(rows: int, columns: int, width: int, share: float, seed: int):
    dense, (values, places, starts) = sparse(rows, columns, share, seed)
    if len(values) == 0:
        values, places = np.zeros(1), np.zeros(1, np.int64)  # behind the last row
    matrix = drawn((columns, width), np.float64)
    close(everywhere(op.spmm, values, places, starts, matrix), dense @ matrix, 1e-12)


def test_sparse_products_are_rounded_once():
    dense, (values, places, starts) = sparse(6, 40, 0.5)
    got = everywhere(op.spmm, values.astype(np.float16), places.astype(np.int32), starts, drawn((40, 3), np.float16))
    assert got.dtype == np.float16
    close(got, dense @ drawn((40, 3), np.float16).astype(np.float64), 4e-3)


def test_derivatives():
    _, (values, places, starts) = sparse(6, 5, 0.5)
    matrix = drawn((5, 3), np.float64)
    report = tessera.check_adjoint(lambda v, m: op.spmm(v, places, starts, m), values, matrix)
    assert report.within(1e-8)
    assert tessera.check_adjoint(op.cumsum, drawn((2, 70), np.float64)).within(1e-7)
    index = np.array([3, 0, 3, 9])
    arrays = drawn((4, 3), np.float64), drawn((4, 3), np.float64, 1)
    assert tessera.check_adjoint(lambda x, v: op.scatter_add(x, index, v), *arrays).within(1e-8)


ONES, INDEX = np.ones(3), np.arange(3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: op.cumsum(ONES, 1), "has no axis 1"),
        (lambda: op.scatter_add(ONES, INDEX, np.ones(4)), r"values of \(4,\) at indices of \(3,\)"),
        (lambda: op.scatter_add(ONES, ONES, ONES), "indices are integers"),
        (lambda: op.spmm(ONES, np.arange(4), INDEX, np.ones((3, 2))), "in columns of"),
        (lambda: op.spmm(ONES, INDEX, np.zeros((2, 2), np.int64), np.ones((3, 2))), "starts of"),
        (lambda: op.spmm(ONES, INDEX, INDEX, ONES), r"a product with \(3,\)"),
        (lambda: op.spmm(ONES, ONES, INDEX, np.ones((3, 2))), "indices are integers"),
    ],
)
def test_mistakes(call: Callable[[], object], message: str):
    with pytest.raises(OperandMismatch, match=message) as caught:
        call()
    assert "^^^" in str(caught.value)
