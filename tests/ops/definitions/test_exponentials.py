"""Exponentials, logarithms and hyperbolic functions: units in the last place over the whole range, and derivatives."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportCallIssue=false

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import tessera
from support.operators import FLOATS, TARGETS, TOLERANCE, Array, close, drawn, everywhere
from tessera import op
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.settings import overridden

Numbers = NDArray[Any]
Exact = Callable[[Numbers], Numbers]
SMALL = np.logspace(-44, 3, 1500)
POINTS = np.concatenate(
    [SMALL, -SMALL, np.linspace(-4, 4, 1001), np.logspace(-15, 0, 200) - 1, 1 - np.logspace(-8, 0, 200)]
)
EXACT: dict[str, tuple[Exact, Exact, Exact]] = {
    "cosh": (np.cosh, np.sinh, np.cosh),
    "expm1": (np.expm1, np.exp, np.exp),
    "log10": (
        np.log10,
        lambda x: 1 / (x * np.log(np.longdouble(10))),
        lambda x: -1 / (x * x * np.log(np.longdouble(10))),
    ),
    "log1p": (np.log1p, lambda x: 1 / (1 + x), lambda x: -1 / (1 + x) ** 2),
    "sinh": (np.sinh, np.cosh, np.sinh),
}
"""Values and two derivatives, for numbers that are wider than those of the operators."""
NAMES = sorted(EXACT)


def total(x: Array) -> Array:
    y = op.stack([getattr(op, name)(x[number]) for number, name in enumerate(NAMES)])
    return op.sum(y), y


def total_slope(x: Array) -> Array:
    slope, y = tessera.grad(total, has_aux=True)(x)
    return op.sum(slope), (y, slope)


DERIVED: Callable[..., Any] = tessera.grad(total_slope, has_aux=True)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_units_in_the_last_place(dtype: type[np.floating]):
    with np.errstate(all="ignore"):
        x = np.unique(POINTS.astype(dtype))
        exact = [[f(x.astype(np.longdouble)) for f in EXACT[name]] for name in NAMES]
    greatest = np.finfo(dtype).max / 4  # derivatives of hyperbolic functions overflow a little earlier than they need
    for target in TARGETS:
        with overridden(target=target):
            curve, (y, slope) = DERIVED(np.broadcast_to(x, (len(NAMES), *x.shape)).copy())
        results = [np.asarray(each) for each in (y, slope, curve)]
        for number, name in enumerate(NAMES):
            for got, want, most in zip(results, exact[number], (3.5, 4.0, 6.0), strict=True):
                inside = np.abs(want) < greatest
                unit = np.spacing(np.abs(want[inside]).astype(dtype))
                assert (np.abs(got[number][inside] - want[inside]) <= most * unit).all(), name
                np.testing.assert_array_equal(np.isnan(got[number]), np.isnan(want))


SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, -1.0, -2.0]


@pytest.mark.parametrize("dtype", ["f32", "f16"])
def test_zeros_infinities_and_nan(dtype: str):
    x = np.array(SPECIAL, FLOATS[dtype])
    got = everywhere(lambda x: total(x)[1], np.broadcast_to(x, (len(NAMES), *x.shape)).copy())
    assert got.dtype == x.dtype
    for name, each in zip(NAMES, got, strict=True):
        with np.errstate(all="ignore"):
            want = getattr(np, name)(x.astype(np.float64))
        close(each, want, TOLERANCE[dtype])
        number = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(each)[number], np.signbit(want)[number])


def test_derivatives_at_the_ends():
    x = np.broadcast_to(np.array([0.0, math.inf, -math.inf]), (len(NAMES), 3)).copy()
    curve, (_, slope) = DERIVED(x)
    slopes, curves = (dict(zip(NAMES, np.asarray(each), strict=True)) for each in (slope, curve))
    np.testing.assert_array_equal(slopes["expm1"], [1, math.inf, 0])
    np.testing.assert_array_equal(curves["expm1"], [1, math.inf, 0])
    np.testing.assert_array_equal(slopes["log1p"], [1, 0, 0])
    np.testing.assert_array_equal(slopes["cosh"], [0, math.inf, -math.inf])
    np.testing.assert_array_equal(curves["cosh"], [1, math.inf, math.inf])
    np.testing.assert_array_equal(slopes["sinh"], [1, math.inf, math.inf])


PAIRS = [-math.inf, -745.0, -1.0, 0.0, 1e-3, 1.0, 2.0, 89.0, 1e30, math.inf]


@pytest.mark.parametrize("dtype", FLOATS)
def test_sums_of_exponentials(dtype: str):
    with np.errstate(all="ignore"):
        numbers = np.array(PAIRS).astype(FLOATS[dtype])
        a, b = numbers[:, None], numbers
        wide = a.astype(np.float64), b.astype(np.float64)
        want = np.logaddexp(*wide)
        alike = np.isnan(wide[0] - wide[1])  # of two alike infinities the first has all
        shares = [
            np.where(alike, of_alike, 1 / (1 + np.exp(second - first)))
            for first, second, of_alike in ((*wide, 1.0), (*wide[::-1], 0.0))
        ]
    for target in TARGETS if dtype in ("f64", "f32") else ("interpret",):
        with overridden(target=target):
            (first, second), result = tessera.grad(
                lambda a, b: (op.sum(y := op.logaddexp(a, b)), y), (0, 1), has_aux=True
            )(np.broadcast_to(a, want.shape).copy(), np.broadcast_to(b, want.shape).copy())
        assert np.asarray(result).dtype == numbers.dtype
        with np.errstate(all="ignore"):
            right = want.astype(numbers.dtype).astype(np.float64)
        np.testing.assert_allclose(np.asarray(result).astype(np.float64), right, rtol=2 * TOLERANCE[dtype])
        for got, share in zip((first, second), shares, strict=True):
            slopes = np.asarray(got).astype(np.float64)
            np.testing.assert_allclose(slopes, share, rtol=4 * TOLERANCE[dtype], atol=1e-37)


@settings(max_examples=10)
@given(shape=st.lists(st.integers(0, 4), max_size=3).map(tuple), dtype=st.sampled_from(sorted(FLOATS)))
def test_arrays_of_any_shape(shape: tuple[int, ...], dtype: str):
    x = drawn(shape, FLOATS[dtype], 1, 0.1, 3)
    with overridden(target="interpret"):
        for name in NAMES:
            close(getattr(op, name)(x), getattr(np, name)(x.astype(np.float64)), 2 * TOLERANCE[dtype])
        close(op.logaddexp(x, 0.1), np.logaddexp(x.astype(np.float64), 0.1), 2 * TOLERANCE[dtype])
        close(op.logaddexp(2, x), np.logaddexp(2.0, x.astype(np.float64)), 2 * TOLERANCE[dtype])


def test_integers_give_f32():
    x = np.arange(1, 6, dtype=np.int32)
    for name in NAMES:
        got = np.asarray(getattr(op, name)(x))
        assert got.dtype == np.float32
        close(got, getattr(np, name)(x.astype(np.float64)), 4e-7)
    assert np.asarray(op.logaddexp(x, x)).dtype == np.float32


def test_arrays_that_do_not_broadcast():
    with pytest.raises(OperandMismatch) as raised:
        op.logaddexp(np.ones(3), np.ones(4))
    assert "do not broadcast together" in str(raised.value).partition("\n")[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cube_roots(dtype: type[np.floating]):
    info = np.finfo(dtype)
    with np.errstate(all="ignore"):
        x = np.unique(np.concatenate([POINTS, np.logspace(-40, 38, 500), [info.max, info.tiny]]).astype(dtype))
    x = np.concatenate([x, np.array([-0.0, math.inf, -math.inf, math.nan], dtype)])
    exact = np.cbrt(x.astype(np.longdouble))
    for target in TARGETS:
        with overridden(target=target):
            got = np.asarray(op.cbrt(x))
        finite = np.isfinite(exact)
        assert (np.abs(got[finite] - exact[finite]) <= 1.0 * np.spacing(np.abs(exact[finite]).astype(dtype))).all()
        np.testing.assert_array_equal(got[~finite], exact[~finite].astype(dtype))
        np.testing.assert_array_equal(np.signbit(got)[:-1], np.signbit(x)[:-1])


def test_sums_of_powers_of_two():
    a, b = np.meshgrid(np.array([*PAIRS, 3.0, 1000.0]), np.array(PAIRS))
    with np.errstate(all="ignore"):
        want = np.logaddexp2(a, b)
    close(everywhere(op.logaddexp2, a, b), want, 1e-13)
