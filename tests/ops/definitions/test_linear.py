"""Contractions against NumPy in f64."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportArgumentType=false, reportUnknownMemberType=false

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from support.operators import FLOATS, TARGETS, TOLERANCE, Array, close, drawn, everywhere
from tessera import fp8_e4m3, graph, op, scale
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.settings import overridden


def wide(*arrays: NDArray[Any]) -> list[NDArray[Any]]:
    return [each.astype(np.float64) for each in arrays]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(
    ("a", "b"), [((5, 7), (7, 3)), ((7,), (7, 3)), ((5, 7), (7,)), ((7,), (7,)), ((2, 5, 7), (7, 3)),
                 ((2, 1, 5, 7), (3, 7, 4)), ((65, 130), (130, 70))],
)  # fmt: skip
def test_matmul(a: tuple[int, ...], b: tuple[int, ...], dtype: str):
    x, y = drawn(a, FLOATS[dtype], 1), drawn(b, FLOATS[dtype], 2)
    got = everywhere(op.matmul, x, y)
    assert got.dtype == x.dtype
    close(got, np.matmul(*wide(x, y)), TOLERANCE[dtype])


@settings(max_examples=10)
@given(
    m=st.integers(0, 40), n=st.integers(0, 40), k=st.integers(0, 70), batch=st.lists(st.integers(1, 3), max_size=2).map(tuple),
    dtype=st.sampled_from(sorted(FLOATS)),
)  # fmt: skip
def test_matmul_of_any_extents(m: int, n: int, k: int, batch: tuple[int, ...], dtype: str):
    x, y = drawn((*batch, m, k), FLOATS[dtype], 1), drawn((k, n), FLOATS[dtype], 2)
    close(everywhere(op.matmul, x, y), np.matmul(*wide(x, y)), TOLERANCE[dtype])


def test_matmul_of_two_dtypes():
    x, y = drawn((5, 7), np.float16, 1), drawn((7, 3), np.float32, 2)
    got = everywhere(op.matmul, x, y)
    assert got.dtype == np.float32
    close(got, np.matmul(*wide(x, y)), 2e-6)


def test_matmul_of_integers():
    x, y = drawn((5, 7), np.int32, 1, -9, 9), drawn((7, 3), np.int32, 2, -9, 9)
    np.testing.assert_array_equal(everywhere(op.matmul, x, y), x @ y)


def test_matmul_options():
    x, y = drawn((64, 96), np.float32, 1), drawn((96, 64), np.float32, 2)
    want = np.matmul(*wide(x, y))
    close(everywhere(lambda x, y: op.matmul(x, y, tile_shape=(32, 32, 16)), x, y), want, 2e-6)
    close(everywhere(lambda x, y: op.matmul(x, y, exact=True), x, y), want, 2e-6)
    close(everywhere(lambda x, y: op.matmul(x, y, compute="tf32"), x, y), want, 2e-3)


@pytest.mark.parametrize("dtype", FLOATS)
def test_gemm_with_a_bias(dtype: str):
    x, y, bias = drawn((2, 5, 7), FLOATS[dtype], 1), drawn((7, 3), FLOATS[dtype], 2), drawn((3,), FLOATS[dtype], 3)
    product = np.matmul(*wide(x, y))
    close(everywhere(op.gemm, x, y), product, TOLERANCE[dtype])
    close(everywhere(op.gemm, x, y, bias), product + bias.astype(np.float64), 2 * TOLERANCE[dtype])


@pytest.mark.parametrize("batch", [(), (2,)])
def test_gemm_joins_the_heads_of_attention(batch: tuple[int, ...]):
    y, weight = drawn((*batch, 4, 6, 8), np.float32, 1), drawn((32, 5), np.float32, 2)
    joined = np.moveaxis(y, -3, -2).reshape(*batch, 6, 32)
    close(everywhere(op.gemm, y, weight), np.matmul(*wide(joined, weight)), 2e-6)


@settings(max_examples=15)
@given(
    batch=st.lists(st.integers(0, 3), max_size=3).map(tuple), inner=st.integers(0, 9), columns=st.integers(0, 5),
    dtype=st.sampled_from(sorted(FLOATS)), shifted=st.booleans(), flat=st.booleans(),
)  # fmt: skip
def test_linear_layers_of_any_shape(
    batch: tuple[int, ...], inner: int, columns: int, dtype: str, shifted: bool, flat: bool
):
    outer = () if flat else (columns,)
    x, w = drawn((*batch, inner), FLOATS[dtype], 1), drawn((*outer, inner), FLOATS[dtype], 2)
    bias = drawn(outer, FLOATS[dtype], 3) if shifted else None
    rows, columns_of = wide(x, w)
    want = rows @ columns_of.T + (0.0 if bias is None else bias.astype(np.float64))
    with overridden(target="interpret"):
        got = np.asarray(op.linear(x, w, bias))
    assert got.dtype == x.dtype
    close(got, want, 2 * TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_linear_layers_round_once(dtype: str):
    x, w = drawn((2, 5, 70), FLOATS[dtype], 1), drawn((30, 70), FLOATS[dtype], 2)
    bias = drawn((30,), FLOATS[dtype], 3)
    got = everywhere(op.linear, x, w, bias).astype(np.float64)
    rows, columns, shift = wide(x, w, bias)
    want = rows @ columns.T + shift
    close(got, want, TOLERANCE[dtype])
    if dtype == "f16":  # half a unit in the last place, and what sums of f32 lose
        assert (np.abs(got - want) <= 2.0**-11 * np.abs(want) + 1e-5).all()


def test_linear_layers_of_integers_and_codes():
    x, w = drawn((5, 7), np.int32, 1, -9, 9), drawn((3, 7), np.int32, 2, -9, 9)
    np.testing.assert_array_equal(op.linear(x, w, np.arange(3, dtype=np.int32)), x @ w.T + np.arange(3))
    held = op.quantize(drawn((16, 32), np.float32, 2), fp8_e4m3 @ scale(block=(1, 0)))
    y, bias = drawn((8, 32), np.float32, 3), drawn((16,), np.float32, 4)
    np.testing.assert_array_equal(op.linear(y, held, bias), op.gemm(y, held.T, bias))
    np.testing.assert_array_equal(op.linear(y, held), op.gemm(y, held.T))


@pytest.mark.parametrize("target", TARGETS)
def test_extents_that_do_not_fit(target: str):
    x = drawn((3, 4), np.float32)

    @graph.module
    def inside(x: Array) -> Array:
        return op.matmul(x, x)

    with overridden(target=target):
        for call in (lambda: op.matmul(x, x), lambda: inside(x)):
            with pytest.raises(OperandMismatch, match="have no inner extent in common") as raised:
                call()
            text = str(raised.value)
            assert "op.matmul(x, x)" in text
            assert "^^^^^^^^^^^^^^^" in text
            assert "try: the last axis of a and the last but one of b must be equal" in text


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: op.matmul(x, "2.0"), "'2.0' is no array"),
        (lambda x: op.matmul(x, np.array(2.0)), "a number is no matrix"),
        (lambda x: op.matmul(x, x.T, compute="tf33"), "there is no compute type 'tf33'"),
        (lambda x: op.matmul(np.stack([x] * 2), np.stack([x.T] * 3)), "do not broadcast"),
        (lambda x: op.matmul(x, x.T, tile_shape=(16, 16)), "three extents"),
        (lambda x: op.matmul(x, x.T, tile_shape=(16, 16, -1)), "three extents"),
        (lambda x: op.gemm(x, x.T, x), "do not broadcast together"),
        (lambda x: op.linear(x, x.T), "x of (3, 4) and a weight of (4, 3) have no inner extent in common"),
        (lambda x: op.linear(x, x[None]), "x of (3, 4) and a weight of (1, 3, 4) have no inner extent"),
        (lambda x: op.linear(x[0, 0], x), "x of () and a weight of (3, 4) have no inner extent"),
        (lambda x: op.linear(x, x, x[0]), "a bias of (4,) for a weight of (3, 4)"),
        (lambda x: op.linear(x, x[0], x[0]), "a bias of (4,) for a weight of (4,)"),
    ],
)
def test_bad_operands(call: Callable[[NDArray[Any]], object], message: str):
    with pytest.raises(OperandMismatch) as raised:
        call(drawn((3, 4), np.float32))
    first, _, listing = str(raised.value).partition("\n")  # the listing shows the line of the call, and so the message
    assert message in first
    assert "test_linear.py, line" in listing
    assert "^^^^" in listing


@pytest.mark.parametrize("target", TARGETS)
def test_products_of_bools_say_whether_any_holds(target: str):
    a, b = np.array([[True, True, False], [False, False, True]]), np.array([[True], [True], [False]])
    with overridden(target=target):
        assert np.asarray(op.matmul(a, b)).tolist() == [[True], [False]]


@pytest.mark.parametrize("dtype", ["float16", "float64", "int32", "bool"])
def test_a_compute_type_is_of_its_own_operands(dtype: str):
    x = np.ones((2, 2), dtype)
    with pytest.raises(OperandMismatch, match="compute=tf32 rounds factors of f32"):
        op.matmul(x, x, compute="tf32")
