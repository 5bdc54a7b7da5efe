"""Python numbers beside arrays: NumPy's values, or a refusal, for numbers that a dtype does not hold."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.operators import INTEGERS, Array
from tessera import graph, op
from tessera.core.base.dtypes import DType, bf16, boolean, f16, f32, f64, fp8_e4m3, fp8_e5m2, i8, i64, u8, u64
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.expr import Literal
from tessera.core.settings import overridden
from tessera.graphs.operands.numbers import clipped_bounds, held_number, holds_outside, is_outside, literal, range_of

COMPARISONS = {"lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq,
               "ne": operator.ne}  # fmt: skip
NUMBERS = st.one_of(st.integers(-300, 300), st.integers(-(2**70), 2**70))


def test_ranges():
    assert range_of(i8) == (-128, 127)
    assert range_of(u64) == (0, 2**64 - 1)
    assert is_outside(256, u8)
    assert is_outside(-1, u8)
    assert not is_outside(255, u8)
    assert not is_outside(True, u8)
    assert not is_outside(1e9, u8)
    assert not is_outside(2**40, f32)
    assert not is_outside(2, boolean)


def test_literals():
    assert literal(255, u8) == Literal(255, u8)
    assert literal(3, f32) == Literal(3.0, f32)
    with pytest.raises(OperandMismatch, match=r"300 is no u8, which holds 0 to 255") as raised:
        literal(300, u8)
    assert raised.value.hint == "convert the array first: x.astype('i64')"
    with pytest.raises(OperandMismatch, match=r"is no i64") as raised:
        literal(2**63, i64)
    assert "astype" not in str(raised.value.hint)
    with pytest.raises(OperandMismatch, match=r"an integer of 2001 bits is no f32"):
        literal(2**2000, f32)


@given(NUMBERS, st.sampled_from(sorted(COMPARISONS)))
def test_what_lies_outside_compares_alike_with_every_element(number: int, predicate: str):
    least, greatest = range_of(i8)
    if is_outside(number, i8):
        for element in (least, 0, greatest):
            assert holds_outside(predicate, None, number) == COMPARISONS[predicate](element, number)
            assert holds_outside(predicate, number, None) == COMPARISONS[predicate](number, element)


@pytest.mark.parametrize("target", ["interpret", "cpu"])
@pytest.mark.parametrize("name", INTEGERS)
def test_comparisons_by_value(name: str, target: str):
    """One graph of all comparisons with numbers on both sides of the dtype's range, either way round."""
    limits = np.iinfo(INTEGERS[name])
    x = np.array([limits.min, 0, 1, limits.max], INTEGERS[name])
    numbers = (int(limits.min) - 1, int(limits.max) + 1, -(2**80), 2**80, 1)

    def compared(x: Array) -> tuple[Array, ...]:
        return tuple(each for n in numbers for f in COMPARISONS.values() for each in (f(x, n), f(n, x)))

    with overridden(target=target):
        results = graph.module(compared)(x)
    exact = np.array([int(element) for element in x], object)
    for got, want in zip(results, compared(exact), strict=True):
        np.testing.assert_array_equal(np.asarray(got), want.astype(bool))


REFUSED: list[Callable[[Any, Any], Any]] = [
    operator.add,
    operator.mul,
    operator.floordiv,
    operator.and_,
    operator.rshift,
]


@pytest.mark.parametrize("apply", REFUSED)
def test_arithmetic_with_what_a_dtype_does_not_hold_is_refused(apply: Callable[[Array, int], Array]):
    x = np.array([3, 200], np.uint8)
    for number in (300, -1):
        with pytest.raises(OperandMismatch, match=rf"{number} is no u8"):
            graph.module(lambda x, n=number: apply(x, n))(x)
    with pytest.raises(OperandMismatch, match="is no u8"):
        op.where(x > 100, x, -1)
    with pytest.raises(OperandMismatch, match="is no u8"):
        op.maximum(x, 300)


def test_bounds_that_no_element_reaches():
    assert clipped_bounds(-5, 300, u8) == (0, 255)
    assert clipped_bounds(-5.0, 300, f32) == (-5.0, 300)
    assert clipped_bounds(None, 7, u8) == (None, 7)
    x = np.array([0, 44, 200, 255], np.uint8)
    np.testing.assert_array_equal(op.clip(x, -5, 300), x)
    np.testing.assert_array_equal(op.clip(x, 10), np.clip(x, 10, None))
    np.testing.assert_array_equal(op.clip(x, high=100), np.clip(x, None, 100))
    np.testing.assert_array_equal(op.clip(x), x)
    with pytest.raises(OperandMismatch, match="300 is no u8"):
        op.clip(x, 300, 400)


def test_sums_of_integers_have_room_as_numpys_do():
    for name, dtype in INTEGERS.items():
        x = np.full(400, np.iinfo(dtype).max // 2 if name != "i64" else 7, dtype)
        for got, want in ((op.sum(x), np.sum(x)), (op.cumsum(x), np.cumsum(x))):
            assert np.asarray(got).dtype == want.dtype
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(
    ("number", "dtype", "held"),
    [
        (3, f16, 3.0), (math.inf, bf16, math.inf), (-0.0, f32, -0.0), (np.float32(0.5), f64, 0.5), (True, i8, 1),
        (-128, i8, -128), (2**64 - 1, u64, 2**64 - 1), (1, boolean, True), (0.0, boolean, False), (448, fp8_e4m3, 448.0),
        (math.inf, fp8_e5m2, math.inf), (True, f32, 1.0),
    ],
)  # fmt: skip
def test_numbers_that_a_dtype_holds(number: object, dtype: DType, held: float):
    got = held_number(number, dtype)
    assert (got, type(got)) == (held, type(held))
    assert math.copysign(1, got) == math.copysign(1, held)


def test_nan_is_a_float():
    assert math.isnan(held_number(math.nan, f16))


@pytest.mark.parametrize(
    ("number", "dtype", "message"),
    [
        (128, i8, "128 is no i8"), (0.5, i64, "0.5 is no i64"), (math.inf, u8, "inf is no u8"), (1.0, i8, "1.0 is no i8"),
        (2, boolean, "2 is no bool"), (70000, f16, "70000 is no f16"), (1e39, f32, r"1e\+39 is no f32"),
        (math.inf, fp8_e4m3, "inf is no fp8_e4m3"), (10**400, f64, "is no f64"), ("x", f32, "'x' is no number"),
        (1j, f32, "is no number"),
    ],
)  # fmt: skip
def test_numbers_that_a_dtype_does_not_hold(number: object, dtype: DType, message: str):
    with pytest.raises(OperandMismatch, match=rf"^[^\n]*(?:{message})"):
        held_number(number, dtype)
