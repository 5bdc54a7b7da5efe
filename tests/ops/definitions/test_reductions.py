"""Reductions along axes, against NumPy."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportCallIssue=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false, reportArgumentType=false, reportUnknownArgumentType=false

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import tessera
from support.operators import FLOATS, INTEGERS, TARGETS, TOLERANCE, close, drawn, everywhere
from tessera import op
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.settings import overridden

KINDS = FLOATS | INTEGERS
AXES = [None, 0, 1, -1, (0, 2), (-1, 0), (0, 1, 2)]
ODD = [0.0, -0.0, 1.0, -1.0, 2.5, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("name", ["sum", "max", "min", "mean", "var"])
def test_reductions_along_axes(name: str, axis: int | tuple[int, ...] | None, keepdims: bool):
    x = drawn((4, 5, 6), np.float32)
    want = getattr(np, name)(x.astype(np.float64), axis=axis, keepdims=keepdims)
    close(everywhere(lambda x: getattr(op, name)(x, axis, keepdims=keepdims), x), want, 2e-6)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", ["sum", "max", "min", "mean", "var"])
def test_reductions_of_floats_are_rounded_once(name: str, dtype: str):
    x = drawn((3, 300), FLOATS[dtype], low=0, high=1)
    got = everywhere(lambda x: getattr(op, name)(x, 1), x)
    assert got.dtype == x.dtype
    close(got, getattr(np, name)(x.astype(np.float64), axis=1), TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("name", ["sum", "max", "min"])
def test_reductions_of_integers(name: str, dtype: str):
    x = drawn((3, 7), INTEGERS[dtype], low=0, high=9)
    got = everywhere(lambda x: getattr(op, name)(x, 0), x)
    want = getattr(np, name)(x, axis=0)
    assert got.dtype == want.dtype  # sums of 64 bits
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", ["mean", "var"])
def test_means_of_integers_are_f32(name: str):
    x = drawn((3, 7), np.int32, low=-9, high=9)
    got = everywhere(lambda x: getattr(op, name)(x, 0), x)
    assert got.dtype == np.float32
    close(got, getattr(np, name)(x, axis=0), 2e-6)


def test_sums_of_truth_values_count():
    x = drawn((3, 7), np.float32) > 0
    got = everywhere(lambda x: op.sum(x, 1), x)
    assert got.dtype == np.int64
    np.testing.assert_array_equal(got, x.sum(1))


@settings(max_examples=8)
@given(
    data=st.data(), name=st.sampled_from(["sum", "max", "min", "mean", "var"]), dtype=st.sampled_from(sorted(FLOATS))
)
def test_reductions_of_any_shape(data: st.DataObject, name: str, dtype: str):
    shape = data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=4).map(tuple))
    axes = tuple(data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1)))
    x = drawn(shape, FLOATS[dtype], low=0, high=1)
    want = getattr(np, name)(x.astype(np.float64), axis=axes)
    close(everywhere(lambda x: getattr(op, name)(x, axes), x), want, TOLERANCE[dtype])


@pytest.mark.parametrize("name", ["max", "min", "argmax"])
def test_nan_wins(name: str):
    x = drawn((4, 9), np.float32)
    x[1, 3] = x[3, 8] = x[3, 2] = np.nan
    np.testing.assert_array_equal(everywhere(lambda x: getattr(op, name)(x, 1), x), getattr(np, name)(x, axis=1))


@pytest.mark.parametrize("dtype", KINDS)
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_argmax_is_the_first_of_equal_ones(dtype: str, axis: int):
    x = drawn((6, 11), KINDS[dtype], low=0, high=3)
    got = everywhere(lambda x: op.argmax(x, axis), x)
    assert got.dtype == np.int64
    np.testing.assert_array_equal(got, np.argmax(x.astype(np.float64), axis))


def interpreted(function: Callable[..., Any], *arrays: NDArray[Any]) -> NDArray[Any]:
    with overridden(target="interpret"):
        return np.asarray(function(*arrays))


@settings(max_examples=60, deadline=None)
@given(data=st.data(), name=st.sampled_from(["argmax", "argmin"]), dtype=st.sampled_from([*sorted(KINDS), "bool"]))
def test_first_extremes(data: st.DataObject, name: str, dtype: str):
    shape = data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3).map(tuple))
    axis = data.draw(st.one_of(st.none(), st.integers(-len(shape), len(shape) - 1)))
    keepdims = data.draw(st.booleans())
    values = ODD if dtype in FLOATS else [0, 1, 2, 3]
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    x = rng.choice(np.array(values), shape).astype(bool if dtype == "bool" else KINDS[dtype])
    got = interpreted(lambda x: getattr(op, name)(x, axis, keepdims=keepdims), x)
    want = getattr(np, name)(x if dtype == "bool" else x.astype(np.float64), axis=axis, keepdims=keepdims)
    assert got.dtype == np.int64
    np.testing.assert_array_equal(got, want)


def test_the_index_of_a_number_is_0():
    assert interpreted(lambda x: op.argmax(x, None), np.array(3.0)) == 0


@settings(max_examples=60, deadline=None)
@given(data=st.data(), name=st.sampled_from(["any", "all", "count_nonzero"]))
def test_conditions(data: st.DataObject, name: str):
    shape = data.draw(st.lists(st.integers(0, 4), max_size=3).map(tuple))
    axes = data.draw(st.one_of(st.none(), st.sets(st.integers(0, len(shape) - 1)).map(tuple))) if shape else None
    dtype = data.draw(st.sampled_from([*sorted(KINDS), "bool"]))
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    values = [0.0, -0.0, np.nan, 1e-7] if dtype in FLOATS else [0, 0, 0, 1]
    x = rng.choice(np.array(values), shape).astype(bool if dtype == "bool" else KINDS[dtype])
    keepdims = data.draw(st.booleans())
    got = interpreted(lambda x: getattr(op, name)(x, axes, keepdims=keepdims), x)
    want = np.asarray(getattr(np, name)(x, axis=axes, keepdims=keepdims))
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("target", TARGETS)
def test_conditions_on_every_target(target: str):
    x = np.array([[0.0, np.nan, 0.0], [-0.0, 0.0, 0.0], [1.0, 2.0, -1.0]], np.float32)
    with overridden(target=target):
        got: Any = tessera.graph.module(
            lambda x: (op.any(x, 1), op.all(x, 1), op.count_nonzero(x), op.any(x[:, :0], 1))
        )(x)
    np.testing.assert_array_equal(got[0], [True, False, True])
    np.testing.assert_array_equal(got[1], [False, False, True])
    assert got[2] == 4
    np.testing.assert_array_equal(got[3], [False] * 3)


@settings(max_examples=40, deadline=None)
@given(data=st.data(), name=st.sampled_from(["var", "std"]), dtype=st.sampled_from(sorted(FLOATS)))
def test_variances_with_other_divisors(data: st.DataObject, name: str, dtype: str):
    shape = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=3).map(tuple))
    axes = tuple(data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1)))
    ddof = data.draw(st.sampled_from([0, 1, 2, 0.5]))
    x = drawn(shape, FLOATS[dtype], data.draw(st.integers(0, 9)))
    with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):  # NumPy warns of divisors of 0
        want = getattr(np, name)(x.astype(np.float64), axis=axes, ddof=ddof)
    got = interpreted(lambda x: getattr(op, name)(x, axes, ddof=ddof), x)
    assert got.dtype == x.dtype
    count = np.prod([shape[n] for n in axes])
    if count > 1:
        close(got, np.asarray(want).astype(x.dtype), TOLERANCE[dtype])
    else:  # no distance at all: 0, or NaN without a divisor
        np.testing.assert_array_equal(got.astype(np.float64), want)


def test_floats_of_16_bits_have_the_variance_of_wider_ones():
    x = (1000 + drawn((3, 64), np.float64)).astype(np.float16)
    want = x.astype(np.float64).var(1)
    np.testing.assert_allclose(interpreted(lambda x: op.var(x, 1), x).astype(np.float64), want, rtol=1e-3)


@pytest.mark.parametrize("target", TARGETS)
def test_the_derivative_of_a_deviation_of_0_is_0(target: str):
    x = np.array([[2.0, 2.0, 2.0], [1.0, 2.0, 4.0]])
    slope: Any = tessera.grad(lambda x: op.sum(op.std(x, 1)))
    with overridden(target=target):
        got = np.asarray(slope(x))
        curve = np.asarray(tessera.grad(lambda x: op.sum(slope(x) * x))(x))
    np.testing.assert_array_equal(got[0], 0.0)
    np.testing.assert_allclose(got[1], (x[1] - x[1].mean()) / (3 * x[1].std()), rtol=1e-13)
    assert np.isfinite(curve).all()


@pytest.mark.parametrize("values", [[np.inf, 1.0], [np.nan, 1.0], [np.inf, np.inf]])
def test_deviations_of_what_is_no_number(values: list[float]):
    assert np.isnan(interpreted(op.std, np.array(values)))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda x: op.sum(x, 2), "an array of 2 axes has no axis 2"),
        (lambda x: op.mean(x, (0, -2)), "names an axis twice"),
        (lambda x: op.argmax(x, 2), "an array of 2 axes has no axis 2"),
        (lambda x: op.argmax(x, (0, 1)), "is not one axis"),
        (lambda x: op.argmax(x[:, :0]), "the greatest of no elements has no place"),
        (lambda x: op.argmin(x[:, :0], None), "the least of no elements has no place"),
        (lambda x: op.any(x, -3), "no axis -3"),
    ],
)
def test_bad_operands(call: Callable[[NDArray[Any]], object], message: str):
    with pytest.raises(OperandMismatch, match=rf"^[^\n]*(?:{message})") as raised:
        call(drawn((3, 4), np.float32))
    assert "test_reductions.py, line" in str(raised.value)
