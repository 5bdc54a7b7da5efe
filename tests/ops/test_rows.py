"""`softmax`, `layernorm` and `rmsnorm` against NumPy in f64: any shape, short rows and long ones."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.library import error, normal
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.settings import overridden
from tessera.ops import layernorm, rmsnorm, softmax
from tessera.ops.rows import prepare_softmax
from tessera.performance import schedules

TARGETS = pytest.mark.parametrize("target", ["interpret", "cpu"])


def exact_softmax(x: np.ndarray) -> np.ndarray:
    wide = x.astype(np.float64)
    e = np.exp(wide - wide.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def exact_layernorm(x: np.ndarray, w: np.ndarray, b: np.ndarray, eps: float) -> np.ndarray:
    wide = x.astype(np.float64)
    return (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + eps) * w + b


def exact_rmsnorm(x: np.ndarray, w: np.ndarray, eps: float) -> np.ndarray:
    wide = x.astype(np.float64)
    return wide / np.sqrt((wide * wide).mean(-1, keepdims=True) + eps) * w


def check(shape: tuple[int, ...], scale: float, eps: float = 1e-5) -> None:
    x, w, b = normal(*shape) * scale + 1, normal(shape[-1]), normal(shape[-1]) + 1
    assert np.abs(softmax(x) - exact_softmax(x)).max() < 1e-6
    for got, want in (
        (layernorm(x, w, b, eps=eps), exact_layernorm(x, w, b, eps)), (rmsnorm(x, w, eps=eps), exact_rmsnorm(x, w, eps))
    ):  # fmt: skip
        assert np.abs(got - want).max() < 3e-6 * max(1.0, np.abs(want).max())


@given(st.lists(st.integers(1, 9), max_size=2), st.integers(1, 600), st.sampled_from([1.0, 20.0]))
@settings(max_examples=20)
def test_interpreted(outer: list[int], columns: int, scale: float):
    with overridden(target="interpret"):
        check((*outer, columns), scale, 1e-3)


@given(st.integers(1, 70))
@settings(max_examples=15)
def test_compiled(rows: int):
    check((rows, 77), 3.0)


@TARGETS
@pytest.mark.parametrize("columns", [schedules.ROW_LIMIT + 1, 2 * schedules.LONG_BLOCK + 1000])
def test_long_rows(target: str, columns: int):
    with overridden(target=target):
        check((3, columns), 4.0)


@TARGETS
def test_a_long_row_may_begin_with_nothing(target: str):
    """Whole blocks of minus infinity, which a mask makes, before the first number."""
    x = normal(2, 20000)
    x[0, :9000] = -np.inf
    with overridden(target=target):
        np.testing.assert_allclose(softmax(x), exact_softmax(x), atol=1e-7)


@TARGETS
def test_large_numbers_keep_their_differences(target: str):
    x = (1000 + normal(4, 50)).astype(np.float32)
    with overridden(target=target):
        assert error(softmax(x), exact_softmax(x)) < 1e-6


def test_sixteen_bits_and_views():
    x = normal(6, 8, 40, dtype=ml_dtypes.bfloat16)[:, ::2]
    got = softmax(x)
    assert got.dtype == x.dtype
    assert error(got, exact_softmax(x)) < 4e-3
    out = np.zeros((6, 4, 40), np.float32)
    assert softmax(x, out) is out
    assert error(out, exact_softmax(x)) < 1e-6


def test_short_rows_share_a_group():
    assert prepare_softmax(normal(9, 100)).launches[0].kernel.options.constants["ROWS"] == 32
    assert prepare_softmax(normal(9, 5000)).launches[0].kernel.options.constants["ROWS"] == 1


def test_operands_that_do_not_fit():
    with pytest.raises(OperandMismatch, match="weight is 4, and rows have 5 elements"):
        rmsnorm(normal(3, 5), normal(4))
    with pytest.raises(OperandMismatch, match="x is empty"):
        softmax(normal(3, 0))
    with pytest.raises(OperandMismatch, match="x holds i64"):
        softmax(np.arange(4))
    with pytest.raises(OperandMismatch, match="out has gaps"):
        softmax(normal(2, 3, 4), np.zeros((2, 3, 8), np.float32)[..., ::2])
