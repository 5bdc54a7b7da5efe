"""Running sums and sums at indices against NumPy."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportCallIssue=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false, reportArgumentType=false

from collections.abc import Callable

import numpy as np
import pytest

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
    assert got.dtype == np.cumsum(x, -1).dtype
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


def test_derivatives():
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
    ],
)
def test_mistakes(call: Callable[[], object], message: str):
    with pytest.raises(OperandMismatch, match=rf"^[^\n]*(?:{message})") as caught:
        call()
    assert "^^^" in str(caught.value)
