"""Operators that move elements, against NumPy, with their derivatives."""

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
from support.operators import FLOATS, INTEGERS, TARGETS, Array, drawn
from tessera import graph, op
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.settings import overridden

KINDS: dict[str, Any] = {**FLOATS, **INTEGERS, "bool": np.bool_}
Draw = Callable[[st.SearchStrategy[Any]], Any]


def _flatten(draw: Draw, x: NDArray[Any]) -> tuple[Any, Any]:
    first = draw(st.integers(0, max(x.ndim - 1, 0)))
    last = draw(st.integers(first, max(x.ndim - 1, 0)))
    shape = (*x.shape[:first], int(np.prod(x.shape[first : last + 1])), *x.shape[last + 1 :])
    return (lambda v: op.flatten(v, first, last - max(x.ndim, 1))), x.reshape(shape)


def _axis(draw: Draw, x: NDArray[Any]) -> int:
    return draw(st.integers(-x.ndim, x.ndim - 1))


def _axes(draw: Draw, x: NDArray[Any]) -> tuple[int, ...] | None:
    numbers = st.sets(st.integers(0, max(x.ndim - 1, 0)), max_size=x.ndim).map(tuple)
    return draw(st.one_of(st.none(), numbers))


def _squeeze(draw: Draw, x: NDArray[Any]) -> tuple[Any, Any]:
    ones = [n for n, size in enumerate(x.shape) if size == 1]
    axes = draw(st.one_of(st.none(), st.sets(st.sampled_from(ones)).map(tuple))) if ones else None
    return (lambda v: op.squeeze(v, axes)), np.squeeze(x, axes)


def _expand_dims(draw: Draw, x: NDArray[Any]) -> tuple[Any, Any]:
    count = draw(st.integers(1, 2))
    rank = x.ndim + count
    axes = draw(st.lists(st.integers(0, rank - 1), min_size=count, max_size=count, unique=True))
    axes = tuple(axis - draw(st.sampled_from([0, rank])) for axis in axes)
    return (lambda v: op.expand_dims(v, axes)), np.expand_dims(x, axes)


def _swapaxes(draw: Draw, x: NDArray[Any]) -> tuple[Any, Any]:
    a, b = _axis(draw, x), _axis(draw, x)
    return (lambda v: op.swapaxes(v, a, b)), x.swapaxes(a, b)


def _moveaxis(draw: Draw, x: NDArray[Any]) -> tuple[Any, Any]:
    count = draw(st.integers(0, x.ndim))
    old, new = (draw(st.permutations(range(x.ndim)))[:count] for _ in range(2))
    return (lambda v: op.moveaxis(v, old, new)), np.moveaxis(x, old, new)


def _flip(draw: Draw, x: NDArray[Any]) -> tuple[Any, Any]:
    axes = _axes(draw, x)
    return (lambda v: op.flip(v, axes)), np.flip(x, axes)


def _roll(draw: Draw, x: NDArray[Any]) -> tuple[Any, Any]:
    shifts = st.integers(-9, 9)
    if draw(st.booleans()):
        shift = draw(shifts)
        return (lambda v: op.roll(v, shift)), np.roll(x, shift)
    axes = tuple(_axis(draw, x) for _ in range(draw(st.integers(1, 3))))
    shift = draw(st.one_of(shifts, st.tuples(*[shifts] * len(axes))))
    return (lambda v: op.roll(v, shift, axes)), np.roll(x, shift, axes)


def _triangle(name: str) -> Callable[[Draw, NDArray[Any]], tuple[Any, Any]]:
    def drawn_case(draw: Draw, x: NDArray[Any]) -> tuple[Any, Any]:
        k = draw(st.integers(-5, 5))
        return (lambda v: getattr(op, name)(v, k)), getattr(np, name)(x, k)

    return drawn_case


def _repeat(draw: Draw, x: NDArray[Any]) -> tuple[Any, Any]:
    count, axis = draw(st.integers(0, 3)), draw(st.one_of(st.none(), st.integers(-x.ndim, x.ndim - 1)))
    return (lambda v: op.repeat(v, count, axis)), np.repeat(x, count, axis)


def _tile(draw: Draw, x: NDArray[Any]) -> tuple[Any, Any]:
    counts = st.integers(0, 3)
    reps = draw(st.one_of(counts, st.lists(counts, max_size=4)))
    return (lambda v: op.tile(v, reps)), np.tile(x, reps)


def _unfold(draw: Draw, x: NDArray[Any]) -> tuple[Any, Any]:
    axis = _axis(draw, x) % x.ndim
    size, step = draw(st.integers(1, x.shape[axis])), draw(st.integers(1, 3))
    windows = np.lib.stride_tricks.sliding_window_view(x, size, axis)
    return (lambda v: op.unfold(v, axis, size, step)), windows[(*(slice(None),) * axis, slice(None, None, step))]


ANY = (0, 0, 5)
"""Least rank, least extent and greatest extent of an array that is drawn."""
CASES: dict[str, tuple[Any, tuple[int, int, int]]] = {
    "expand_dims": (_expand_dims, ANY), "flatten": (_flatten, ANY), "flip": (_flip, ANY), "moveaxis": (_moveaxis, ANY),
    "repeat": (_repeat, (1, 0, 4)), "roll": (_roll, (1, 0, 5)), "squeeze": (_squeeze, (0, 1, 2)),
    "swapaxes": (_swapaxes, (1, 0, 5)), "tile": (_tile, (0, 0, 3)), "tril": (_triangle("tril"), (2, 0, 5)),
    "triu": (_triangle("triu"), (2, 0, 5)), "unfold": (_unfold, (1, 1, 5)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@settings(max_examples=30, deadline=None)
@given(data=st.data(), dtype=st.sampled_from(sorted(KINDS)))
def test_any_shapes_and_axes(name: str, data: st.DataObject, dtype: str):
    make, (rank, low, high) = CASES[name]
    shape = data.draw(st.lists(st.integers(low, high), min_size=rank, max_size=3))
    x = drawn(shape, KINDS[dtype], low=0, high=9)
    call, want = make(data.draw, x)
    with overridden(target="interpret"):
        got = np.asarray(call(x))
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    np.testing.assert_array_equal(got, want)


def test_on_the_processor():
    """One compilation of all of them, on elements whose extents are odd."""
    x = drawn((3, 5, 7), np.float32)

    def several(x: Array) -> tuple[Any, ...]:
        return (
            op.moveaxis(x, 0, -1), op.flip(x, 1), op.roll(x, (1, -2), (0, 2)), op.tril(x, -1), op.triu(x, 1),
            op.unfold(x, 2, 3, 2), op.repeat(x, 2, 1), op.tile(x, (2, 1)), op.outer(x[0, 0], x[1, 1]),
        )  # fmt: skip

    with overridden(target="interpret"):
        want = graph.module(several)(x)
    with overridden(target="cpu"):
        got = graph.module(several)(x)
    for one, other in zip(got, want, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("target", TARGETS)
def test_nothing_outside_of_a_triangle_counts(target: str):
    x = np.full((4, 4), np.nan)
    x[np.tril_indices(4)] = 2.0
    with overridden(target=target):
        np.testing.assert_array_equal(op.tril(x), np.tril(np.full((4, 4), 2.0)))
        slope: Any = tessera.grad(lambda v: op.sum(op.tril(v) * 3.0))
        np.testing.assert_array_equal(slope(x), np.tril(np.full((4, 4), 3.0)))


def test_products_of_pairs():
    a, b = np.array([True, False]), np.array([True, True, False])
    with overridden(target="interpret"):
        for x, y in ((a, b), (a * 2, b * 3), (a * 0.5, b * 3)):
            got, want = np.asarray(op.outer(x, y)), np.outer(x, y)
            assert got.dtype.kind == want.dtype.kind
            np.testing.assert_array_equal(got, want)


def test_windows_are_views():
    """What is computed of their elements reads the array itself, in one kernel."""
    squares = graph.module("squares")(lambda x: op.square(op.unfold(x, 0, 3)))
    x = drawn((1000,), np.float32)
    with overridden(target="interpret"):
        got = np.asarray(squares(x))
    np.testing.assert_array_equal(got, np.lib.stride_tricks.sliding_window_view(x, 3) ** 2)
    assert "1 kernel" in squares.inspect_ir("schedule").splitlines()[0]


@settings(max_examples=15, deadline=None)
@given(size=st.integers(1, 6), step=st.integers(1, 4))
def test_derivatives_of_windows_that_overlap(size: int, step: int):
    x = drawn((2, 9), np.float64)
    weights = drawn(((9 - size) // step + 1, 2, size), np.float64, 1)
    want = np.zeros_like(x)
    for n, part in enumerate(weights):
        want[:, n * step : n * step + size] += part
    slope: Any = tessera.grad(lambda v: op.sum(op.unfold(v, 1, size, step) * op.moveaxis(weights, 0, 1)))
    with overridden(target="interpret"):
        np.testing.assert_allclose(np.asarray(slope(x)), want, atol=1e-14)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: op.squeeze(x, 0), r"axis 0 of \(3, 4\) has 3 elements"),
        (lambda x: op.expand_dims(x, 3), "an array of 3 axes has no axis 3"),
        (lambda x: op.flatten(x, 1, 0), r"axes 1 to 0 of \(3, 4\) are none"),
        (lambda x: op.flatten(x, "F"), "axis='F' is not one axis"),
        (lambda x: op.swapaxes(x, 0, 2), "has no axis 2"),
        (lambda x: op.moveaxis(x, (0, 1), (0,)), "2 axes do not move to 1 positions"),
        (lambda x: op.moveaxis(x, (0, 0), (0, 1)), "names an axis twice"),
        (lambda x: op.roll(x, (1, 2), (0, 1, 0)), "2 shifts of 3 axes"),
        (lambda x: op.tril(x[0]), r"tril of \(4,\) has no diagonal"),
        (lambda x: op.outer(x, x[0]), r"outer of \(3, 4\) and \(4,\)"),
        (lambda x: op.unfold(x, 1, 5), "windows of 5 elements in steps of 1 of an axis of 4"),
        (lambda x: op.unfold(x, 1, 0), "windows of 0 elements"),
        (lambda x: op.unfold(x[:, :0], 1, 1), "of an axis of 0"),
        (lambda x: op.repeat(x, -1), "repeated -1 times"),
        (lambda x: op.repeat(x, np.array([1, 2, 3]), 0), "one number says how often"),
        (lambda x: op.tile(x, (1, -1)), "repeated -1 times"),
    ],
)
def test_bad_operands(call: Callable[[NDArray[Any]], object], message: str):
    with pytest.raises(OperandMismatch, match=rf"^[^\n]*(?:{message})") as raised:
        call(drawn((3, 4), np.float32))
    assert "test_rearranging.py, line" in str(raised.value)
