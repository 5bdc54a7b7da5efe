"""NumPy's functions of numbers, against NumPy."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportCallIssue=false, reportUnknownArgumentType=false

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import DTypeLike, NDArray

import tessera
from support.operators import FLOATS, INTEGERS, TARGETS, TOLERANCE, Array, close, drawn, everywhere
from tessera import graph, op
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.settings import overridden

Numbers = NDArray[Any]
EDGES = (0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.0, 7.25, 1e-40, -1e-30, 1e30, -3e38, math.inf, -math.inf, math.nan)
BOTH = ("floor_divide", "mod", "remainder")
LOGIC = ("logical_and", "logical_or", "logical_xor")


def pairs(dtype: DTypeLike) -> tuple[Numbers, Numbers]:
    """Every edge with every other one."""
    with np.errstate(all="ignore"):
        numbers = np.array(EDGES).astype(dtype)
    a, b = np.broadcast_arrays(numbers[:, None], numbers)
    return a.copy(), b.copy()


def alike(got: Array, want: Numbers) -> None:
    """Equal, with the sign of each zero; NaN where NaN is."""
    result = np.asarray(got)
    assert result.dtype == want.dtype
    with np.errstate(all="ignore"):
        a, b = result.astype(np.float64), want.astype(np.float64)
    np.testing.assert_array_equal(a, b)
    number = ~np.isnan(b)
    np.testing.assert_array_equal(np.signbit(a)[number], np.signbit(b)[number])


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16"])
def test_quotients_and_remainders_of_floats(dtype: str):
    a, b = pairs(FLOATS[dtype])
    for target in TARGETS if dtype == "f32" else ("interpret",):
        with overridden(target=target):
            got = graph.module("each")(lambda a, b: tuple(getattr(op, name)(a, b) for name in BOTH))(a, b)
        with np.errstate(all="ignore"):
            for name, each in zip(BOTH, got, strict=True):
                wide = (v.astype(np.float32) if dtype == "f16" else v for v in (a, b))
                want = getattr(np, name)(*wide).astype(a.dtype)
                finite = np.isfinite(want)
                np.testing.assert_array_equal(np.asarray(each)[finite], want[finite])
                np.testing.assert_array_equal(np.isnan(each), np.isnan(want))


@settings(max_examples=15)
@given(data=st.data(), dtype=st.sampled_from(sorted(INTEGERS)))
def test_quotients_and_remainders_of_integers(data: st.DataObject, dtype: str):
    info = np.iinfo(INTEGERS[dtype])
    element = st.integers(int(info.min), int(info.max)) | st.integers(0 if dtype == "u8" else -9, 9)
    a, b = (np.array(data.draw(st.lists(element, min_size=7, max_size=7)), INTEGERS[dtype]) for _ in range(2))
    b[(b == -1) & (a == info.min)] = 1
    with overridden(target="interpret"), np.errstate(all="ignore"):
        for name in BOTH:
            alike(getattr(op, name)(a, b), getattr(np, name)(a, b))


@pytest.mark.parametrize("target", TARGETS)
def test_powers(target: str):
    a, b = drawn((5, 7), np.float64, 1, 0.1, 3.0), drawn((7,), np.float64, 2, -3.0, 3.0)
    with overridden(target=target):
        close(op.power(a, b), a**b, 1e-14)
        close(op.power(a, 2), a * a, 1e-15)
        close(op.power(2, b), 2.0**b, 1e-14)
        np.testing.assert_array_equal(op.power(np.arange(5), np.array(3)), np.arange(5) ** 3)
        np.testing.assert_array_equal(op.power(-a, 3.0) < 0, np.ones(a.shape, bool))


@pytest.mark.parametrize("dtype", ["f64", "f32", "bf16"])
def test_hypotenuses_of_extreme_numbers(dtype: str):
    info = ml_dtypes.finfo(FLOATS[dtype])
    numbers = [0.0, -0.0, 1.0, -3.0, 4.0, math.inf, -math.inf, math.nan, float(info.max) / 2, float(info.tiny) * 3]
    numbers += [
        -float(info.tiny) * 4,
        math.sqrt(float(info.max)),
        math.sqrt(float(info.tiny)),
        float(info.smallest_subnormal),
    ]
    numpy_dtype = FLOATS[dtype]
    with np.errstate(all="ignore"):
        a, b = (
            each.copy()
            for each in np.broadcast_arrays(
                np.array(numbers).astype(numpy_dtype)[:, None], np.array(numbers).astype(numpy_dtype)
            )
        )
        wide = np.longdouble if dtype == "f64" else np.float64
        exact = np.hypot(a.astype(wide), b.astype(wide))
        want = exact.astype(np.float64 if dtype == "f64" else numpy_dtype)
        share = np.where(exact == 0, 0.0, a.astype(wide) / np.where(exact == 0, 1, exact)).astype(np.float64)
    share = np.where(np.isinf(a.astype(float)), np.sign(a.astype(float)), share)
    for target in TARGETS if dtype == "f32" else ("interpret",):
        with overridden(target=target):
            slope, got = tessera.grad(lambda a, b: (op.sum(y := op.hypot(a, b)), y), has_aux=True)(a, b)
        got, slope = np.asarray(got), np.asarray(slope).astype(np.float64)
        assert got.dtype == numpy_dtype
        np.testing.assert_allclose(got.astype(np.float64), want.astype(np.float64), rtol=TOLERANCE[dtype],
                                   atol=float(info.smallest_subnormal))  # fmt: skip
        normal = np.isfinite(share) & ((exact > float(info.tiny)) | (exact == 0))
        np.testing.assert_allclose(slope[normal], share[normal], rtol=8 * TOLERANCE[dtype], atol=1e-18)
        assert not np.isnan(slope[~(np.isnan(a.astype(float)) | np.isnan(b.astype(float)))]).any()


def test_hypotenuses_of_equal_numbers_share_the_derivative():
    first, second = tessera.grad(lambda a, b: op.sum(op.hypot(a, b)), (0, 1))(
        np.array([2.0, -2.0]), np.array([2.0, 2.0])
    )
    np.testing.assert_allclose(first, [math.sqrt(0.5), -math.sqrt(0.5)], rtol=1e-15)
    np.testing.assert_allclose(second, [math.sqrt(0.5), math.sqrt(0.5)], rtol=1e-15)


@pytest.mark.parametrize("dtype", FLOATS)
def test_signs_of_other_numbers(dtype: str):
    a, b = pairs(FLOATS[dtype])
    b[np.isnan(b)] = 2
    with overridden(target="interpret"):
        alike(op.copysign(a, b), np.copysign(a, b))
        alike(op.copysign(a, -0.0), np.copysign(a, a.dtype.type(-0.0)))
        assert np.asarray(op.copysign(3, np.array([-1.0, 1.0]))).tolist() == [-3.0, 3.0]
        assert np.asarray(op.copysign(np.array([1.0]), np.array([-math.nan]))).tolist() == [1.0]


def test_signs_of_other_numbers_on_each_target():
    a, b = pairs(np.float32)
    b[np.isnan(b)] = -2
    alike(everywhere(op.copysign, a, b), np.copysign(a, b))
    slope = tessera.grad(lambda a, b: op.sum(op.copysign(a, b)))(np.array([3.0, -3.0, 2.0]), np.array([1.0, 1.0, -0.0]))
    np.testing.assert_array_equal(slope, [1.0, -1.0, -1.0])


@pytest.mark.parametrize("dtype", FLOATS)
def test_which_numbers_are_finite(dtype: str):
    with np.errstate(all="ignore"):
        x = np.array(EDGES).astype(FLOATS[dtype])
    for target in TARGETS if dtype in ("f64", "bf16") else ("interpret",):
        with overridden(target=target):
            got = graph.module("each")(lambda x: (op.isnan(x), op.isinf(x), op.isfinite(x)))(x)
        for each, want in zip(got, (np.isnan(x), np.isinf(x), np.isfinite(x)), strict=True):
            alike(each, want)


@pytest.mark.parametrize("dtype", [*INTEGERS.values(), np.bool_])
def test_every_integer_is_finite(dtype: DTypeLike):
    x = np.array([0, 1, 0], dtype)
    with overridden(target="interpret"):
        for name, want in (("isnan", False), ("isinf", False), ("isfinite", True)):
            alike(getattr(op, name)(x), np.full(3, want))
        if dtype != np.bool_:
            alike(op.nan_to_num(x), x)


@pytest.mark.parametrize("dtype", FLOATS)
def test_numbers_instead_of_nan_and_infinities(dtype: str):
    numpy_dtype = FLOATS[dtype]
    with np.errstate(all="ignore"):
        x = np.array(EDGES).astype(numpy_dtype)
    largest = float(ml_dtypes.finfo(numpy_dtype).max)
    wide = x.astype(np.float64)
    with overridden(target="interpret"):
        want = np.nan_to_num(wide, posinf=largest, neginf=-largest).astype(numpy_dtype)
        alike(op.nan_to_num(x), want)
        alike(
            op.nan_to_num(x, nan=1.5, posinf=2, neginf=-math.inf),
            np.nan_to_num(wide, nan=1.5, posinf=2, neginf=-np.inf).astype(numpy_dtype),
        )
        slope = tessera.grad(lambda x: op.sum(op.nan_to_num(x)))(x)
    np.testing.assert_array_equal(np.asarray(slope).astype(float), np.isfinite(wide) * 1.0)


@settings(max_examples=15)
@given(
    first=st.sampled_from(["f32", "f64", "i32", "u8", "bool", "f16"]), second=st.sampled_from(["f32", "i64", "bool"]),
    seed=st.integers(0, 99),
)  # fmt: skip
def test_logic(first: str, second: str, seed: int):
    kinds = {**FLOATS, **INTEGERS, "bool": np.bool_}
    rng = np.random.default_rng(seed)
    a, b = (rng.integers(0, 3, shape).astype(kinds[name]) for name, shape in ((first, (3, 1)), (second, (4,))))
    if first in FLOATS:
        a[0] = rng.choice([math.nan, -0.0, math.inf])
    with overridden(target="interpret"):
        for name in LOGIC:
            alike(getattr(op, name)(a, b), getattr(np, name)(a, b))
        alike(op.logical_not(a), np.logical_not(a))
        alike(op.logical_and(a, True), np.logical_and(a, True))


def test_logic_on_each_target():
    a, b = np.array([0.0, math.nan, -0.0, 2.0], np.float32), np.array([1, 0, 1, 0], np.int32)
    for name in LOGIC:
        alike(everywhere(getattr(op, name), a, b), getattr(np, name)(a, b))


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16"])
def test_tangents_and_reciprocals(dtype: str):
    x = drawn((3, 50), FLOATS[dtype], 1, -7, 7)
    got = everywhere(lambda x: op.stack([op.tan(x), op.reciprocal(x)]), x)
    wide = x.astype(np.float64)
    for each, want in zip(got, (np.tan(wide), 1 / wide), strict=True):
        np.testing.assert_allclose(each.astype(np.float64), want, rtol=2 * TOLERANCE[dtype])
    with np.errstate(all="ignore"):
        alike(op.reciprocal(np.array([0.0, -0.0, math.inf])), np.reciprocal(np.array([0.0, -0.0, math.inf])))
    assert np.isnan(np.asarray(op.tan(np.array([math.inf, math.nan])))).all()
    np.testing.assert_allclose(op.reciprocal(np.array([2, 4], np.int32)), np.array([0.5, 0.25], np.float32))


@pytest.mark.parametrize("name", [*BOTH, *LOGIC, "power", "hypot", "copysign"])
def test_shapes_that_do_not_broadcast(name: str):
    call: Callable[..., object] = getattr(op, name)
    with pytest.raises(OperandMismatch) as raised:
        call(np.ones((3, 4)), np.ones(3))
    first, _, listing = str(raised.value).partition("\n")
    assert "do not broadcast together" in first
    assert "test_arithmetic.py, line" in listing


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16"])
def test_remainders_and_extremes_as_c_has_them(dtype: str):
    a, b = pairs(FLOATS[dtype])
    for target in TARGETS if dtype == "f32" else ("interpret",):
        with overridden(target=target):
            remainder, greater, lesser, step = graph.module("each")(
                lambda a, b: (op.fmod(a, b), op.fmax(a, b), op.fmin(a, b), op.heaviside(a, b))
            )(a, b)
        with np.errstate(all="ignore"):
            alike(remainder, np.fmod(a, b))
            for got, want in ((greater, np.fmax(a, b)), (lesser, np.fmin(a, b))):
                np.testing.assert_array_equal(np.asarray(got), want)  # of two zeros either is the greater
            alike(step, np.heaviside(a, b))


def test_signs_of_bits():
    for dtype in FLOATS.values():
        with np.errstate(all="ignore"):
            x = np.array(EDGES).astype(dtype)
        np.testing.assert_array_equal(everywhere(op.signbit, x), np.signbit(np.where(np.isnan(x), 0, x)))
    np.testing.assert_array_equal(everywhere(op.signbit, np.array([-1, 0, 3])), [True, False, False])


def test_derivatives_of_remainders_and_extremes():
    a, b = np.array([7.5, -7.5, math.nan, 2.0]), np.array([2.0, 2.0, 1.0, math.nan])
    by_a, by_b = tessera.grad(lambda a, b: op.sum(op.fmod(a, b)), (0, 1))(a[:2], b[:2])
    np.testing.assert_array_equal(by_a, [1, 1])
    np.testing.assert_array_equal(by_b, [-3, 3])
    by_a, by_b = tessera.grad(lambda a, b: op.sum(op.fmax(a, b)), (0, 1))(a, b)
    np.testing.assert_array_equal(by_a, [1, 0, 0, 1])
    np.testing.assert_array_equal(by_b, [0, 1, 1, 0])
