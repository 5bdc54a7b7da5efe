"""Codes by expressions: those of ml_dtypes, for every code and for any f32."""

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from tessera.core.base.dtypes import f32, i64, u8, u32
from tessera.core.graph.expr import Argument, Literal
from tessera.core.graph.numerics import FORMATS, Format
from tessera.graphs.codes import byte_of, decoded, encoded, field_of, packed_word, scale_code, scale_value, within
from tessera.runtime.interpret.graph import evaluate_expr

DTYPES = {
    "fp6_e3m2": np.dtype(ml_dtypes.float6_e3m2fn), "fp6_e2m3": np.dtype(ml_dtypes.float6_e2m3fn),
    "fp4_e2m1": np.dtype(ml_dtypes.float4_e2m1fn), "fp8_e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "fp8_e5m2": np.dtype(ml_dtypes.float8_e5m2),
}  # fmt: skip
FLOATS = [FORMATS[name] for name in DTYPES]
INTEGERS = [FORMATS["i8"], FORMATS["i4"]]
X = Argument(0, f32)


def run(expr: object, *values: NDArray[np.generic]) -> NDArray[np.generic]:
    with np.errstate(all="ignore"):
        return evaluate_expr(expr, values)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def numbers(target: Format) -> NDArray[np.float32]:
    """Return every number of a format from the least up, and infinities left out."""
    found = np.arange(1 << target.bits, dtype=np.uint8).view(DTYPES[target.name]).astype(np.float32)
    return np.unique(found[np.isfinite(found)])


def critical(target: Format) -> NDArray[np.float32]:
    """Return a format's numbers, ties between them, what lies beside both, and numbers out of its range."""
    exact = numbers(target)
    ties = (exact[1:] + exact[:-1]) / 2
    middle = np.concatenate([exact, ties, [np.float32(0), np.float32(-0.0)]]).astype(np.float32)
    sides = [np.nextafter(middle, np.float32(end)) for end in (-np.inf, np.inf)]
    ends = np.array([np.inf, -np.inf, 3e38, -3e38, 1e-45, -1e-45, 1e-38, 1e6, -1e6], np.float32)
    return np.concatenate([middle, *sides, ends])


def check(values: NDArray[np.float32], target: Format) -> None:
    with np.errstate(all="ignore"):
        want = np.clip(values, -target.largest, target.largest).astype(DTYPES[target.name])
    got = run(encoded(X, target), values)
    np.testing.assert_array_equal(got.view(np.uint8), want.view(np.uint8))


@pytest.mark.parametrize("target", FLOATS, ids=str)
def test_ties_and_ends(target: Format):
    check(critical(target), target)


@settings(max_examples=60)
@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1, max_size=50), st.sampled_from(FLOATS))
def test_any_f32(values: list[float], target: Format):
    check(np.array(values, np.float32), target)


@pytest.mark.parametrize("target", FLOATS, ids=str)
def test_every_code_is_read(target: Format):
    codes = np.arange(1 << target.bits, dtype=np.uint8)
    want = codes.view(DTYPES[target.name]).astype(np.float32)
    got = run(decoded(Argument(0, target.dtype), target), codes if target.is_packed else codes.view(target.dtype.numpy))
    np.testing.assert_array_equal(got.view(np.uint32)[want == want], want.view(np.uint32)[want == want])  # noqa: PLR0124
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))


def test_other_bits_of_a_byte_do_not_count():
    codes = np.arange(256, dtype=np.uint8)
    for target in (FORMATS["fp4_e2m1"], FORMATS["fp6_e3m2"], FORMATS["i4"]):
        reader = decoded(Argument(0, u8), target)
        np.testing.assert_array_equal(run(reader, codes), run(reader, codes & ((1 << target.bits) - 1)))


@pytest.mark.parametrize("target", INTEGERS, ids=str)
@pytest.mark.parametrize("mode", ["nearest", "toward_zero"])
def test_integers(target: Format, mode: str):
    values = np.concatenate([np.arange(-300, 300, 0.125), [np.inf, -np.inf, -0.0]]).astype(np.float32)
    whole = np.rint(values) if mode == "nearest" else np.trunc(values)
    want = np.clip(whole, -target.largest, target.largest)
    codes = run(encoded(X, target, mode), values)
    assert codes.dtype == target.dtype.numpy
    np.testing.assert_array_equal(run(decoded(Argument(0, target.dtype), target), codes), want)
    if target.is_packed:
        assert codes.max() == 15
    assert run(encoded(X, target, mode), np.array([np.nan], np.float32))[0] == 0


@pytest.mark.parametrize("target", FLOATS, ids=str)
def test_nan(target: Format):
    for mode in ("nearest", "toward_zero"):
        code = run(encoded(X, target, mode), np.array([np.nan], np.float32))
        if target.is_packed:
            assert code[0] == 1 << (target.bits - 1)
        else:
            assert np.isnan(code.astype(np.float32))[0]


@pytest.mark.parametrize("target", FLOATS, ids=str)
def test_toward_zero(target: Format):
    values, exact = critical(target), numbers(target)
    exact = exact[exact >= 0]
    size = exact[np.searchsorted(exact, np.abs(values), side="right") - 1]
    got = run(decoded(Argument(0, target.dtype), target), run(encoded(X, target, "toward_zero"), values))
    np.testing.assert_array_equal(got, np.copysign(size, values))
    np.testing.assert_array_equal(np.signbit(got), np.signbit(values))


@pytest.mark.parametrize("target", [*FLOATS, *INTEGERS], ids=str)
def test_stochastic(target: Format):
    """Up exactly where 24 random bits are less than the fraction."""
    bits = np.random.default_rng(0).integers(0, 1 << 32, 4000, np.uint32)
    values = np.random.default_rng(1).uniform(-1.2, 1.2, 4000).astype(np.float32) * np.float32(target.largest)
    values[::2] /= 64
    exact = np.arange(target.largest + 1) if target.is_integer else numbers(target)
    exact = exact[exact >= 0].astype(np.float64)
    size = np.minimum(np.abs(values.astype(np.float64)), target.largest)
    low = np.searchsorted(exact, size, side="right") - 1
    high = np.minimum(low + 1, len(exact) - 1)
    gap = np.where(high > low, exact[high] - exact[low], 1)
    up = (bits >> 8) / 2.0**24 < (size - exact[low]) / gap
    want = np.copysign(np.where(up, exact[high], exact[low]), values)
    codes = run(encoded(X, target, "stochastic", Argument(1, u32)), values, bits)
    np.testing.assert_array_equal(run(decoded(Argument(0, target.dtype), target), codes), want)
    assert 0.1 < up.mean() < 0.6


@settings(max_examples=50)
@given(st.lists(st.integers(0, 63), min_size=4, max_size=4))
def test_packing(codes: list[int]):
    word = packed_word([Literal(code, u8) for code in codes], 6)
    total = sum(code << (6 * place) for place, code in enumerate(codes))
    assert [int(run(byte_of(word, Literal(n, i64)))) for n in range(3)] == list(total.to_bytes(3, "little"))
    assert [int(run(field_of(word, Literal(n, i64), 6))) for n in range(4)] == codes


@pytest.mark.parametrize("target", [*FLOATS, *INTEGERS], ids=str)
def test_powers_of_two(target: Format):
    """The exponent of the greatest number, less that of the format's greatest."""
    sizes = [2.0**n * part for n in range(-149, 128) for part in (1, 1.5, 2 - 2**-23)]
    sizes = np.array([n for n in sizes if n < 2**128], np.float32)
    most = math.frexp(target.largest)[1] - 1
    want = np.clip(np.frexp(sizes)[1] - 1 - most + 127, 0, 254)
    codes = run(scale_code(X, target, "e8m0"), sizes)
    np.testing.assert_array_equal(codes, want)
    np.testing.assert_array_equal(
        run(scale_code(X, target, "e8m0"), np.array([0, np.inf, np.nan], np.float32)), [0, 255, 255]
    )


def test_every_power_of_two_is_read():
    codes = np.arange(256, dtype=np.uint8)
    want = codes.view(ml_dtypes.float8_e8m0fnu).astype(np.float32)
    np.testing.assert_array_equal(run(scale_value(Argument(0, u8)), codes), want)


def test_scales_of_f32():
    sizes = np.array([0, 3, 448, 1e-44, np.inf], np.float32)
    got = run(scale_code(X, FORMATS["fp8_e4m3"], "f32"), sizes)
    np.testing.assert_array_equal(got, [1, np.float32(3) / np.float32(448), 1, 1, np.inf])


@pytest.mark.parametrize("target", [*FLOATS, *INTEGERS], ids=str)
def test_what_is_cut(target: Format):
    step = 2.0 ** target.binades[-1]
    values = np.array(
        [0, target.largest, target.largest + step / 2, target.largest + step, -target.largest * 2], np.float32
    )
    np.testing.assert_array_equal(run(within(X, target), values), [True, True, True, False, False])
