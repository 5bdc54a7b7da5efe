"""Arrays as codes and scales, on every target, against ml_dtypes."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportCallIssue=false, reportUnknownVariableType=false, reportArgumentType=false
# pyright: reportUnknownMemberType=false

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.operators import TARGETS, drawn
from support.quantized import quantized, restored, unpacked
from tessera import graph, op
from tessera.core.base.dtypes import f32, f64, i32
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.numerics import FORMATS, SCALE_DTYPES, Format, Numerics, Scale, accum, fp4, fp6, i4, scale
from tessera.core.settings import overridden
from tessera.graphs.scaled import Scaled

NARROW = [FORMATS[name] for name in ("fp6_e3m2", "fp6_e2m3", "fp4_e2m1", "i4", "i8", "fp8_e4m3", "fp8_e5m2")]
fp8 = FORMATS["fp8_e4m3"]
i8 = FORMATS["i8"]


def of(kind: Format, block: tuple[int, ...] | None = None, dtype: str = "f32") -> Numerics:
    return Numerics(kind, i32 if kind.is_integer else f32, "nearest", None if block is None else Scale(block, dtype))


def check(x: np.ndarray, numerics: Numerics) -> Scaled:
    made = op.quantize(x, numerics)
    codes, scales = quantized(x, numerics)
    held = np.asarray(made.codes)
    assert held.dtype == numerics.format.dtype.numpy
    assert held.shape == (*x.shape[:-1], numerics.format.held(x.shape[-1])) if x.ndim else held.shape == ()
    np.testing.assert_array_equal(unpacked(held, numerics.format, x.shape[-1] if x.ndim else 1), codes)
    if scales is None:
        assert made.scales is None
    else:
        found = np.asarray(made.scales)
        if found.dtype == np.uint8:
            found = np.ldexp(np.float32(1), found.astype(np.int32) - 127)
        np.testing.assert_array_equal(found, scales)
    back = op.dequantize(made)
    assert back.dtype == np.float32
    np.testing.assert_array_equal(back, restored(x, numerics))
    size = held.nbytes + (0 if made.scales is None else np.asarray(made.scales).nbytes)
    assert made.bytes == size
    return made


@pytest.mark.parametrize("target", [*TARGETS, *(pytest.param(t, marks=pytest.mark.gpu) for t in ("cuda", "cuda_tile"))])
@pytest.mark.parametrize("kind", NARROW, ids=str)
def test_every_format(target: str, kind: Format):
    x = drawn((6, 64), np.float32, 1, -9, 9)
    with overridden(target=target):
        for block in (None, (1, 0), (2, 16)):
            check(x, of(kind, block))
        check(x, of(kind, (1, 32), "e8m0"))


CASES = st.tuples(
    st.sampled_from(NARROW), st.lists(st.sampled_from([0, 1, 2, 3, 5, 8, 13]), min_size=1, max_size=3),
    st.sampled_from(["none", "all", "row", "block", "column"]), st.sampled_from(SCALE_DTYPES), st.integers(0, 9),
    st.sampled_from([np.float32, np.float16, np.float64]),
)  # fmt: skip


@settings(max_examples=12)
@given(CASES)
def test_any_shape(case: tuple[Format, list[int], str, str, int, type]):
    kind, shape, way, dtype, seed, floats = case
    if way in ("block", "column") and len(shape) < 2:
        way = "row"
    block = {"none": None, "all": (), "row": (0,), "column": (0, 1), "block": (1, 4)}[way]
    if way == "block":
        shape[-1] *= 4
    x = drawn(shape, floats, seed, -5, 5)
    if x.size > 2:
        x.flat[:2] = 0, -0.0
    with overridden(target="cpu"):
        check(x, of(kind, block, dtype))


def test_a_number():
    for kind in (fp8, i8):
        check(np.array(3.3, np.float32), of(kind, ()))


def test_blocks_of_zeros_and_of_tiny_numbers():
    x = np.array([[0.0] * 4, [1e-45] * 4, [3e38, 1, 0, -3e38], [1e-38, -1e-39, 0, 0]], np.float32)
    for dtype in SCALE_DTYPES:
        for kind in (fp4, fp8, i8):
            check(x, of(kind, (1, 0), dtype))


def test_infinities_and_nan():
    x = np.array([[np.inf, 1.0], [np.nan, 1.0], [1.0, -1.0]], np.float32)
    back = op.dequantize(op.quantize(x, fp8 @ scale(block=(1, 0))))
    assert not np.isfinite(back[0, 0])
    assert np.isnan(back[1]).all()
    np.testing.assert_array_equal(back[2], [1, -1])
    back = op.dequantize(op.quantize(x, fp4 @ scale(block=(1, 0), dtype="e8m0")))
    assert np.isnan(back[:2]).all()
    np.testing.assert_array_equal(op.dequantize(op.quantize(x[:1], fp8)), [[448, 1]])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", [FORMATS[name] for name in ("fp6_e3m2", "i4", "i8", "fp8_e4m3")], ids=str)
def test_products(target: str, kind: Format):
    """Of numbers read back, summed in f32 or, of integers, exactly."""
    x, w = drawn((5, 36), np.float32, 1), drawn((36, 7), np.float32, 2)
    for left, right in (((1, 0), (0, 1)), ((1, 12), (12, 1)), ((0, 0), (12, 7)), (None, None)):
        a, b = of(kind, left), of(kind, right)
        with overridden(target=target):
            made = op.matmul(op.quantize(x, a), op.quantize(w, b))
        want = restored(x, a).astype(np.float64) @ restored(w, b).astype(np.float64)
        if kind.is_integer and left is None:
            assert made.dtype == np.int32
            np.testing.assert_array_equal(made, want)
        else:
            assert made.dtype == np.float32
            np.testing.assert_allclose(made, want, rtol=2e-6, atol=2e-6 * np.abs(want).max())


@settings(max_examples=10)
@given(
    st.sampled_from([((4, 8), (8, 3)), ((8,), (8, 3)), ((4, 8), (8,)), ((8,), (8,)), ((2, 4, 8), (8, 3)), ((0, 8), (8, 1)),
                     ((2, 1, 4, 8), (3, 8, 5)), ((1, 1), (1, 1)), ((3, 0), (0, 2))]),
    st.sampled_from([(fp4, fp8), (fp6, i4), (i8, i8), (fp8, fp8), (i4, fp4)]), st.booleans(), st.booleans(),
)  # fmt: skip
def test_products_of_any_shapes(
    shapes: tuple[tuple[int, ...], tuple[int, ...]], kinds: tuple[Format, Format], row: bool, plain: bool
):
    x, w = (drawn(shape, np.float32, n) for n, shape in enumerate(shapes))
    a = of(kinds[0], (0,) if row else ())
    b = of(kinds[1], (0, 1) if row and w.ndim > 1 else ())
    with overridden(target="cpu"):
        made = op.matmul(x if plain else op.quantize(x, a), op.quantize(w, b))
    left = x if plain else restored(x, a)
    want = left.astype(np.float64) @ restored(w, b).astype(np.float64)
    assert made.shape == want.shape
    np.testing.assert_allclose(made, want, rtol=3e-6, atol=3e-6 * np.abs(want).max(initial=0))


def test_sums_in_f64():
    numerics = fp8 @ accum(f64) @ scale(block=(1, 0))
    x = drawn((3, 40), np.float32, 1)
    made = op.matmul(op.quantize(x, numerics), op.quantize(x.T.copy(), fp8 @ accum(f64) @ scale()))
    assert made.dtype == np.float64
    want = restored(x, numerics).astype(np.float64) @ restored(x.T, fp8 @ accum(f64) @ scale()).astype(np.float64)
    np.testing.assert_allclose(made, want, rtol=1e-6)


def test_codes_times_numbers_have_the_dtype_of_numbers():
    x, w = drawn((4, 32), np.float16, 1), drawn((32, 6), np.float32, 2)
    for numerics in (of(i4, (0, 1)), of(fp4, (16, 1), "e8m0"), of(i8, ())):
        made = op.matmul(x, op.quantize(w, numerics))
        assert made.dtype == np.float16
        want = x.astype(np.float64) @ restored(w, numerics)
        np.testing.assert_allclose(made, want, atol=2e-3 * np.abs(want).max())
        np.testing.assert_allclose(op.gemm(x, op.quantize(w, numerics), np.ones(6, np.float16)), want + 1, atol=0.02)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda: op.quantize(np.ones(3, np.int32), fp4), "i32 is not quantised"),
        (lambda: op.quantize(np.float32(1) * np.ones(()), fp4), "does not fill a byte"),
        (lambda: op.quantize(np.ones((2, 5), np.float32), fp4 @ scale(block=(1, 32))), "do not divide an axis of 5"),
        (lambda: op.matmul(op.quantize(np.ones((2, 5), np.float32), fp4), np.ones((4, 3), np.float32)), "no inner extent"),
        (lambda: op.matmul(op.quantize(np.ones((2, 5), np.float32), fp4), np.ones((5, 3), np.int32)), "i32 times codes"),
        (lambda: op.matmul(op.quantize(np.ones((2, 5), np.float32), fp4), np.ones((5, 3), np.float32), compute="tf32"),
         "of codes"),
        (lambda: op.relu(op.quantize(np.ones((2, 5), np.float32), fp4)), "is no array"),
    ],
)  # fmt: skip
def test_mistakes(wrong: object, message: str):
    with pytest.raises(OperandMismatch, match=rf"^[^\n]*(?:{message})"):
        wrong()  # type: ignore[operator]  # pyright: ignore[reportCallIssue]


def test_what_it_says():
    made = op.quantize(np.ones((2, 5), np.float32), fp4 @ scale(block=(1, 0)))
    assert (made.shape, made.ndim, made.bytes) == ((2, 5), 2, 2 * 3 + 2 * 4)
    assert repr(made) == '<2 x 5 of fp4_e2m1 @accum(f32) @scale(block=(1, 0), dtype="f32"), 14 bytes>'


@pytest.mark.parametrize("block", [None, (), (1, 0), (0, 1), (2, 16), (16,)])
@pytest.mark.parametrize("target", TARGETS)
def test_a_transpose_is_read_as_it_lies(target: str, block: tuple[int, ...] | None):
    x, w = drawn((6, 32), np.float32, 1), drawn((10, 32), np.float32, 2)
    numerics = of(fp8, block)
    with overridden(target=target):
        left, right = op.quantize(x, numerics), op.quantize(w, numerics)
        turned = right.T
        assert turned.shape == (32, 10)
        np.testing.assert_array_equal(op.dequantize(turned), np.asarray(op.dequantize(right)).T)
        got = op.gemm(left, turned)
        module = graph.module("turned")(lambda x, w: op.gemm(x, w.T))
        np.testing.assert_array_equal(module(left, right), got)
        inside = graph.module("inside")(lambda x, w: op.gemm(op.quantize(x, numerics), op.quantize(w, numerics).T))
        np.testing.assert_array_equal(inside(x, w), got)
    want = restored(x, numerics).astype(np.float64) @ restored(w, numerics).astype(np.float64).T
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5 * np.abs(want).max())


def test_what_has_no_transpose():
    held = op.quantize(drawn((4, 32), np.float32), of(fp4, (1, 32)))
    with pytest.raises(OperandMismatch, match="lies side by side in bytes along the last axis"):
        _ = held.T
    with pytest.raises(OperandMismatch, match="is no matrix to transpose"):
        _ = op.quantize(drawn((2, 4, 32), np.float32), of(fp8)).T


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("kind", [fp8, i8, fp4], ids=str)
def test_numbers_of_any_size(target: str, kind: Format):
    """Denormals, the largest floats, and both in one row: the codes are those of quotients by the scale."""
    rng = np.random.default_rng(5)
    x = (rng.standard_normal((64, 32)) * np.exp(rng.uniform(-100, 88, (64, 1)))).astype(np.float32)
    x[0], x[1], x[2, ::2], x[2, 1::2], x[3] = 0, 1e-42, 1e-38, 3e38, 2.0**60
    with overridden(target=target):
        for block, dtype in (((1, 0), "f32"), ((1, 32), "e8m0"), ((), "f32")):
            check(x, of(kind, block, dtype))


@pytest.mark.parametrize("target", TARGETS)
def test_an_infinity_takes_its_row_alone(target: str):
    """Beside an infinity everything finite is 0, with its sign; other rows are as they are."""
    x = drawn((3, 8), np.float32, 3)
    x[1, 2] = np.inf
    with overridden(target=target):
        codes = np.asarray(op.quantize(x, of(fp8, (1, 0))).codes).astype(np.float32)
    assert np.isnan(codes[1, 2])
    rest = np.delete(codes[1], 2)
    np.testing.assert_array_equal(rest, 0)
    np.testing.assert_array_equal(np.signbit(rest), np.signbit(np.delete(x[1], 2)))
    assert np.isfinite(codes[[0, 2]]).all()
