"""Floats of 8 bits in kernels: the interpreter, the CPU and generated GPU code give the bits of ml_dtypes."""

# The names of shapes in kernels are bound at launch, and the language reads the bodies, not Python.
# pyright: reportUndefinedVariable=false, reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportGeneralTypeIssues=false, reportInvalidTypeForm=false, reportUnknownMemberType=false
# pyright: reportUnknownVariableType=false, reportAttributeAccessIssue=false

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import DTypeLike

from lowering.cuda.compare import agree
from support.interpret_programs import Writer
from tessera import f32, kernel, mut, tensor, tile
from tessera.core.base.dtypes import DType, f16, f64, fp8_e4m3, fp8_e5m2
from tessera.core.base.dtypes import f32 as single
from tessera.core.errors.catalog import ArgumentType
from tessera.core.program.program import Program
from tessera.core.program.types import Tile
from tessera.core.settings import overridden

BYTES = [fp8_e4m3, fp8_e5m2]
HERE = ("interpret", "cpu")


@kernel
def convert(X: tensor, Y: mut[tensor]):
    n = X.shape[0]
    for i in tile.range(n, step=64):
        Y[i : i + 64] = tile.cast(X[i : i + 64], Y.dtype)


@kernel
def scaled(x: "fp8_e4m3[n]", y: "fp8_e5m2[n]", out: "mut[f32[n]]"):
    i = tile.linear_id()
    if i < n:
        out[i] = 2.0 * x[i] + y[i] * x[i] - 1


@kernel
def reduced(X: "fp8_e4m3[m, n]", sums: "mut[f32[m]]", most: "mut[f32[m]]", shares: "mut[fp8_e5m2[m, n]]"):
    for i in tile.range(m, step=4):
        rows = X[i : i + 4, :]
        sums[i : i + 4] = tile.sum(rows, axis=1)
        most[i : i + 4] = tile.max(rows, axis=1)
        shares[i : i + 4, :] = tile.cast(tile.softmax(rows, axis=1), fp8_e5m2)


@kernel
def product(A: tensor, B: tensor, C: mut[tensor]):
    M, N = C.shape
    K = A.shape[1]
    for m in tile.range(M, step=32):
        for n in tile.range(N, step=32):
            acc = tile.zeros((32, 32), f32)
            for k in tile.range(K, step=16):
                acc += tile.dot(A[m : m + 32, k : k + 16], B[n : n + 32, k : k + 16].T)
            C[m : m + 32, n : n + 32] = acc


@kernel
def number(x: "f32[n]", alpha: fp8_e4m3):
    x[0] = alpha


def bits(values: np.ndarray) -> np.ndarray:
    return values.view(f"u{values.itemsize}")


def converted(values: np.ndarray, dtype: DTypeLike) -> np.ndarray:
    with np.errstate(invalid="ignore", over="ignore"):
        return values.astype(dtype)


def check(values: np.ndarray, target: DType, machine: str) -> None:
    out = np.zeros(values.shape, target.numpy)
    with overridden(target=machine):
        convert(values, out)
    np.testing.assert_array_equal(bits(out), bits(converted(values, target.numpy)))


@pytest.mark.parametrize("machine", HERE)
@pytest.mark.parametrize("source", BYTES, ids=str)
def test_every_code(source: DType, machine: str):
    codes = np.arange(256, dtype=np.uint8).view(source.numpy)
    for target in (single, f16, f64):
        check(codes, target, machine)


@pytest.mark.parametrize("machine", HERE)
@pytest.mark.parametrize("target", BYTES, ids=str)
def test_every_half(target: DType, machine: str):
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    check(halves, target, machine)
    check(converted(halves, np.float32), target, machine)


@settings(max_examples=30)
@given(st.lists(st.floats(width=32), min_size=70, max_size=70), st.sampled_from(BYTES))
def test_any_f32(numbers: list[float], target: DType):
    for machine in HERE:
        check(np.array(numbers, np.float32), target, machine)


@pytest.mark.parametrize("machine", HERE)
@pytest.mark.parametrize("source", BYTES, ids=str)
def test_integers(source: DType, machine: str):
    codes = np.arange(256, dtype=np.uint8).view(source.numpy)
    finite = codes[np.isfinite(codes.astype(np.float32))]
    out, back = np.zeros(finite.shape, np.int32), np.zeros(finite.shape, source.numpy)
    with overridden(target=machine):
        convert(finite, out)
        convert(out, back)
    whole = np.trunc(finite.astype(np.float32))
    np.testing.assert_array_equal(out, whole)
    np.testing.assert_array_equal(
        back.astype(np.float32), whole.astype(np.int32).astype(np.float32).astype(source.numpy).astype(np.float32)
    )


@pytest.mark.parametrize("machine", HERE)
def test_arithmetic_is_done_in_f32(machine: str):
    random = np.random.default_rng(0)
    x = random.standard_normal(100).astype(ml_dtypes.float8_e4m3fn)
    y = random.standard_normal(100).astype(ml_dtypes.float8_e5m2)
    out = np.zeros(100, np.float32)
    with overridden(target=machine):
        scaled(x, y, out)
    a, b = x.astype(np.float32), y.astype(np.float32)
    np.testing.assert_array_equal(out, np.float32(2) * a + b * a - np.float32(1))


@pytest.mark.parametrize("machine", HERE)
def test_reductions_are_done_in_f32(machine: str):
    x = np.random.default_rng(1).standard_normal((10, 33)).astype(ml_dtypes.float8_e4m3fn)
    wide = x.astype(np.float32)
    sums, most, shares = np.zeros(10, np.float32), np.zeros(10, np.float32), np.zeros(x.shape, ml_dtypes.float8_e5m2)
    with overridden(target=machine):
        reduced(x, sums, most, shares)
    np.testing.assert_allclose(sums, wide.sum(1), rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(most, wide.max(1))
    want = np.exp(wide - wide.max(1, keepdims=True))
    want = (want / want.sum(1, keepdims=True)).astype(ml_dtypes.float8_e5m2)
    assert (bits(shares) != bits(want)).mean() < 0.02  # a share next to a boundary may go to its other side


@pytest.mark.parametrize(
    ("left", "right"), [(fp8_e4m3, fp8_e4m3), (fp8_e5m2, fp8_e5m2), (fp8_e4m3, fp8_e5m2), (f16, fp8_e5m2)]
)
def test_products_have_the_same_bits(left: DType, right: DType):
    random = np.random.default_rng(2)
    a, b = random.standard_normal((40, 50)).astype(left.numpy), random.standard_normal((70, 50)).astype(right.numpy)
    results = []
    for machine in HERE:
        out = np.zeros((40, 70), np.float32)
        with overridden(target=machine):
            product(a, b, out)
        results.append(out)
    np.testing.assert_array_equal(bits(results[0]), bits(results[1]))
    np.testing.assert_allclose(results[0], a.astype(np.float64) @ b.astype(np.float64).T, rtol=1e-5, atol=1e-4)


def test_only_arrays_hold_them():
    with pytest.raises(ArgumentType, match="alpha holds fp8_e4m3, which only arrays do"):
        number(np.zeros(3, np.float32), 1.0)


def cast(source: DType, target: DType, extent: int) -> Program:
    b = Writer("cast")
    x, y = b.array("x", source, extent), b.array("y", target, extent, mutable=True)
    zero = b.const(0)
    tile = b.op("cast", (b.load(x, [zero], [extent]),), Tile(target, (extent,)), "made")
    b.store(y, tile, [zero], [extent])
    return b.program()


@pytest.mark.parametrize("dtype", BYTES, ids=str)
def test_generated_gpu_code(dtype: DType):
    codes = np.arange(256, dtype=np.uint8).view(dtype.numpy)
    agree(cast(dtype, single, 256), [codes, np.zeros(256, np.float32)])
    random = np.random.default_rng(3).integers(0, 1 << 32, 256, dtype=np.uint32).view(np.float32)
    finite = codes[np.isfinite(codes.astype(np.float32))].astype(np.float32)
    middles = (np.sort(finite)[1:] + np.sort(finite)[:-1]) / 2
    for values in (random, np.resize(middles, 256).astype(np.float32)):
        agree(cast(single, dtype, 256), [values, np.zeros(256, dtype.numpy)])
        agree(cast(f64, dtype, 256), [values.astype(np.float64), np.zeros(256, dtype.numpy)])
