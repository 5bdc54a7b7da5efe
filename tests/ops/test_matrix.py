"""`gemm` against NumPy in f64: any sizes, both orders of each operand, every epilogue."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.library import activated, error, normal
from tessera.core.base.dtypes import ComputeType, tf32
from tessera.core.errors.catalog import ArgumentType, BadKernelOption, OperandMismatch
from tessera.core.settings import overridden
from tessera.ops import gemm
from tessera.ops.matrix import prepare_gemm
from tessera.runtime.interpret.rounding import to_tf32

SMALL = {"BM": 32, "BN": 48, "BK": 16}
SIZES = st.integers(1, 100)
bf16 = ml_dtypes.bfloat16


def check(m: int, k: int, n: int, flips: tuple[bool, bool], activation: str | None, biased: bool) -> None:
    a, b, bias = normal(m, k), normal(k, n), normal(n) if biased else None
    want = activated(a.astype(np.float64) @ b + (0 if bias is None else bias), activation)
    left = np.ascontiguousarray(a.T) if flips[0] else a
    right = np.ascontiguousarray(b.T) if flips[1] else b
    got = gemm(
        left, right, transpose_a=flips[0], transpose_b=flips[1], bias=bias, activation=activation, schedule=SMALL
    )  # fmt: skip
    assert got.shape == (m, n)
    assert np.abs(got - want).max() <= 1e-5 * max(1.0, np.abs(want).max())


@given(SIZES, SIZES, SIZES, st.tuples(st.booleans(), st.booleans()), st.sampled_from([None, "relu", "gelu", "silu"]),
       st.booleans())  # fmt: skip
@settings(max_examples=25)
def test_interpreted(m: int, k: int, n: int, flips: tuple[bool, bool], activation: str | None, biased: bool):
    with overridden(target="interpret"):
        check(m, k, n, flips, activation, biased)


@given(SIZES, SIZES, SIZES, st.booleans())
@settings(max_examples=20)
def test_compiled(m: int, k: int, n: int, flip: bool):
    check(m, k, n, (False, flip), None, False)


def test_views_with_swapped_axes_are_used_as_they_lie():
    a, b = normal(40, 30), normal(50, 30)
    prepared = prepare_gemm(a, b.T, schedule=SMALL)
    (launch,) = prepared.launches
    assert launch.kernel.options.constants["TRANSPOSE_B"] is True
    right = launch.arguments[1]
    assert isinstance(right, np.ndarray)
    assert right.base is b
    assert error(prepared.run(), a.astype(np.float64) @ b.T) < 1e-6
    assert error(gemm(a.T, b.T, transpose_a=True, schedule=SMALL), a.astype(np.float64) @ b.T) < 1e-6


@pytest.mark.parametrize("compute", ["tf32", tf32])
def test_factors_are_rounded_to_tf32_where_asked(compute: ComputeType | str):
    a, b = normal(20, 200), normal(200, 24)
    exact = to_tf32(a).astype(np.float64) @ to_tf32(b).astype(np.float64)
    assert error(gemm(a, b, compute=compute), exact) < 1e-6
    assert error(gemm(a, b), exact) > 1e-5


def test_what_cannot_be_computed_in_is_refused():
    a, b = normal(20, 30), normal(30, 24)
    with pytest.raises(OperandMismatch, match="'bf16' is nothing to compute products in") as caught:
        gemm(a, b, compute="bf16")
    assert caught.value.hint == "compute= takes tf32"
    with pytest.raises(OperandMismatch, match="compute=tf32 rounds f32, and a is f16"):
        gemm(a.astype(np.float16), b.astype(np.float16), compute="tf32")


@pytest.mark.parametrize("dtype", [bf16, np.float16])
def test_sums_are_f32_and_rounded_once(dtype: type):
    a, b = normal(20, 200, dtype=dtype), normal(200, 24, dtype=dtype)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    wide = gemm(a, b, dtype="f32")
    assert wide.dtype == np.float32
    assert error(wide, exact) < 1e-6
    narrow = gemm(a, b)
    assert narrow.dtype == dtype
    np.testing.assert_array_equal(narrow, wide.astype(dtype))


def test_the_result_goes_where_it_is_wanted():
    a, b, out = normal(20, 30), normal(30, 10), np.full((20, 10), np.nan, np.float16)
    assert gemm(a, b, out) is out
    assert error(out, a.astype(np.float64) @ b) < 1e-3


@pytest.mark.parametrize("turned", [False, True])
def test_sums_over_nothing_are_zero(turned: bool):
    a, b = np.ones((0, 20) if turned else (20, 0), np.float32), np.ones((10, 0) if turned else (0, 10), np.float32)
    bias = normal(10)
    assert not gemm(a, b, transpose_a=turned, transpose_b=turned).any()
    got = gemm(a, b, transpose_a=turned, transpose_b=turned, bias=bias, activation="relu")
    np.testing.assert_array_equal(got, np.tile(np.maximum(bias, 0), (20, 1)))


@pytest.mark.parametrize("shape", [(0, 10, 30), (20, 0, 30), (0, 0, 0)])
def test_results_without_elements_need_no_launch(shape: tuple[int, int, int]):
    m, n, k = shape
    prepared = prepare_gemm(np.ones((m, k), np.float16), np.ones((k, n), np.float16), bias=np.ones(n, np.float32))
    assert not prepared.launches
    made = prepared.run()
    assert (made.shape, made.dtype) == ((m, n), np.float16)


def test_tuning_searches_the_space_and_keeps_the_best():
    a, b = normal(20, 30), normal(30, 10)
    prepared = prepare_gemm(a, b, tune=True, schedule={"BM": 32, "BN": 32})
    (launch,) = prepared.launches
    assert set(launch.kernel.options.space or {}) == {"BK"}
    assert error(prepared.run(), a.astype(np.float64) @ b) < 1e-6


def test_a_parameter_that_follows_from_the_operands_is_not_tuned():
    with pytest.raises(BadKernelOption, match="there is no tuning parameter 'ACTIVATION'"):
        gemm(normal(4, 4), normal(4, 4), schedule={"ACTIVATION": 1})


@pytest.mark.parametrize(
    ("a", "b", "more", "message"),
    [
        (normal(4, 5), normal(4, 5), {}, "4 x 5 times 4 x 5"),
        (normal(4, 5), normal(5), {}, "b has 1 axes, not 2"),
        (normal(4, 5), normal(5, 6).astype(np.float16), {}, "a holds f32 and b f16"),
        (normal(4, 5).astype(np.int32), normal(5, 6), {}, "a holds i32"),
        (normal(4, 5).astype(np.float64), normal(5, 6), {}, "a holds f64"),
        (normal(4, 5), normal(5, 6), {"bias": normal(5)}, "bias is 5, and the result has 6 columns"),
        (normal(4, 5), normal(5, 6), {"activation": "tanh"}, "'tanh' is no activation"),
        (normal(4, 5), normal(5, 6), {"out": normal(4, 7)}, "out is 4 x 7, and the result 4 x 6"),
        (normal(4, 5), normal(5, 6), {"out": np.zeros((4, 6), np.int32)}, "out holds i32, and the result f32"),
    ],
)
def test_operands_that_do_not_fit(a: np.ndarray, b: np.ndarray, more: dict[str, Any], message: str):
    with pytest.raises(OperandMismatch, match=rf"^[^\n]*(?:{message})"):
        gemm(a, b, **more)


def test_a_dtype_that_does_not_exist():
    with pytest.raises(ArgumentType, match="'f12' is no dtype"):
        gemm(normal(4, 5), normal(5, 6), dtype="f12")


@pytest.mark.parametrize("dtype", [ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2])
def test_floats_of_8_bits_give_bf16(dtype: type):
    a, b = normal(40, 70, dtype=dtype), normal(33, 70, dtype=dtype)
    exact = a.astype(np.float64) @ b.astype(np.float64).T
    got = gemm(a, b, transpose_b=True, schedule=SMALL)
    assert got.dtype == bf16
    assert error(got, exact) < 2**-8
    assert error(gemm(a, b.T, dtype="f32", schedule=SMALL), exact) < 1e-6
