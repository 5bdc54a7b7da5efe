"""Functional updates against NumPy's writes."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportArgumentType=false, reportCallIssue=false, reportUnknownLambdaType=false

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

X = drawn((4, 5, 6), np.float32)
KINDS = ("set", "add", "multiply", "max", "min")
UFUNCS: dict[str, Any] = {"add": np.add, "multiply": np.multiply, "max": np.maximum, "min": np.minimum}


def updated(x: NDArray[Any], index: object, kind: str, new: object) -> NDArray[Any]:
    """Return what NumPy makes of it."""
    expected = x.copy()
    if kind == "set":
        expected[index] = new
    else:
        UFUNCS[kind].at(expected, index, new)
    return expected


def traced(x: NDArray[Any], index: object, kind: str, new: object) -> NDArray[Any]:
    with overridden(target="interpret"):
        return np.asarray(graph.module("f")(lambda v: getattr(v.at[index], kind)(new))(x))


@settings(max_examples=60)
@given(data=st.data())
def test_slices_and_numbers(data: st.DataObject):
    index: list[object] = []
    for size in X.shape[: data.draw(st.integers(0, 3))]:
        index += [None] * data.draw(st.integers(0, 1))
        index.append(data.draw(st.one_of(st.integers(-size, size - 1), st.slices(size), st.just(slice(None)))))
    subscript, update = tuple(index), data.draw(st.sampled_from(KINDS))
    shape = X[subscript].shape
    own = tuple(extent if data.draw(st.booleans()) else 1 for extent in shape)[data.draw(st.integers(0, len(shape))) :]
    new: object = drawn(own, np.float32, 1) if data.draw(st.booleans()) else data.draw(st.sampled_from((0.0, -2.5, 3)))
    if isinstance(new, np.ndarray) and new.ndim < len(shape) and own != shape[len(shape) - len(own) :]:
        new = 1.0
    np.testing.assert_array_equal(
        traced(X, subscript, update, new), updated(X, subscript, update, new), err_msg=f"{subscript} {update}"
    )


def test_slices_of_nothing_change_nothing():
    for index, shape in ((np.s_[:, :0], (5,)), (np.s_[:, None, :0], (1, 1, 1))):
        new = np.ones((4, *shape[1:-1], 0, 6)) if len(shape) == 1 else np.ones(shape)
        np.testing.assert_array_equal(traced(X, index, "set", new.astype(np.float32)), X)


@settings(max_examples=60)
@given(data=st.data())
def test_index_arrays(data: st.DataObject):
    shape = data.draw(st.sampled_from([(3,), (2, 3), (1,)]))
    index: list[object] = []
    for size in X.shape[: data.draw(st.integers(1, 3))]:
        numbers = data.draw(st.lists(st.integers(-size, size - 1), min_size=6, max_size=6))
        array = np.resize(np.array(numbers), data.draw(st.sampled_from([shape, shape[-1:]])))
        index.append(data.draw(st.sampled_from([array, array, slice(None), size - 1])))
    if not any(isinstance(each, np.ndarray) for each in index):
        index[0] = np.array([1, 1, 3])
    subscript, update = tuple(index), data.draw(st.sampled_from(["set", "add", "max", "min"]))
    new = np.round(drawn(X[subscript].shape, np.float32, 1) * 8)
    x = np.round(X * 8)  # sums of these are exact in any order
    np.testing.assert_array_equal(
        traced(x, subscript, update, new), updated(x, subscript, update, new), err_msg=f"{subscript} {update}"
    )


@pytest.mark.parametrize("target", ["interpret", "cpu"])
def test_a_cache_that_is_written_at_a_place_that_is_computed(target: str):
    write = graph.module("write")(lambda cache, key, t: cache.at[:, t].set(key))
    cache, key = np.zeros((2, 4, 3), np.float32), drawn((2, 3), np.float32)
    with overridden(target=target):
        for t in (0, 3, -1):
            right = cache.copy()
            right[:, t] = key
            np.testing.assert_array_equal(np.asarray(write(cache, key, np.array(t))), right)
        for t in (4, -5, 100):
            with pytest.raises(OperandMismatch, match=f"index {t} is outside an axis of 4"):
                write(cache, key, np.array(t))
    assert len(write.executable.plan.groups) == 1


def test_what_lies_outside_changes_nothing():
    x, at = np.arange(4.0), np.array([1, 7, -9, 1])
    with overridden(target="interpret"):
        for kind, right in (
            ("set", [0, 40, 2, 3]),
            ("add", [0, 51, 2, 3]),
            ("max", [0, 40, 2, 3]),
            ("min", [0, 1, 2, 3]),
        ):
            result = graph.module("f")(
                lambda v, i, k=kind: getattr(v.at[i + 0], k)(np.array([10.0, 20.0, 30.0, 40.0]))
            )(x, at)
            np.testing.assert_array_equal(np.asarray(result), right)


def test_zeros_that_are_not_touched_keep_their_sign():
    x = np.array([-0.0, 0.0, -0.0], np.float32)
    for index in (slice(1, 2), [1], 1):
        for kind in ("add", "set", "max"):
            assert np.signbit(traced(x, index, kind, 0.0)).tolist() == [True, False, True]


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int8, np.int64, np.uint8, np.bool_])
def test_the_dtype_is_that_of_the_value(dtype: type):
    x = np.zeros(4, dtype)
    got = traced(x, slice(1, 3), "set", np.ones(2, np.int64))
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, [0, 1, 1, 0])
    assert traced(np.zeros(2), slice(1), "set", 0.1)[0] == 0.1


def test_bools_and_indices_that_come_twice():
    x, new = np.array([True, False, True, False]), np.array([False, True, False])
    for update in ("set", "add", "max", "min"):
        right = x.copy()
        if update == "set":
            right[[1, 1, 2]] = new
        else:
            UFUNCS[update].at(right, [1, 1, 2], new)
        np.testing.assert_array_equal(traced(x, [1, 1, 2], update, new), right, err_msg=update)


def test_derivatives():
    x, v = np.arange(5.0), np.array([10.0, 20.0])

    def loss(index: object, kind: str) -> Callable[..., Array]:
        return lambda x, v: op.sum(getattr(x.at[index], kind)(v) ** 2)

    for index, kind, by_x, by_v in (
        (slice(1, 3), "set", [0, 0, 0, 6, 8], [20, 40]), (slice(1, 3), "add", [0, 22, 44, 6, 8], [22, 44]),
        ([1, 2], "set", [0, 0, 0, 6, 8], [20, 40]), ([2, 2], "add", [0, 2, 64, 6, 8], [64, 64]),
        ([2, 2], "set", [0, 2, 0, 6, 8], [0, 40]),
    ):  # fmt: skip
        slopes = tessera.grad(loss(index, kind), (0, 1))(x, v)
        np.testing.assert_allclose(slopes[0], by_x)
        np.testing.assert_allclose(slopes[1], by_v)


@pytest.mark.parametrize(
    ("update", "message"),
    [
        (lambda x: x.at[9].set(0.0), "index 9 is outside an axis of 4"),
        (lambda x: x.at[:2].set(np.ones((3, 6), np.float32)), "does not broadcast to the"),
        (lambda x: x.at[[0, 1], 1:3].set(0.0), "along whole axes only"),
        (lambda x: x.at[[0, 1]].multiply(2.0), "take set, add, max and min"),
        (lambda x: x.at[x > 0].set(0.0), "a mask picks as many elements"),
        (lambda x: x.astype("i32").at[0].set(0.5), "0.5 is written into i32"),
        (lambda x: x.astype("i32").at[0].set(x[0]), "f32 is written into i32"),
        (lambda x: x.astype("i8").at[0].set(300), "300 is no i8"),
    ],
)
def test_refused(update: Callable[[Array], Array], message: str):
    with pytest.raises(OperandMismatch, match=rf"^[^\n]*(?:{message})") as caught:
        graph.module("f")(update)(X)
    assert "test_updates.py, line" in str(caught.value)


def test_arrays_of_a_capture_and_outside_of_one():
    table = np.zeros(3)
    with overridden(target="interpret"):
        result = graph.module("f")(lambda v: op.at(table)[1].set(v) + 0.0)(np.array(2.0))
        np.testing.assert_array_equal(np.asarray(result), [0, 2, 0])
        np.testing.assert_array_equal(np.asarray(graph.module("f")(lambda v: v.at[1:].get())(table)), [0, 0])
    with pytest.raises(CannotTrace, match="at updates a value of a graph, and none is being captured"):
        op.at(table)
