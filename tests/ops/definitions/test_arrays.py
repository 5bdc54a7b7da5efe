"""Operators that make, move, join, pick and reduce elements, against NumPy."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportCallIssue=false, reportUnknownMemberType=false, reportUnknownVariableType=false

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from support.operators import FLOATS, INTEGERS, TARGETS, TOLERANCE, close, drawn, everywhere
from tessera import graph, op
from tessera.core.errors.catalog import CannotTrace, OperandMismatch
from tessera.core.settings import overridden

KINDS = FLOATS | INTEGERS
AXES = [None, 0, 1, -1, (0, 2), (-1, 0), (0, 1, 2)]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("name", ["sum", "max", "min", "mean", "var"])
def test_reductions_along_axes(name: str, axis: int | tuple[int, ...] | None, keepdims: bool):
    x = drawn((4, 5, 6), np.float32)
    want = getattr(np, name)(x.astype(np.float64), axis=axis, keepdims=keepdims)
    close(everywhere(lambda x: getattr(op, name)(x, axis, keepdims=keepdims), x), want, 2e-6)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["sum", "max", "min", "mean", "var"])
def test_reductions_of_floats_are_rounded_once(name: str, dtype: str):
    x = drawn((3, 300), FLOATS[dtype], low=0, high=1)
    got = everywhere(lambda x: getattr(op, name)(x, 1), x)
    assert got.dtype == x.dtype
    close(got, getattr(np, name)(x.astype(np.float64), axis=1), TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", ["sum", "max", "min"])
def test_reductions_of_integers(name: str, dtype: str):
    x = drawn((3, 7), INTEGERS[dtype], low=0, high=9)
    got = everywhere(lambda x: getattr(op, name)(x, 0), x)
    want = getattr(np, name)(x, axis=0)
    assert got.dtype == want.dtype  # sums of 64 bits
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", ["mean", "var"])
def test_means_of_integers_are_f32(name: str):
    x = drawn((3, 7), np.int32, low=-9, high=9)
    got = everywhere(lambda x: getattr(op, name)(x, 0), x)
    assert got.dtype == np.float32
    close(got, getattr(np, name)(x, axis=0), 2e-6)


def test_sums_of_truth_values_count():
    x = drawn((3, 7), np.float32) > 0
    got = everywhere(lambda x: op.sum(x, 1), x)
    assert got.dtype == np.int64
    np.testing.assert_array_equal(got, x.sum(1))


@settings(max_examples=8)
@given(
    data=st.data(), name=st.sampled_from(["sum", "max", "min", "mean", "var"]), dtype=st.sampled_from(sorted(FLOATS))
)
def test_reductions_of_any_shape(data: st.DataObject, name: str, dtype: str):
    shape = data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=4).map(tuple))
    axes = tuple(data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1)))
    x = drawn(shape, FLOATS[dtype], low=0, high=1)
    want = getattr(np, name)(x.astype(np.float64), axis=axes)
    close(everywhere(lambda x: getattr(op, name)(x, axes), x), want, TOLERANCE[dtype])


@pytest.mark.parametrize("name", ["max", "min", "argmax"])
def test_nan_wins(name: str):
    x = drawn((4, 9), np.float32)
    x[1, 3] = x[3, 8] = x[3, 2] = np.nan
    np.testing.assert_array_equal(everywhere(lambda x: getattr(op, name)(x, 1), x), getattr(np, name)(x, axis=1))


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_argmax_is_the_first_of_equal_ones(dtype: str, axis: int):
    x = drawn((6, 11), KINDS[dtype], low=0, high=3)
    got = everywhere(lambda x: op.argmax(x, axis), x)
    assert got.dtype == np.int64
    np.testing.assert_array_equal(got, np.argmax(x.astype(np.float64), axis))


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("shape", [(6, 20), (-1, 4), (120,), (2, -1, 1, 5)])
def test_reshape(dtype: str, shape: tuple[int, ...]):
    x = drawn((4, 5, 6), KINDS[dtype], low=0, high=9)
    np.testing.assert_array_equal(everywhere(lambda x: op.reshape(x, shape), x), x.reshape(shape))


@pytest.mark.parametrize("axes", [None, (0, 2, 1), (2, 0, 1), (-1, 0, 1)])
def test_transpose(axes: tuple[int, ...] | None):
    x = drawn((4, 5, 6), np.float32)
    np.testing.assert_array_equal(everywhere(lambda x: op.transpose(x, axes), x), x.transpose(axes))


@settings(max_examples=8)
@given(data=st.data(), dtype=st.sampled_from(sorted(KINDS)))
def test_moves_of_any_shape(data: st.DataObject, dtype: str):
    shape = data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=4).map(tuple))
    axes = data.draw(st.permutations(range(len(shape))))
    x = drawn(shape, KINDS[dtype], low=0, high=9)
    np.testing.assert_array_equal(
        everywhere(lambda x: op.reshape(op.transpose(x, axes), (x.size,)), x), x.transpose(axes).reshape(-1)
    )


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_concat_and_stack(dtype: str, axis: int):
    a, b = drawn((3, 4), KINDS[dtype], 1, 0, 9), drawn((3, 4), KINDS[dtype], 2, 0, 9)
    np.testing.assert_array_equal(
        everywhere(lambda a, b: op.concat([a, b, a], axis), a, b), np.concatenate([a, b, a], axis)
    )
    np.testing.assert_array_equal(everywhere(lambda a, b: op.stack((a, b), axis), a, b), np.stack([a, b], axis))


def test_concat_of_other_extents():
    a, b = drawn((3, 4), np.float32), drawn((2, 4), np.float32)
    np.testing.assert_array_equal(everywhere(lambda a, b: op.concat([a, b], 0), a, b), np.concatenate([a, b]))


@pytest.mark.parametrize(("parts", "axis"), [(2, -1), (3, 0), (1, 1)])
def test_split(parts: int, axis: int):
    x = drawn((6, 8), np.float32)
    for number, want in enumerate(np.split(x, parts, axis)):
        np.testing.assert_array_equal(everywhere(lambda x, number=number: op.split(x, parts, axis)[number], x), want)


@pytest.mark.parametrize("dtype", KINDS)
def test_pad(dtype: str):
    x = drawn((3, 4), KINDS[dtype], low=1, high=9)
    np.testing.assert_array_equal(everywhere(lambda x: op.pad(x, ((1, 2), (0, 3))), x), np.pad(x, ((1, 2), (0, 3))))


@pytest.mark.parametrize("index", ["i32", "i64"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather(axis: int, index: str):
    x, picked = drawn((5, 6), np.float32), drawn((2, 3), KINDS[index], low=0, high=5)
    np.testing.assert_array_equal(everywhere(lambda x, i: op.gather(x, i, axis), x, picked), np.take(x, picked, axis))


def test_gather_outside_gives_zeros_and_negative_indices_count_from_the_end():
    x, picked = drawn((5,), np.float32, low=1), np.array([-1, 0, 4, 5, 1 << 40, -5, -6])
    want = np.array([x[4], x[0], x[4], 0, 0, x[0], 0], np.float32)
    np.testing.assert_array_equal(everywhere(op.gather, x, picked), want)
    np.testing.assert_array_equal(graph.module(lambda x, i: x[i])(x, picked), want)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int16, np.int64])
def test_indices_of_any_integers(dtype: type[np.integer]):
    """Axes longer than a dtype of indices reaches, too."""
    x = drawn((300, 2), np.float32)
    picked = np.array([0, 5, 127, *([-1, -128] if np.iinfo(dtype).min else [255])], dtype)
    np.testing.assert_array_equal(everywhere(op.gather, x, picked), x[picked])


@pytest.mark.parametrize("dtype", ["f32", "f16", "i32"])
def test_one_hot(dtype: str):
    index = np.array([[0, 3], [2, 7]])
    want = (index[..., None] == np.arange(4)).astype(KINDS[dtype])
    got = everywhere(lambda i: op.one_hot(i, 4, dtype), index)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("target", TARGETS)
def test_values_made_in_a_graph(target: str):
    @graph.module
    def made() -> tuple[Any, Any]:
        return op.arange(5) * 2, op.full((2, 3), 1.5)

    with overridden(target=target):
        even, filled = made()
    np.testing.assert_array_equal(even, np.arange(5) * 2)
    np.testing.assert_array_equal(filled, np.full((2, 3), 1.5, np.float32))


@pytest.mark.parametrize(
    ("call", "remedy"), [(lambda: op.arange(3), "numpy.arange"), (lambda: op.full((3,), 1), "numpy.full")]
)
def test_values_are_made_only_in_a_graph(call: Callable[[], object], remedy: str):
    with pytest.raises(CannotTrace, match="none is being captured") as raised:
        call()
    assert f"try: use {remedy} here" in str(raised.value)
    assert "^^^^" in str(raised.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: op.sum(x, 2), "an array of 2 axes has no axis 2"),
        (lambda x: op.mean(x, (0, -2)), "names an axis twice"),
        (lambda x: op.argmax(x, 2), "an array of 2 axes has no axis 2"),
        (lambda x: op.argmax(x[:, :0]), "the greatest of no elements has no place"),
        (lambda x: op.reshape(x, (5, -1)), r"12 elements of \(3, 4\) do not fill"),
        (lambda x: op.transpose(x, (0, 0)), "is no order of the axes"),
        (lambda x: op.concat([x, x.T.copy()]), "do not join along 0"),
        (lambda x: op.concat([x, x.astype(np.float64)]), "do not join along 0"),
        (lambda x: op.concat([x, x], 2), "an array of 2 axes has no axis 2"),
        (lambda _: op.concat([]), "nothing to join"),
        (lambda _: op.stack([]), "nothing to join"),
        (lambda x: op.stack([x, x.T.copy()]), "do not join along 0"),
        (lambda x: op.split(x, 3), "4 elements do not make 3 equal parts"),
        (lambda x: op.split(x, 0), "4 elements do not make 0 equal parts"),
        (lambda x: op.split(x, 2, 5), "an array of 2 axes has no axis 5"),
        (lambda x: op.pad(x, [(1, 1)]), "1 pairs of widths for 2 axes"),
        (lambda x: op.gather(x, x), "indices are integers"),
        (lambda x: op.gather(x, np.zeros(2, np.int64), 2), "an array of 2 axes has no axis 2"),
        (lambda x: op.one_hot(x, 4), "indices are integers"),
        (lambda x: op.one_hot(np.zeros(2, np.int64), 4, "f17"), "there is no dtype 'f17'"),
    ],
)
def test_bad_operands(call: Callable[[NDArray[Any]], object], message: str):
    with pytest.raises(OperandMismatch, match=message) as raised:
        call(drawn((3, 4), np.float32))
    assert "test_arrays.py, line" in str(raised.value)
    assert "^^^^" in str(raised.value)
