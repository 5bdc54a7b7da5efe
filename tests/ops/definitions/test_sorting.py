"""Sorting against NumPy: ties, NaN, signed zeros, every dtype, both directions, and derivatives."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportCallIssue=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false, reportArgumentType=false, reportUnknownArgumentType=false

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import tessera
from support.operators import FLOATS, TARGETS, Array, drawn
from tessera import graph, op
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.settings import overridden

INTEGERS: dict[str, Any] = {
    name: getattr(np, name) for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
}
KINDS: dict[str, Any] = {**FLOATS, **INTEGERS, "bool": np.bool_}
ODD = [0.0, -0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan, -np.nan]


def order_of(row: NDArray[Any], *, descending: bool) -> list[int]:
    """Return the indices in order by Python's stable sort of exact keys: NaN greatest, zeros equal."""

    def key(n: int) -> tuple[bool, Any]:
        value = row[n].item()
        return (True, 0) if value != value else (False, value)  # noqa: PLR0124

    if descending:  # Python keeps the order of equal elements in reverse, too
        return sorted(range(len(row)), key=key, reverse=True)
    return sorted(range(len(row)), key=key)


def elements(data: st.DataObject, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """Return elements with many ties, and the extremes of their dtype."""
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    if dtype in FLOATS:
        return rng.choice(np.array(ODD), shape).astype(KINDS[dtype])
    if dtype == "bool":
        return rng.integers(0, 2, shape) > 0
    limits = np.iinfo(KINDS[dtype])
    return rng.choice(np.array([limits.min, limits.max, 0, 1, 2, limits.max - 1], KINDS[dtype]), shape)


def same_bits(got: NDArray[Any], want: NDArray[Any]) -> None:
    """Assert that elements were moved and nothing else: signs of zeros and of NaN stay."""
    np.testing.assert_array_equal(got.copy().view(np.uint8), want.copy().view(np.uint8))


@settings(max_examples=80, deadline=None)
@given(data=st.data(), dtype=st.sampled_from(sorted(KINDS)), descending=st.booleans())
def test_any_elements_along_any_axis(data: st.DataObject, dtype: str, descending: bool):
    shape = data.draw(st.lists(st.integers(0, 6), min_size=1, max_size=3).map(tuple))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    x = elements(data, dtype, shape)
    want = np.apply_along_axis(order_of, axis, x, descending=descending) if x.size else np.zeros(shape, np.int64)
    count = data.draw(st.integers(0, shape[axis]))
    with overridden(target="interpret"):
        order = np.asarray(op.argsort(x, axis, descending))
        values = np.asarray(op.sort(x, axis, descending))
        top = op.top_k(x, count, axis, largest=descending)
    assert (order.dtype, values.dtype) == (np.int64, x.dtype)
    np.testing.assert_array_equal(order, want)
    same_bits(values, np.take_along_axis(x, want, axis))
    first = np.take(want, np.arange(count), axis)
    np.testing.assert_array_equal(top.indices, first)
    same_bits(np.asarray(top.values), np.take_along_axis(x, first, axis))


def test_all_elements_in_row_major_order():
    x = drawn((3, 5), np.float32)
    with overridden(target="interpret"):
        np.testing.assert_array_equal(op.argsort(x, None), np.argsort(x, None))
        np.testing.assert_array_equal(op.sort(x, None), np.sort(x, None))


@pytest.mark.parametrize("target", TARGETS)
def test_long_rows_inside_of_a_graph(target: str):
    x = np.round(drawn((3, 2000), np.float32) * 50)

    def model(x: Array) -> tuple[Any, ...]:
        values, indices = op.top_k(x * 2.0, 7)
        return op.argsort(x), op.sort(x, descending=True) + 1.0, values, indices

    with overridden(target=target):
        results: Any = graph.module(model)(x)
    order, falling, values, indices = results
    np.testing.assert_array_equal(order, np.argsort(x, kind="stable"))
    np.testing.assert_array_equal(falling, 1.0 - np.sort(-x))
    np.testing.assert_array_equal(values, 2.0 * np.sort(x)[:, :-8:-1])
    np.testing.assert_array_equal(indices, np.argsort(-x, kind="stable")[:, :7])


def test_calls_in_the_schedule():
    order = graph.module("order")(lambda x: op.argsort(x + 1.0))
    order(drawn((3, 5), np.float32))
    assert 'name = "argsort", library = "NumPy, CuPy"' in order.inspect_ir("graph")


@settings(max_examples=15, deadline=None)
@given(data=st.data(), descending=st.booleans())
def test_derivatives_move_with_the_elements(data: st.DataObject, descending: bool):
    shape = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=2).map(tuple))
    x = np.round(drawn(shape, np.float64) * 2)  # with ties
    weights = drawn(shape, np.float64, 1)
    order = np.argsort(-x if descending else x, -1, kind="stable")
    want = np.empty_like(x)
    np.put_along_axis(want, order, weights, -1)
    slope: Any = tessera.grad(lambda v: op.sum(op.sort(v, descending=descending) * weights))
    top: Any = tessera.grad(lambda v: op.sum(op.top_k(v, shape[-1], largest=descending).values * weights))
    with overridden(target="interpret"):
        np.testing.assert_array_equal(slope(x), want)
        np.testing.assert_array_equal(top(x), want)


def test_tangents():
    x, direction = drawn((7,), np.float64), drawn((7,), np.float64, 1)
    with overridden(target="interpret"):
        values, tangent = tessera.jvp(op.sort, (x,), (direction,))
    np.testing.assert_array_equal(values, np.sort(x))
    np.testing.assert_array_equal(tangent, direction[np.argsort(x)])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: op.argsort(x, 2), "an array of 2 axes has no axis 2"),
        (lambda x: op.sort(x[0, 0]), "an array of 0 axes has no axis -1"),
        (lambda x: op.top_k(x, 5), "the 5 greatest of 4 elements"),
        (lambda x: op.top_k(x, -1), "the -1 greatest of 4 elements"),
        (lambda x: op.top_k(x, 5, largest=False), "the 5 least of 4 elements"),
        (lambda x: op.top_k(x, 1, None), "axis=None is not one axis"),
    ],
)
def test_bad_operands(call: Callable[[NDArray[Any]], object], message: str):
    with pytest.raises(OperandMismatch, match=rf"^[^\n]*(?:{message})") as raised:
        call(drawn((3, 4), np.float32))
    assert "test_sorting.py, line" in str(raised.value)
