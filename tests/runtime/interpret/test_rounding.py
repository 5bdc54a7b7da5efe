"""Conversions and fused multiply-adds round once, to nearest even: compared with exact fractions."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tessera.core.base.dtypes import DType, bf16, f16, f32, f64, i64, u64
from tessera.runtime.interpret.rounding import fma, odd_sum, to_dtype, to_tf32

# Significant bits, exponent of the least subnormal, exponent of the first power of two that is infinite.
FORMATS = {f64: (53, -1074, 1024), f32: (24, -149, 128), f16: (11, -24, 16), bf16: (8, -133, 128)}


def rounded(exact: Fraction, dtype: DType) -> float:
    """`exact`, rounded to nearest even in `dtype`: by the definition, with integers."""
    if exact == 0:
        return 0.0
    bits, least, infinite = FORMATS[dtype]
    sign, size = (-1 if exact < 0 else 1), abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > size
    unit = Fraction(2) ** max(exponent - bits + 1, least)
    result = round(size / unit) * unit
    return sign * (math.inf if result >= Fraction(2) ** infinite else float(result))


def of_tf32(exact: Fraction) -> float:
    """`exact`, rounded to nearest even with 11 significant bits, in f32's range."""
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > size
    unit = Fraction(2) ** max(exponent - 10, -136)
    result = round(size / unit) * unit
    return math.copysign(math.inf if result >= Fraction(2) ** 128 else float(result), exact)


def value(x: float, dtype: DType) -> np.ndarray:
    return np.asarray(x).astype(dtype.numpy)


def same(actual: np.ndarray, expected: float) -> bool:
    return float(actual) == expected and (
        expected != 0 or math.copysign(1, float(actual)) == math.copysign(1, expected)
    )


finite = st.floats(allow_nan=False, allow_infinity=False)


@given(finite)
@example(1 + 2.0**-8 + 2.0**-40)  # rounds down when it goes through f32
@example(-(2.0**-134))
@example(2.0**-150)
@example(3.3961775292304957e38)
@settings(deadline=None)
def test_f64_to_shorter_floats(x: float) -> None:
    with np.errstate(all="ignore"):
        for dtype in (f32, f16, bf16):
            expected = rounded(Fraction(x), dtype)
            assert same(to_dtype(np.asarray(x), dtype), math.copysign(expected, x))


@given(st.integers(-(2**63), 2**63 - 1), st.booleans())
@example(2**30 + 2**22 + 1, False)
@example(2**62 + 2**54 + 1, False)
@example(-(2**62) - 2**54 - 1, False)
@settings(deadline=None)
def test_integers_to_floats(x: int, unsigned: bool) -> None:
    dtype = u64 if unsigned else i64
    number = np.asarray(abs(x) if unsigned else x, dtype.numpy)
    with np.errstate(all="ignore"):
        for target in FORMATS:
            assert float(to_dtype(number, target)) == rounded(Fraction(int(number)), target)


@given(finite, finite)
@settings(deadline=None)
def test_odd_sum_is_exact_or_odd(a: float, b: float) -> None:
    with np.errstate(all="ignore"):
        total = float(odd_sum(np.asarray(a), np.asarray(b)))
    exact = Fraction(a) + Fraction(b)
    if math.isfinite(total) and Fraction(total) != exact:
        assert np.float64(total).view(np.int64) & 1
        assert abs(Fraction(total) - exact) < Fraction(math.ulp(total))


@pytest.mark.parametrize("dtype", list(FORMATS), ids=str)
@given(data=st.data())
@settings(deadline=None, max_examples=150)
def test_fma_rounds_once(dtype: DType, data: st.DataObject) -> None:
    # Any operands, and an addend near the product, where the bits that rounding the product loses decide.
    with np.errstate(all="ignore"):
        a, b = (float(value(data.draw(finite), dtype)) for _ in range(2))
        near = st.integers(-4, 4).map(lambda k: -a * b * (1 + k * 2.0 ** -FORMATS[dtype][0]))
        c = float(value(data.draw(st.one_of(finite, near)), dtype))
        result = fma(value(a, dtype), value(b, dtype), value(c, dtype), dtype)
    if not all(map(math.isfinite, (a, b, c))):
        return
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    expected = rounded(exact, dtype)
    assert float(result) == expected


def test_fma_of_zeros_infinities_and_nan() -> None:
    inf, nan = np.inf, np.nan
    for dtype in FORMATS:
        a = np.array([0.0, -0.0, inf, inf, 1.0, nan, 0.0, 2.0], dtype.numpy)
        b = np.array([1.0, 1.0, 0.0, 2.0, 1.0, 1.0, 5.0, 3.0], dtype.numpy)
        c = np.array([-0.0, -0.0, 1.0, -inf, -inf, 1.0, -0.0, -6.0], dtype.numpy)
        with np.errstate(all="ignore"):
            result = fma(a, b, c, dtype).astype(np.float64)
        assert np.array_equal(result, [0.0, -0.0, nan, nan, -inf, nan, 0.0, 0.0], equal_nan=True)
        assert list(np.signbit(result[[0, 1, 6, 7]])) == [False, True, False, False]


def test_a_product_that_overflows_may_still_be_brought_back() -> None:
    with np.errstate(all="ignore"):
        big = np.asarray(2.0**1000)
        assert float(fma(big, np.asarray(2.0**24), -np.asarray(2.0**1023), f64)) == 2.0**1023
        assert float(fma(big, big, np.asarray(-1.0), f64)) == np.inf
        assert float(fma(big, -big, np.asarray(1.0), f64)) == -np.inf


def test_fma_of_integers_wraps() -> None:
    with np.errstate(all="ignore"):
        result = fma(np.asarray(2**62), np.asarray(4), np.asarray(7), i64)
    assert int(result) == 7


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
@example(1 + 2.0**-11)
@example(1 + 3 * 2.0**-11)
@example(float(np.finfo(np.float32).max))
@example(2.0**-149)
@example(2.0**-126 - 2.0**-149)
def test_f32_to_tf32(x: float) -> None:
    found = float(to_tf32(np.asarray(x, np.float32)))
    assert found == (of_tf32(Fraction(x)) if x else 0.0)
    assert math.copysign(1, found) == math.copysign(1, x)


def test_infinities_and_nan_are_tf32_as_they_are() -> None:
    bits = np.array([0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFFFFFFFF], np.uint32)
    np.testing.assert_array_equal(to_tf32(bits.view(np.float32)).view(np.uint32), bits)
