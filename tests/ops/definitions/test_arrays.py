"""Operators that make, move, join and pick elements, against NumPy."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportCallIssue=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportArgumentType=false

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import tessera
from support.operators import FLOATS, INTEGERS, TARGETS, drawn, everywhere
from tessera import graph, op
from tessera.core.errors.catalog import CannotTrace, OperandMismatch
from tessera.core.settings import overridden

KINDS = FLOATS | INTEGERS


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


@settings(max_examples=30, deadline=None)
@given(data=st.data(), dtype=st.sampled_from(sorted(KINDS)))
def test_splits_by_sizes(data: st.DataObject, dtype: str):
    sizes = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=5))
    rank = data.draw(st.integers(1, 3))
    axis = data.draw(st.integers(-rank, rank - 1))
    shape = [3] * rank
    shape[axis] = sum(sizes)
    x = drawn(shape, KINDS[dtype], low=0, high=9)
    with overridden(target="interpret"):
        pieces = op.split(x, sizes, axis)
    assert len(pieces) == len(sizes)
    for piece, want in zip(pieces, np.split(x, np.cumsum(sizes)[:-1], axis), strict=True):
        np.testing.assert_array_equal(piece, want)


def test_lists_that_are_positions_for_numpy():
    with pytest.raises(OperandMismatch, match=r"sizes .* add up to 9") as caught:
        op.split(np.ones(10), [2, 7])
    assert "[2, 5, 3] cuts at [2, 7]" in str(caught.value)


@pytest.mark.parametrize("dtype", KINDS)
def test_pad(dtype: str):
    x = drawn((3, 4), KINDS[dtype], low=1, high=9)
    np.testing.assert_array_equal(everywhere(lambda x: op.pad(x, ((1, 2), (0, 3))), x), np.pad(x, ((1, 2), (0, 3))))
    want = np.pad(x, ((1, 2), (0, 3)), constant_values=7)
    np.testing.assert_array_equal(everywhere(lambda x: op.pad(x, ((1, 2), (0, 3)), 7), x), want)


def _padded(x: NDArray[Any], widths: Sequence[tuple[int, int]], value: float) -> NDArray[Any]:
    want = np.pad(x, [(max(a, 0), max(b, 0)) for a, b in widths], constant_values=value)
    return want[tuple(slice(max(-a, 0), size - max(-b, 0)) for (a, b), size in zip(widths, want.shape, strict=True))]


@settings(max_examples=40, deadline=None)
@given(data=st.data(), dtype=st.sampled_from([*sorted(KINDS), "bool"]))
def test_pads_of_any_widths_and_values(data: st.DataObject, dtype: str):
    element = bool if dtype == "bool" else KINDS[dtype]
    shape = data.draw(st.lists(st.integers(0, 4), min_size=1, max_size=3))
    width = st.integers(-2, 3)
    widths = [data.draw(st.tuples(width, width).filter(lambda pair, n=n: n + min(pair) + min(sum(pair), 0) >= 0))
              for n in shape]  # fmt: skip
    if dtype == "bool":
        value: float = data.draw(st.booleans())
    elif dtype in FLOATS:
        value = data.draw(st.sampled_from([0.0, -0.0, 1.5, -2.0, np.inf, -np.inf, np.nan, 3]))
    else:
        value = data.draw(st.sampled_from([0, 1, 255 if dtype == "u8" else -128]))
    x = drawn(shape, element, low=-2, high=9)
    with overridden(target="interpret"):
        got = np.asarray(op.pad(x, widths, value))
    want = _padded(x, widths, value)
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got.astype(np.float64), want.astype(np.float64))
    if dtype in FLOATS:
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


def test_widths_of_all_sides_and_of_one_axis():
    x = drawn((3, 4), np.float32)
    with overridden(target="interpret"):
        np.testing.assert_array_equal(op.pad(x, 2, -np.inf), np.pad(x, 2, constant_values=-np.inf))
        np.testing.assert_array_equal(op.pad(x, -1), x[1:-1, 1:-1])
        np.testing.assert_array_equal(op.pad(x[0], (1, 2), np.float32(2)), np.pad(x[0], (1, 2), constant_values=2))
        slope: Any = tessera.grad(lambda v: op.sum(op.pad(v, ((1, -1), (0, 2)), np.inf)[1:, :4]))
        np.testing.assert_array_equal(slope(x), np.array([[1], [1], [0]], np.float32) * np.ones(4, np.float32))


@pytest.mark.parametrize("index", ["i32", "i64"])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather(axis: int, index: str):
    x, picked = drawn((5, 6), np.float32), drawn((2, 3), KINDS[index], low=0, high=5)
    np.testing.assert_array_equal(everywhere(lambda x, i: op.gather(x, i, axis), x, picked), np.take(x, picked, axis))


def test_computed_indices_outside_give_zeros_and_negative_ones_count_from_the_end():
    x, picked = drawn((5,), np.float32, low=1), np.array([-1, 0, 4, 5, 1 << 40, -5, -6])
    want = np.array([x[4], x[0], x[4], 0, 0, x[0], 0], np.float32)
    gathered = graph.module(lambda x, i: op.gather(x, i + 0))
    np.testing.assert_array_equal(everywhere(gathered, x, picked), want)
    np.testing.assert_array_equal(graph.module(lambda x, i: x[i + 0])(x, picked), want)


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
        (lambda x: op.split(x, [1, 2]), r"sizes \[1, 2\] add up to 3, and axis 1 has 4"),
        (lambda x: op.split(x, [5, -1]), r"sizes \[5, -1\] add up to 4"),
        (lambda x: op.split(x, []), r"sizes \[\] add up to 0"),
        (lambda x: op.pad(x, [(1, 1)]), "1 pairs of widths for 2 axes"),
        (lambda x: op.pad(x, (1, 2)), "1 is no pair of widths"),
        (lambda x: op.pad(x, [(1, 1, 1), (0, 0)]), "is no pair of widths"),
        (lambda x: op.pad(x, 1, "x"), "'x' is no number"),
        (lambda x: op.pad(x, 1, 1e39), "1e\\+39 is no f32"),
        (lambda x: op.pad(x.astype(np.int8), 1, 128), "128 is no i8"),
        (lambda x: op.pad(x.astype(np.int8), 1, 0.5), "0.5 is no i8"),
        (lambda x: op.pad(x > 0, 1, 2), "2 is no bool"),
        (lambda x: op.gather(x, np.zeros(2, np.int64), None), "axis=None is not one axis"),
        (lambda x: op.gather(x, x), "indices are integers"),
        (lambda x: op.gather(x, np.zeros(2, np.int64), 2), "an array of 2 axes has no axis 2"),
        (lambda x: op.one_hot(x, 4), "indices are integers"),
        (lambda x: op.one_hot(np.zeros(2, np.int64), 4, "f17"), "there is no dtype 'f17'"),
    ],
)
def test_bad_operands(call: Callable[[NDArray[Any]], object], message: str):
    with pytest.raises(OperandMismatch, match=rf"^[^\n]*(?:{message})") as raised:
        call(drawn((3, 4), np.float32))
    assert "test_arrays.py, line" in str(raised.value)
    assert "^^^^" in str(raised.value)
