"""Subscripts of tracers against NumPy's."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportArgumentType=false, reportCallIssue=false, reportUnknownVariableType=false

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from support.operators import Array, drawn
from tessera import graph
from tessera.core.errors.catalog import CannotTrace, OperandMismatch
from tessera.core.settings import overridden
from tessera.graphs.indexing import bounds, index_map_of
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
    found, gathered = index_map_of(..., (4, 5))
    assert found.is_identity((4, 5))
    assert gathered == []


@pytest.mark.parametrize(
    ("take", "message"),
    [
        (lambda x: x[4], "index 4 lies outside an axis of 4"),
        (lambda x: x[0, -6], "index -6 lies outside an axis of 5"),
        (lambda x: x[0, 0, 0, 0], "4 indices for 3 axes"),
        (lambda x: x[..., ...], "an index has one ..."),
        (lambda x: x[np.array([0]), np.array([0])], "only one axis can be indexed by an array"),
        (lambda x: x["w"], "'w' is no array"),
        (lambda x: x[1.5], "1.5 is no array"),
        (lambda x: x[x > 0], "indices are integers"),
        (lambda x: x[np.array([0.5])], "indices are integers"),
    ],
)
def test_subscripts_that_mean_nothing(take: Callable[[Tracer], object], message: str):
    with pytest.raises(OperandMismatch, match=message) as raised:
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
