"""Pools against their definition: windows, padding, partial windows, counts, NaN, integers, derivatives of ties."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportArgumentType=false, reportUnknownMemberType=false

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import DTypeLike

import tessera
from support.image_references import adaptively_pooled, pooled
from support.operators import FLOATS, TOLERANCE, Array, close, drawn, everywhere
from tessera import op
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.settings import overridden


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_pools_of_any_form(data: st.DataObject):
    rank = data.draw(st.integers(1, 3))

    def numbers(low: int, high: int) -> tuple[int, ...]:
        return tuple(data.draw(st.integers(low, high)) for _ in range(rank))

    size, stride, more, ceil_mode = numbers(1, 3), numbers(1, 3), numbers(0, 5), data.draw(st.booleans())
    padding = tuple(data.draw(st.integers(0, n // 2)) for n in size)
    x = drawn((2, *(n + m for n, m in zip(size, more, strict=True))), np.float64, data.draw(st.integers(0, 99)))
    include = data.draw(st.booleans())
    with overridden(target="interpret"):
        got = getattr(op, f"max_pool{rank}d")(x, size, stride, padding, ceil_mode=ceil_mode)
        np.testing.assert_array_equal(got, pooled(x, size, stride, padding, kind="max", ceil_mode=ceil_mode))
        got = getattr(op, f"avg_pool{rank}d")(
            x, size, stride, padding, ceil_mode=ceil_mode, count_include_pad=include
        )  # fmt: skip
        want = pooled(x, size, stride, padding, kind="avg", ceil_mode=ceil_mode, count_include_pad=include)
        close(got, want, 1e-13)


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(1, 7)), min_size=1, max_size=3), st.sampled_from(("avg", "max"))
)
def test_adaptive_pools_of_any_form(axes: list[tuple[int, int]], kind: str):
    x, size = drawn((2, *(n for n, _ in axes)), np.float64, 3), [parts for _, parts in axes]
    with overridden(target="interpret"):
        close(getattr(op, f"adaptive_{kind}_pool{len(axes)}d")(x, size), adaptively_pooled(x, size, kind=kind), 1e-13)


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
def test_dtypes(dtype: str):
    x = drawn((2, 3, 9, 8), FLOATS[dtype], 1)
    wide = x.astype(np.float64)
    got = everywhere(lambda x: op.max_pool2d(x, 3, 2, 1), x)
    np.testing.assert_array_equal(got.astype(np.float64), pooled(wide, (3, 3), (2, 2), (1, 1), kind="max"))
    got = everywhere(lambda x: op.avg_pool2d(x, 3, 2, 1), x)
    assert got.dtype == x.dtype
    close(got, pooled(wide, (3, 3), (2, 2), (1, 1), kind="avg"), 2 * TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint8, np.bool_])
def test_the_greatest_of_integers(dtype: DTypeLike):
    """Padding is less than the least integer, -128 of i8 too, which no 0 is."""
    x = np.full((1, 5), np.iinfo(dtype).min if np.dtype(dtype).kind == "i" else 0, dtype)
    x[0, 4] = 1
    got = everywhere(lambda x: op.max_pool1d(x, 3, 1, 1), x)
    assert got.dtype == dtype
    np.testing.assert_array_equal(got, [[x[0, 0], x[0, 0], x[0, 0], 1, 1]])


def test_nan_wins_and_infinities_stay_in_their_windows():
    x = np.array([[1.0, math.nan, 2.0, 3.0, -math.inf, -math.inf, math.inf, 0.0]])
    np.testing.assert_array_equal(everywhere(lambda x: op.max_pool1d(x, 2), x), [[math.nan, 3.0, -math.inf, math.inf]])
    np.testing.assert_array_equal(everywhere(lambda x: op.avg_pool1d(x, 2), x), [[math.nan, 2.5, -math.inf, math.inf]])
    y = np.array([[0.0, 1.0, 2.0, math.inf, math.inf, 5.0, 6.0]])
    np.testing.assert_array_equal(everywhere(lambda y: op.adaptive_avg_pool1d(y, 3), y)[0, 0], 1.0)


def test_the_first_of_equal_elements_has_the_derivative():
    x = np.zeros((4, 4))
    slope = tessera.grad(lambda x: op.sum(op.max_pool2d(x, 2) * np.array([[1.0, 2.0], [3.0, 4.0]])))(x)
    np.testing.assert_array_equal(slope, [[1, 0, 2, 0], [0, 0, 0, 0], [3, 0, 4, 0], [0, 0, 0, 0]])


def test_a_divisor_of_their_own():
    x = drawn((2, 7), np.float64, 1)
    got = everywhere(lambda x: op.avg_pool1d(x, 3, 2, 1, divisor_override=7), x)
    close(got, pooled(x, (3,), (2,), (1,), kind="avg", divisor=7), 1e-13)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: op.avg_pool1d(x, 2, divisor_override=0), "divisor_override=0"),
        (lambda x: op.max_pool2d(x, 2, stride=0), "stride 0: it is less than 1"),
        (lambda x: op.max_pool3d(x, 2), "max_pool3d of .3, 4."),
        (lambda x: op.adaptive_avg_pool2d(x, (1, 2, 3)), "of size .1, 2, 3."),
    ],
)
def test_bad_operands(call: Any, message: str):  # noqa: ANN401
    with pytest.raises(OperandMismatch, match=rf"^[^\n]*(?:{message})"):
        call(drawn((3, 4), np.float32))


def test_none_keeps_an_extent():
    x = drawn((2, 5, 6), np.float64, 1)

    def pool(x: Array) -> Array:
        return op.adaptive_max_pool2d(x, (None, 3))

    np.testing.assert_array_equal(everywhere(pool, x), x.reshape(2, 5, 3, 2).max(-1))
