"""Subscripts of tracers against NumPy's."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportArgumentType=false, reportCallIssue=false, reportUnknownVariableType=false, reportUnknownMemberType=false

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import tessera
from support.operators import Array, drawn
from tessera import graph, op
from tessera.core.errors.catalog import CannotTrace, OperandMismatch
from tessera.core.settings import overridden
from tessera.graphs.operands.indexing import bounds, subscript_of
from tessera.graphs.tracer import Tracer

X = drawn((4, 5, 6), np.float32)


def taken(x: NDArray[Any], index: Array) -> Array:
    with overridden(target="interpret"):
        return graph.module(lambda x: x[index])(x)


@pytest.mark.parametrize(
    "index",
    [
        0, -1, slice(1, 3), slice(None, None, -1), slice(None, None, 2), slice(3, None, -2), slice(7, 9), (1, 2), (1, 2, 3),
        (slice(None), 1), (..., 1), (1, ...), (None, 1), (slice(1, 3), None, 2), (..., None), (slice(-2, None), ..., slice(0, 2)),
        np.int64(2),
    ],
    ids=str,
)  # fmt: skip
def test_basic_subscripts(index: object):
    np.testing.assert_array_equal(taken(X, index), X[index])  # type: ignore[index]


@settings(max_examples=40)
@given(data=st.data())
def test_subscripts_of_any_kind(data: st.DataObject):
    index: list[object] = []
    for size in (4, 5, 6)[: data.draw(st.integers(0, 3))]:
        index += [None] * data.draw(st.integers(0, 1))
        index.append(data.draw(st.one_of(st.integers(-size, size - 1), st.slices(size))))
    np.testing.assert_array_equal(taken(X, tuple(index)), X[tuple(index)])


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_an_array_of_integers_picks_along_its_axis(axis: int):
    picked = np.array([[2, 0], [1, 3]])
    index = (*(slice(None),) * axis, picked)
    np.testing.assert_array_equal(taken(X, index), X[index])


def test_an_array_that_is_an_argument_picks():
    picked = np.array([2, 0, 2])
    with overridden(target="interpret"):
        got = graph.module(lambda x, i: x[:, i])(X, picked)
    np.testing.assert_array_equal(got, X[:, picked])


def test_a_view_of_everything_changes_nothing():
    subscript = subscript_of(..., (4, 5))
    assert subscript.view.is_identity((4, 5))
    assert subscript.arrays == ()


def index_arrays(data: st.DataObject, sizes: tuple[int, ...]) -> tuple[object, ...]:
    """Draw a subscript with integers, slices, new axes, lists and arrays of integers that broadcast together."""
    shape = data.draw(st.sampled_from([(3,), (2, 1), (2, 3), (1,), ()]))
    index: list[object] = []
    dots = data.draw(st.integers(-1, 3))
    for axis, size in enumerate(sizes[: data.draw(st.integers(1, 3))]):
        index += [None] * data.draw(st.integers(0, 1))
        extents = data.draw(st.sampled_from([shape, shape[-1:]]))
        numbers = st.integers(-size, size - 1)
        flat = data.draw(st.lists(numbers, min_size=int(np.prod(extents)), max_size=int(np.prod(extents))))
        array = np.array(flat, np.int64).reshape(extents)
        listed = flat if array.ndim == 1 else array
        index.append(
            data.draw(st.sampled_from([array, listed, array.astype(np.int8), slice(None, None, -1), size - 1]))
        )
        if axis == dots and Ellipsis not in [each for each in index if each is Ellipsis]:
            index.append(Ellipsis)
    return tuple(index)


@settings(max_examples=60)
@given(data=st.data())
def test_arrays_and_lists_as_numpy_has_them(data: st.DataObject):
    index = index_arrays(data, X.shape)
    try:
        right = X[index]
    except IndexError:  # more indices than axes are left beside `...`
        return
    np.testing.assert_array_equal(taken(X, index), right, err_msg=repr(index))


@pytest.mark.parametrize(
    "index", [[[0, 1], [2, -1]], ((0, 1), [[2], [4]]), (slice(None), [[0], [3]]), ([[[1]]], 2), [[i % 4, 0] for i in range(40)]],
    ids=str,
)  # fmt: skip
def test_lists_of_lists(index: object):
    np.testing.assert_array_equal(taken(X, index), X[index])  # type: ignore[index]


@pytest.mark.parametrize(
    ("index", "message"),
    [
        ([[0], [1, 2]], "has rows of different lengths"), ([[0, 1], [4, 0]], "index 4 is outside an axis of 4"),
        ([[0.5]], "is no list of integers"), ([[0], 1], "is no list of integers"), ([[True, False]], "is no list"),
    ],
)  # fmt: skip
def test_lists_that_are_refused(index: object, message: str):
    with pytest.raises(OperandMismatch, match=message) as caught:
        taken(X, index)
    assert "test_indexing.py, line" in str(caught.value)
    assert "lambda x: x[index]" in str(caught.value)  # the place inside of the function, not of its call


def test_one_element_of_each_row():
    y = np.array([2, -1, 0, 4])
    with overridden(target="interpret"):
        got = graph.module(lambda x, y: x[op.arange(4), y])(X, y)
        np.testing.assert_array_equal(got, X[np.arange(4), y])
        outside = graph.module(lambda x, y: x[op.arange(4), y + 0, 0])(X, np.array([2, 5, -6, 100]))
        np.testing.assert_array_equal(outside, [X[0, 2, 0], 0, 0, 0])  # nothing of another row


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8])
def test_take_along_an_axis(axis: int, dtype: type):
    order = np.argsort(X, axis=axis).astype(dtype)
    with overridden(target="interpret"):
        np.testing.assert_array_equal(
            op.take_along_axis(X, order, axis), np.take_along_axis(X, np.argsort(X, axis=axis), axis)
        )
        top = order.take([0], axis)
        np.testing.assert_array_equal(op.take_along_axis(X, top, axis), X.min(axis, keepdims=True))
        slope = tessera.grad(lambda x: op.sum(op.take_along_axis(x, top, axis)))(X)
    np.testing.assert_array_equal(slope, X.min(axis, keepdims=True) == X)


@pytest.mark.parametrize(
    ("index", "axis", "message"),
    [
        (np.zeros((4, 5), np.int64), 0, "as many axes"),
        (np.zeros((4, 5, 6)), 0, "indices are integers"),
        (np.zeros((3, 5, 6), np.int64), 2, "do not broadcast"),
        (np.zeros((4, 5, 6), np.int64), 3, "has no axis 3"),
    ],
)
def test_refused_along_an_axis(index: NDArray[Any], axis: int, message: str):
    with pytest.raises(OperandMismatch, match=rf"^[^\n]*(?:{message})"):
        op.take_along_axis(X, index, axis)


def test_lists_are_part_of_the_program():
    function = graph.module("picked")(lambda x: x[:, [4, 0, -1]])
    np.testing.assert_array_equal(function(X), X[:, [4, 0, -1]])
    assert function.graph_for(X).captured == ()


@pytest.mark.parametrize(
    ("take", "message"),
    [
        (lambda x: x[4], "index 4 is outside an axis of 4"),
        (lambda x: x[0, -6], "index -6 is outside an axis of 5"),
        (lambda x: x[0, 0, 0, 0], "4 indices for 3 axes"),
        (lambda x: x[..., ...], "an index has one ..."),
        (lambda x: x[[0, 4]], "index 4 is outside an axis of 4"),
        (lambda x: x[[True, False, True, True]], "is no list of integers"),
        (lambda x: x[np.array([0, 1]), np.array([0, 1, 2])], "do not broadcast together"),
        (lambda x: x["w"], "'w' is no array"),
        (lambda x: x[1.5], "indices are integers, not f32"),
        (lambda x: x[x > 0], "a mask picks as many elements as are true"),
        (lambda x: x[np.array([0.5])], "indices are integers"),
    ],
)
def test_subscripts_that_mean_nothing(take: Callable[[Tracer], object], message: str):
    with pytest.raises(OperandMismatch, match=rf"^[^\n]*(?:{message})") as raised:
        graph.module(take)(X)
    assert "test_indexing.py, line" in str(raised.value)


def test_a_value_is_no_index():
    with pytest.raises(CannotTrace, match="an index that is computed cannot be captured") as raised:
        graph.module(lambda x: [10, 20][x[0, 0, 0]])(X)
    assert "op.gather(x, index, axis)" in str(raised.value)


@given(st.integers(0, 9), *(st.one_of(st.none(), st.integers(-12, 12)) for _ in range(3)))
def test_slices_are_those_of_sequences(size: int, first: int | None, last: int | None, step: int | None):
    given_slice = slice(first, last, step or None)
    start, by, count = bounds(given_slice, size)
    assert [start + by * n for n in range(count)] == list(range(size))[given_slice]
