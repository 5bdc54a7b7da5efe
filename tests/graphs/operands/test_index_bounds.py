"""Index arrays in host memory that reach outside of their axis: refused at the call, at the place of the subscript."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

from collections.abc import Callable
from types import SimpleNamespace

import numpy as np
import pytest

import tessera
from support.operators import Array
from tessera import graph, op
from tessera.core.base.source import NOWHERE, Source
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.settings import overridden
from tessera.graphs.operands.index_bounds import IndexBound, require_inside

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_the_least_and_the_greatest_index():
    bounds = [IndexBound(1, -3, 3, NOWHERE), IndexBound(0, 0, 5, NOWHERE)]
    source = Source("<cell>", "")
    require_inside(bounds, [np.array([0, 4]), np.array([-3, 2], np.int8)], source)
    require_inside(bounds, [np.array([], int), object()], source)
    for arrays, index in (([np.array([0, 5]), np.array(0)], 5), ([np.array(0), np.array([[1, -4]])], -4)):
        with pytest.raises(OperandMismatch, match=f"index {index} is outside"):
            require_inside(bounds, arrays, source)
    with pytest.raises(OperandMismatch, match="the axis is empty"):
        require_inside([IndexBound(0, 0, 0, NOWHERE)], [np.array([0])], source)
    with pytest.raises(OperandMismatch, match="index 18446744073709551615 is outside"):
        require_inside([IndexBound(0, 0, 5, NOWHERE)], [np.array([2**64 - 1], np.uint64)], source)


PICKS: dict[str, tuple[Callable[[Array, Array], Array], int, int]] = {
    "gather": (lambda x, i: op.gather(x, i, 1), -4, 4), "subscript": (lambda x, i: x[i], -3, 3),
    "of an axis": (lambda x, i: x[:, i] * 2.0, -4, 4), "pairs": (lambda x, i: x[op.arange(3), i], -4, 4),
    "take_along_axis": (lambda x, i: op.take_along_axis(x, i[:, None], 1), -4, 4),
    "embedding": (op.embedding, 0, 3), "cross_entropy": (op.cross_entropy, 0, 4),
    "a matrix of indices": (lambda x, i: x[i.reshape(1, 3).T.astype("i64")], -3, 3),
    "set": (lambda x, i: x.at[i].set(0.0), -3, 3), "add": (lambda x, i: x.at[:, i].add(1.0), -4, 4),
}  # fmt: skip
"""What picks elements, the lowest index, and the first one that is too great."""


@pytest.mark.parametrize("name", PICKS)
def test_every_operator_that_picks(name: str):
    function, lowest, end = PICKS[name]
    with overridden(target="interpret"):
        picks = graph.module("picks")(function)
        slope = tessera.grad(lambda x, i: op.sum(function(x, i)))
        picks(X, np.array([0, end - 1, lowest]))
        for index in (end, lowest - 1):
            for call in (picks, slope, graph.module("outer")(slope)):
                with pytest.raises(OperandMismatch, match=f"index {index} is outside an axis of {end}") as caught:
                    call(X, np.array([0, index, 0]))
                assert "test_index_bounds.py, line" in str(caught.value)
                assert f"indices go from {lowest} to {end - 1}" in str(caught.value)


def test_the_place_is_that_of_the_subscript():
    def model(x: Array, rows: Array) -> Array:
        doubled = x * 2.0
        return doubled[rows]

    with overridden(target="interpret"), pytest.raises(OperandMismatch) as caught:
        graph.module("model")(model)(X, np.array([0, 3]))
    assert "        return doubled[rows]\n" in str(caught.value)


def test_calls_of_other_shapes_have_bounds_of_their_own():
    """A call is compared with the one before it, which may have been of a shorter axis."""
    pick = graph.module("pick")(lambda x, i: op.softmax(x[i]))
    for rows, last in ((2, 1), (9, 8), (2, 1), (5, 4), (9, 8)):
        x, index = np.zeros((rows, 4), np.float32), np.array([0, last])
        for _ in range(2):
            np.testing.assert_array_equal(pick(x, index), np.full((2, 4), 0.25, np.float32))
            np.testing.assert_allclose(
                op.cross_entropy(np.zeros((2, rows), np.float32), index), np.log(rows), rtol=1e-6
            )
        with pytest.raises(OperandMismatch, match=f"index {rows} is outside an axis of {rows}"):
            pick(x, np.array([0, rows]))


def test_arrays_that_a_function_closes_over():
    held = SimpleNamespace(rows=np.array([0, 2]))
    picked = graph.module("picked")(lambda x: x[held.rows])
    with overridden(target="interpret"):
        np.testing.assert_array_equal(picked(X), X[[0, 2]])
        held.rows = np.array([0, 3])
        with pytest.raises(OperandMismatch, match="index 3 is outside"):
            picked(X)
        held.rows[1] = -3
        np.testing.assert_array_equal(picked(X), X[[0, 0]])


def test_a_class_that_is_none_makes_the_loss_nan_where_it_cannot_be_seen():
    loss = graph.module("loss")(lambda x, t: op.cross_entropy(x, t * 2))
    with overridden(target="interpret"):
        assert np.isfinite(loss(X, np.array([0, 1, 0])))
        for target in (2, -1):
            assert np.isnan(loss(X, np.array([0, target, 0])))
