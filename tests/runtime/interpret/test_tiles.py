"""Tile operations against their definitions, exactly."""

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessera.core.base.dtypes import DType, bf16, f16, f32, f64, i8, i32
from tessera.core.base.reductions import tree_sum
from tessera.runtime.interpret.rounding import fma, to_tf32
from tessera.runtime.interpret.tiles import dot, reduce, softmax


def random(*shape: int, dtype: DType = f32) -> np.ndarray:
    values = np.random.default_rng(7).normal(size=shape)
    return values.astype(np.float32).astype(dtype.numpy)


@pytest.mark.parametrize(("operand", "working"), [(f32, f32), (f64, f64), (f16, f32), (bf16, f32)], ids=str)
def test_dot_is_a_chain_of_fused_steps_in_k_order(operand: DType, working: DType) -> None:
    a, b, acc = random(3, 7, dtype=operand), random(7, 5, dtype=operand), random(3, 5, dtype=working)
    result = dot(a, b, acc, operand=operand, result=working)
    for m in range(3):
        for n in range(5):
            total = acc[m, n]
            for k in range(7):
                pair = (a[m, k].astype(working.numpy), b[k, n].astype(working.numpy))
                total = fma(pair[0], pair[1], total, working)
            assert result[m, n] == total
    assert result.dtype == working.numpy


def test_factors_are_rounded_to_tf32_first() -> None:
    a, b = random(3, 7), random(7, 5)
    rounded = dot(to_tf32(a), to_tf32(b), operand=f32, result=f32)
    np.testing.assert_array_equal(dot(a, b, operand=f32, result=f32, compute="tf32"), rounded)
    assert np.any(rounded != dot(a, b, operand=f32, result=f32))


def test_dot_fuses() -> None:
    # The product 1 + 2^-11 + 2^-24 loses its last bit unless the step is fused.
    a = np.array([[1.0, 1 + 2.0**-12]], np.float32)
    b = np.array([[-1.0], [1 + 2.0**-12]], np.float32)
    assert float(dot(a, b, None, operand=f32, result=f32)[0, 0]) == 2.0**-11 + 2.0**-24


def test_dot_of_bf16_far_out_of_range_of_f32() -> None:
    def one(a: float, b: float, acc: float) -> float:
        sides = np.array([[a]], ml_dtypes.bfloat16), np.array([[b]], ml_dtypes.bfloat16)
        with np.errstate(all="ignore"):
            return float(dot(*sides, np.array([[acc]], np.float32), operand=bf16, result=f32)[0, 0])

    assert one(2.0**100, 2.0**100, 1.0) == np.inf
    # The product alone would be infinite.
    assert one(2.0**64, 2.0**64, -(2.0**127)) == 2.0**127
    # The product alone, half the least f32, would round to 0; the sum is a tie that goes to the even neighbour.
    assert one(2.0**-75, 2.0**-75, 5 * 2.0**-149) == 6 * 2.0**-149


def test_dot_rounds_to_the_result_type_once_and_integers_wrap() -> None:
    a, b = random(4, 9, dtype=f16), random(9, 4, dtype=f16)
    assert np.array_equal(
        dot(a, b, None, operand=f16, result=f16), dot(a, b, None, operand=f16, result=f32).astype(np.float16)
    )
    x, y = np.full((2, 3), 100, np.int8), np.full((3, 2), 100, np.int8)
    assert dot(x, y, None, operand=i8, result=i32).tolist() == [[30000, 30000]] * 2
    assert dot(x, y, np.full((2, 2), 1, np.int32), operand=i8, result=i32).tolist() == [[30001, 30001]] * 2
    assert dot(x, y, None, operand=i8, result=i8).tolist() == [[48, 48]] * 2


def test_reduce_sums_with_the_fixed_association() -> None:
    x = random(5, 300)
    assert np.array_equal(reduce(x, "sum", 1, f32), tree_sum(x, 1))
    assert np.array_equal(reduce(x, "sum", None, f32), tree_sum(x.ravel(), 0))
    short = random(300, dtype=bf16)
    assert reduce(short, "sum", 0, bf16) == tree_sum(short.astype(np.float32), 0).astype(ml_dtypes.bfloat16)
    assert reduce(np.array([100, 100], np.int8), "sum", None, i8) == -56


@pytest.mark.parametrize("kind", ["max", "min"])
def test_reduce_extremes(kind: str) -> None:
    x = random(4, 6, dtype=f16)
    expected = getattr(x, kind)(axis=0)
    assert np.array_equal(reduce(x, kind, 0, f16), expected)
    assert np.array_equal(reduce(x, kind, -2, f16), expected)
    x[1, 2] = np.nan
    assert np.isnan(reduce(x, kind, None, f16))
    assert reduce(np.array([3, -4, 2], np.int32), kind, None, i32) == (3 if kind == "max" else -4)
    assert bool(reduce(np.array([True, False]), kind, None, DType("bool", "bool", 1, np.dtype(np.bool_)))) is (
        kind == "max"
    )


@pytest.mark.parametrize("kind", ["max", "min"])
def test_reduce_of_zeros(kind: str) -> None:
    x = np.array([[0.0, -0.0], [-0.0, 0.0], [-0.0, -0.0], [0.0, 0.0]], np.float32)
    expected = [False, False, True, False] if kind == "max" else [True, True, True, False]
    assert np.signbit(reduce(x, kind, 1, f32)).tolist() == expected
    one = 1.0 if kind == "min" else -1.0
    assert np.signbit(reduce(np.array([one, -0.0, one], np.float32), kind, None, f32))


def test_softmax_is_e_times_the_inverse_sum() -> None:
    x = random(3, 50)
    powers = np.exp((x - x.max(1, keepdims=True)).astype(np.float64)).astype(np.float32)
    expected = powers * (np.float32(1) / tree_sum(powers, 1))[:, None]
    assert np.array_equal(softmax(x, -1, f32), expected)
    assert np.allclose(softmax(x, 0, f32).sum(0), 1)
    half = softmax(x.astype(np.float16), 1, f16)
    assert np.array_equal(half, softmax(x.astype(np.float16).astype(np.float32), 1, f32).astype(np.float16))
    assert np.allclose(softmax(x.astype(np.float64), 1, f64).sum(1), 1, rtol=1e-15)


@given(st.integers(1, 5), st.integers(1, 5), st.integers(1, 5))
@settings(deadline=None, max_examples=20)
def test_dot_of_small_integers_is_numpys(m: int, k: int, n: int) -> None:
    random = np.random.default_rng(m * 25 + k * 5 + n)
    a, b = random.integers(-9, 9, (m, k)), random.integers(-9, 9, (k, n))
    assert np.array_equal(dot(a.astype(np.float32), b.astype(np.float32), None, operand=f32, result=f32), a @ b)
