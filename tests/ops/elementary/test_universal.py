"""NumPy's universal functions: every name, and values of every dtype, of numbers apart."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownLambdaType=false

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import tessera
from support.operators import FLOATS, everywhere
from tessera import op
from tessera.api.source_module import language_names
from tessera.core.errors.catalog import NotDifferentiable, OperandMismatch
from tessera.ops.elementary.universal import NUMPY_NAMES

INTEGERS = ("i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8")


def floats(dtype: str) -> NDArray[Any]:
    """Return random floats of a dtype, its bounds, zeros, infinities and NaN."""
    limits: Any = ml_dtypes.finfo(FLOATS[dtype])
    bounds = [float(each) for each in (limits.max, limits.tiny, limits.smallest_subnormal, limits.eps)]
    special = [0.0, 1.0, np.inf, *bounds]
    drawn = np.random.default_rng(3).standard_normal(30) * 10
    return np.concatenate([drawn, special, np.negative(special), [np.nan]]).astype(FLOATS[dtype])


def same(got: object, want: NDArray[Any]) -> None:
    """Assert equal numbers with equal signs of zeros, of one dtype."""
    numbers = np.asarray(got)
    assert numbers.dtype == want.dtype
    left, right = numbers.astype(np.float64), want.astype(np.float64)
    np.testing.assert_array_equal(left, right)
    np.testing.assert_array_equal(np.signbit(left[left == left]), np.signbit(right[left == left]))  # noqa: PLR0124


def test_every_universal_function_is_an_operator():
    names = {name for name in dir(np) if isinstance(getattr(np, name), np.ufunc)}
    assert names - set(op.__all__) == {"isnat"}  # of dates, which no array here holds
    assert set(op.__all__) >= NUMPY_NAMES
    assert not NUMPY_NAMES & set(language_names())


@pytest.mark.parametrize("dtype", FLOATS)
def test_parts_of_floats(dtype: str):
    x, wide = floats(dtype), floats(dtype).astype(np.float64)
    significand, exponent = op.frexp(x)
    same(significand, np.frexp(wide)[0].astype(x.dtype))
    np.testing.assert_array_equal(exponent, np.where(np.isfinite(wide), np.frexp(wide)[1], 0))
    assert np.asarray(exponent).dtype == np.int32
    same(op.ldexp(significand, exponent), x)
    shifts = np.random.default_rng(4).integers(-300, 300, x.size)
    with np.errstate(over="ignore", under="ignore"):
        same(op.ldexp(x, shifts), np.ldexp(wide, shifts).astype(x.dtype))
    fraction, whole = op.modf(x)
    same(fraction, np.modf(wide)[0].astype(x.dtype))
    same(whole, np.modf(wide)[1].astype(x.dtype))


@pytest.mark.parametrize("dtype", FLOATS)
def test_neighbors(dtype: str):
    x = floats(dtype)
    y = np.random.default_rng(5).permutation(x)
    with np.errstate(all="ignore"):
        same(op.nextafter(x, y), np.nextafter(x, y))
        want = np.spacing(np.abs(x)) * np.where(x < 0, -1, 1).astype(x.dtype)
    same(op.spacing(x), want.astype(x.dtype))


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers(dtype: str):
    rng, limits = np.random.default_rng(6), np.iinfo(dtype)
    x = np.append(rng.integers(limits.min, limits.max, 40, dtype=dtype), np.array([0, limits.max], dtype))
    y = rng.integers(0, 100, x.size).astype(dtype)
    np.testing.assert_array_equal(op.gcd(x, y), np.gcd(x, y))
    np.testing.assert_array_equal(op.gcd(12, x), np.gcd(x.dtype.type(12), x))
    np.testing.assert_array_equal(op.lcm(x % 10, y % 10), np.lcm(x % 10, y % 10))
    np.testing.assert_array_equal(everywhere(op.bitwise_count, x), np.bitwise_count(x))
    np.testing.assert_array_equal(everywhere(op.invert, x), ~x)


def test_the_least_integer_has_bits():
    least = np.array([-128], np.int8)
    np.testing.assert_array_equal(everywhere(op.bitwise_count, least), [1])


def test_powers_are_f64_and_conjugates_of_complex_arrays_turn():
    powers = everywhere(op.float_power, np.array([2, 3], np.int32), np.array([0.5, 2.0], np.float32))
    np.testing.assert_allclose(powers, [2**0.5, 9.0], rtol=1e-14)
    assert powers.dtype == np.float64
    z = np.array([1 + 2j, 3 - 4j])
    np.testing.assert_array_equal(op.conjugate(op.Complex.of(z)).joined(), z.conj())


def test_numbers_alone():
    same(op.add(2, 3), np.array(5))
    same(op.ldexp(np.float64(1.5), 4), np.array(24.0))
    same(op.gcd(12, 18), np.array(6))


def test_derivatives_of_parts():
    x = np.random.default_rng(0).standard_normal(5)
    shifts = np.array([1, -2, 3, 0, 5])
    np.testing.assert_array_equal(tessera.grad(lambda x: op.sum(op.ldexp(x, shifts)))(x), 2.0**shifts)
    exponents = np.frexp(x)[1]
    np.testing.assert_array_equal(tessera.grad(lambda x: op.sum(op.frexp(x)[0]))(x), 2.0**-exponents)
    with pytest.raises(NotDifferentiable, match="nextafter has no adjoint"):
        tessera.grad(lambda x: op.sum(op.spacing(x)))(x)


def test_what_is_refused():
    x = np.ones(3)
    for call, message in (
        (lambda: op.gcd(x, 2), "gcd takes integers, not f64"), (lambda: op.lcm(x, x), "lcm takes integers"),
        (lambda: op.ldexp(x, 1.5), "shifted by integers, not f32"), (lambda: op.invert(x), "not of f64"),
        (lambda: op.nextafter(x, np.ones(4)), "do not broadcast together"),
    ):  # fmt: skip
        with pytest.raises(OperandMismatch, match=message):
            call()
