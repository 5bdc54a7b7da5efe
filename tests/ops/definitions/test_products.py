"""Products along axes against NumPy and exact numbers, with derivatives where factors are 0."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportCallIssue=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false, reportArgumentType=false, reportUnknownArgumentType=false

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import tessera
from support.operators import FLOATS, INTEGERS, TARGETS, TOLERANCE, close, drawn
from tessera import graph, op
from tessera.core.settings import overridden
from tessera.ops.definitions.products import BLOCK

KINDS: dict[str, Any] = {**FLOATS, **INTEGERS, "bool": np.bool_}


def blocked(x: NDArray[Any]) -> float:
    """Return the product of a vector in the association that the operator promises."""
    factors = list(x)
    while len(factors) > 1:
        blocks = [factors[n : n + BLOCK] for n in range(0, len(factors), BLOCK)]
        factors = [np.multiply.accumulate(block)[-1] for block in blocks]
    return factors[0]


@pytest.mark.parametrize("dtype", ["f16", "f32"])
def test_products_beyond_the_range_are_infinite(dtype: str):
    x = np.full(400, 3, KINDS[dtype])
    with overridden(target="interpret"):
        assert np.asarray(op.prod(x)) == np.inf


@settings(max_examples=60, deadline=None)
@given(data=st.data(), dtype=st.sampled_from(sorted(KINDS)))
def test_products_of_any_shape(data: st.DataObject, dtype: str):
    shape = data.draw(st.lists(st.integers(0, 10), max_size=3).map(tuple))
    axes = data.draw(st.one_of(st.none(), st.sets(st.integers(0, len(shape) - 1)).map(tuple))) if shape else None
    keepdims = data.draw(st.booleans())
    bounds = (0.9, 1.1) if dtype in FLOATS else (0.5, 5)  # a thousand of them stay in the range of every float
    x = drawn(shape, KINDS[dtype], data.draw(st.integers(0, 9)), *bounds)
    with overridden(target="interpret"):
        got = np.asarray(op.prod(x, axes, keepdims=keepdims))
    wide = x.astype(np.float64) if dtype in FLOATS else x
    want = np.asarray(np.prod(wide, axis=axes, keepdims=keepdims))
    if dtype in FLOATS:
        assert got.dtype == x.dtype
        close(got, want.astype(x.dtype), (8 if dtype == "f32" else 1) * TOLERANCE[dtype])
    else:
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("target", TARGETS)
def test_the_association_is_that_of_blocks(target: str):
    several = graph.module("several")(lambda *rows: tuple(op.prod(row) for row in rows))
    rows = [drawn((n,), np.float32, n, 0.7, 1.4) for n in (1, 7, 8, 9, 64, 65, 513, 1000)]
    with overridden(target=target):
        for got, row in zip(several(*rows), rows, strict=True):
            assert got == blocked(row)


@settings(max_examples=40, deadline=None)
@given(data=st.data(), dtype=st.sampled_from(sorted(KINDS)))
def test_running_products_of_any_shape(data: st.DataObject, dtype: str):
    shape = data.draw(st.lists(st.integers(0, 20), min_size=1, max_size=2).map(tuple))
    axis = data.draw(st.one_of(st.none(), st.integers(-len(shape), len(shape) - 1)))
    x = drawn(shape, KINDS[dtype], data.draw(st.integers(0, 9)), 0.9, 1.1 if dtype in FLOATS else 4)
    with overridden(target="interpret"):
        got = np.asarray(op.cumprod(x, axis))
    want = np.cumprod(x.astype(np.float64) if dtype in FLOATS else x, axis)
    if dtype in FLOATS:
        assert got.dtype == x.dtype
        close(got, want, 32 * TOLERANCE["f32"] if dtype == "f32" else TOLERANCE[dtype])
    else:
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


def test_long_running_products():
    x = drawn((2, 700), np.float64, 0, 0.9, 1.1)
    with overridden(target="cpu"):
        np.testing.assert_allclose(np.asarray(op.cumprod(x, 1)), x.cumprod(1), rtol=1e-12)


def test_numbers_that_are_none():
    x = np.array([[np.inf, 0.0], [np.nan, 1.0], [-np.inf, 2.0], [-0.0, 1.0]])
    with overridden(target="interpret"), np.errstate(invalid="ignore"):
        got = np.asarray(op.prod(x, 1))
        np.testing.assert_array_equal(got, x.prod(1))
        assert np.signbit(got[3])


def of_the_others(x: NDArray[Any]) -> NDArray[Any]:
    """Return the derivative of the product of a vector."""
    return np.array([np.prod(np.delete(x, n)) for n in range(len(x))])


@settings(max_examples=20, deadline=None)
@given(data=st.data(), length=st.sampled_from([1, 3, 8, 13, 70]))
def test_derivatives_where_factors_are_0(data: st.DataObject, length: int):
    x = drawn((length,), np.float64, length, 0.8, 1.3)
    for n in data.draw(st.lists(st.integers(0, length - 1), max_size=2)):
        x[n] = 0.0
    slope: Any = tessera.grad(op.prod)
    running: Any = tessera.grad(lambda v: op.cumprod(v)[-1])
    with overridden(target="interpret"):
        np.testing.assert_allclose(np.asarray(slope(x)), of_the_others(x), rtol=1e-12)
        np.testing.assert_allclose(np.asarray(running(x)), of_the_others(x), rtol=1e-12)


def test_second_derivatives_where_two_factors_are_0():
    x = np.array([2.0, 0.0, 3.0, 0.0, 5.0])
    with overridden(target="interpret"):
        (got,) = tessera.hvp(op.prod, (x,), (np.array([0.0, 1.0, 0.0, 0.0, 0.0]),))
    np.testing.assert_allclose(got, [0.0, 0.0, 0.0, 30.0, 0.0])
