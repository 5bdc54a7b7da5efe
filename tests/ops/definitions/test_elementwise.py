"""Operators that work element by element, against NumPy in f64."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportCallIssue=false

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from support.operators import FLOATS, INTEGERS, TARGETS, TOLERANCE, Array, close, drawn, everywhere
from tessera import graph, op
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.settings import overridden

Reference = Callable[[NDArray[Any]], NDArray[Any]]
ERF = np.vectorize(math.erf, otypes=[np.float64])
UNARY: dict[str, tuple[Reference, float, float]] = {
    "exp": (np.exp, -4, 4),
    "exp2": (np.exp2, -4, 4),
    "log": (np.log, 0.1, 9),
    "log2": (np.log2, 0.1, 9),
    "sqrt": (np.sqrt, 0, 9),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 0.1, 9),
    "sin": (np.sin, -6, 6),
    "cos": (np.cos, -6, 6),
    "tanh": (np.tanh, -3, 3),
    "erf": (ERF, -3, 3),
    "abs": (np.abs, -3, 3),
    "square": (np.square, -3, 3),
}
SHAPES = st.lists(st.integers(1, 9), min_size=1, max_size=3).map(tuple)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_float(name: str, dtype: str):
    reference, low, high = UNARY[name]
    x = drawn((3, 17), FLOATS[dtype], low=low, high=high)
    got = everywhere(getattr(op, name), x)
    assert got.dtype == x.dtype
    close(got, reference(x.astype(np.float64)), TOLERANCE[dtype])


@settings(max_examples=15)
@given(
    name=st.sampled_from(sorted(UNARY)), dtype=st.sampled_from(sorted(FLOATS)), shape=SHAPES, seed=st.integers(0, 99)
)
def test_functions_of_one_float_of_any_shape(name: str, dtype: str, shape: tuple[int, ...], seed: int):
    reference, low, high = UNARY[name]
    x = drawn(shape, FLOATS[dtype], seed, low, high)
    close(everywhere(getattr(op, name), x), reference(x.astype(np.float64)), TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", ["abs", "square"])
def test_integers_stay_integers(name: str, dtype: str):
    x = drawn((5, 3), INTEGERS[dtype], low=0 if dtype == "u8" else -9, high=9)
    got = everywhere(getattr(op, name), x)
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(got, UNARY[name][0](x))


@pytest.mark.parametrize("name", ["exp", "log", "sqrt", "rsqrt", "sin", "tanh", "erf"])
def test_integers_give_f32_where_the_function_needs_floats(name: str):
    x = np.arange(1, 7, dtype=np.int32)
    got = everywhere(getattr(op, name), x)
    assert got.dtype == np.float32
    close(got, UNARY[name][0](x.astype(np.float64)), TOLERANCE["f32"])


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS])
def test_greater_and_lesser_of_two(dtype: str):
    kind = (FLOATS | INTEGERS)[dtype]
    a, b = drawn((4, 1, 3), kind, 1, 0, 9), drawn((5, 3), kind, 2, 0, 9)
    np.testing.assert_array_equal(everywhere(op.maximum, a, b), np.maximum(a, b))
    np.testing.assert_array_equal(everywhere(op.minimum, a, b), np.minimum(a, b))


def test_nan_wins():
    a, b = np.array([1.0, math.nan, 2.0], np.float32), np.array([math.nan, 1.0, 3.0], np.float32)
    np.testing.assert_array_equal(everywhere(op.maximum, a, b), np.maximum(a, b))
    np.testing.assert_array_equal(everywhere(op.minimum, a, b), np.minimum(a, b))


@pytest.mark.parametrize("dtype", [*FLOATS, "i32"])
def test_where_broadcasts_and_takes_numbers(dtype: str):
    kind = (FLOATS | INTEGERS)[dtype]
    test, a, b = drawn((4, 1), np.float32) > 0, drawn((4, 5), kind, 1, 0, 9), drawn((5,), kind, 2, 0, 9)
    np.testing.assert_array_equal(everywhere(op.where, test, a, b), np.where(test, a, b))
    np.testing.assert_array_equal(
        everywhere(lambda t, x: op.where(t, x, 1), test, a), np.where(test, a, a.dtype.type(1))
    )


@pytest.mark.parametrize("to", ["f64", "f32", "f16", "bf16", "i32", "i64", "bool"])
@pytest.mark.parametrize("dtype", [*FLOATS, "i32"])
def test_cast(dtype: str, to: str):
    x = drawn((3, 9), (FLOATS | INTEGERS)[dtype], low=-9, high=9)
    kinds = FLOATS | INTEGERS | {"bool": np.bool_}
    np.testing.assert_array_equal(everywhere(lambda x: op.cast(x, to), x), x.astype(kinds[to]))


@pytest.mark.parametrize("dtype", [*FLOATS, "i32"])
def test_clip_to_numbers_and_to_arrays(dtype: str):
    kind = (FLOATS | INTEGERS)[dtype]
    x, low = drawn((4, 5), kind, 1, -9, 9), drawn((5,), kind, 2, -3, 0)
    np.testing.assert_array_equal(everywhere(lambda x: op.clip(x, -2, 3), x), np.clip(x, kind(-2), kind(3)))
    np.testing.assert_array_equal(
        everywhere(lambda x, low: op.clip(x, low, 3), x, low), np.minimum(np.maximum(x, low), kind(3))
    )


@pytest.mark.parametrize("shape", [(0,), (3, 0), (1,), ()])
def test_empty_arrays_and_arrays_without_axes(shape: tuple[int, ...]):
    x = drawn(shape, np.float32)
    close(everywhere(op.exp, x), np.exp(x.astype(np.float64)), 2e-6)


def test_arrays_that_are_views():
    x = drawn((6, 8), np.float32)
    np.testing.assert_array_equal(everywhere(op.abs, x.T[::2, ::-1]), np.abs(x.T[::2, ::-1]))


@pytest.mark.parametrize("target", TARGETS)
def test_shapes_that_do_not_broadcast(target: str):
    x, y = drawn((3, 4), np.float32), drawn((3,), np.float32)

    @graph.module
    def inside(x: Array, y: Array) -> Array:
        return op.maximum(x, y)

    with overridden(target=target):
        for call in (lambda: op.maximum(x, y), lambda: inside(x, y)):
            with pytest.raises(OperandMismatch, match="do not broadcast together") as raised:
                call()
            text = str(raised.value)
            assert "op.maximum(x, y)" in text
            assert "^^^^^^^^^^^^^^^^" in text
            assert "try: insert axes with x[:, None]" in text


@pytest.mark.parametrize(
    ("call", "message", "remedy"),
    [
        (lambda x: op.cast(x, "f17"), "no array is stored in 'f17'", "choose from"),
        (lambda _: op.exp("text"), "'text' is no array", "pass an array"),
    ],
)
def test_bad_operands(call: Callable[[NDArray[Any]], object], message: str, remedy: str):
    with pytest.raises(OperandMismatch, match=rf"^[^\n]*(?:{message})") as raised:
        call(drawn((3, 4), np.float32))
    text = str(raised.value)
    assert "test_elementwise.py, line" in text
    assert "^^^^" in text
    assert remedy in text


EDGES = np.array([
    0.5, 1.5, 2.5, -0.5, -1.5, 0.49999997, -0.49999997, 8388609.0, -8388607.5, 4194304.5, 0.0, -0.0, 0.2, -0.2, 1e30,
    np.inf, -np.inf, np.nan, 1e-45, -1e-45,
], np.float32)  # fmt: skip


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize(
    ("name", "exact"),
    [("round", np.rint), ("floor", np.floor), ("ceil", np.ceil), ("trunc", np.trunc), ("sign", np.sign)],
)
def test_whole_numbers_have_numpys_bits(name: str, exact: Callable[[Array], Array], dtype: str):
    with np.errstate(all="ignore"):
        x = EDGES.astype(FLOATS[dtype])
        right = exact(x.astype(np.float64)).astype(FLOATS[dtype])
    got = np.asarray(everywhere(getattr(op, name), x))
    wide, exactly = got.astype(np.float64), right.astype(np.float64)
    np.testing.assert_array_equal(wide, exactly)
    number = ~np.isnan(exactly)
    np.testing.assert_array_equal(np.signbit(wide)[number], np.signbit(exactly)[number])


@pytest.mark.parametrize("name", ["round", "floor", "ceil", "trunc", "sign"])
def test_whole_numbers_of_integers_stay(name: str):
    x = np.array([-3, 0, 7], np.int32)
    got = np.asarray(getattr(op, name)(x))
    assert got.dtype == x.dtype
    np.testing.assert_array_equal(got, np.sign(x) if name == "sign" else x)
