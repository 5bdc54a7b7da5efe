"""Tracers: NumPy's interface on values without numbers."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

import operator
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import DTypeLike, NDArray

from support.operators import Array, close, drawn
from tessera import graph, op
from tessera.core.errors.catalog import CannotTrace, OperandMismatch
from tessera.core.settings import overridden
from tessera.graphs.trace import tracing
from tessera.graphs.tracer import Tracer, as_tracer, indices

BINARY = ["add", "sub", "mul", "truediv", "pow", "lt", "le", "gt", "ge", "eq", "ne"]
INTEGER = ["add", "sub", "mul", "floordiv", "mod", "and_", "or_", "xor", "lt", "eq"]


def run(function: Callable[..., object], *arrays: NDArray[Any]) -> NDArray[Any]:
    with overridden(target="interpret"):
        return np.asarray(graph.module(function)(*arrays))


@pytest.mark.parametrize("name", BINARY)
def test_arithmetic_of_floats(name: str):
    apply = getattr(operator, name)
    x, y = drawn((3, 4), np.float64, 1, 0.5, 3), drawn((4,), np.float64, 2, 0.5, 3)
    close(run(apply, x, y), apply(x, y), 1e-13)
    close(run(lambda x: apply(x, 2), x), apply(x, 2), 1e-13)
    close(run(lambda x: apply(1.5, x), x), apply(1.5, x), 1e-13)
    close(run(lambda x: apply(np.float32(1.5), x), x), apply(1.5, x), 1e-13)
    close(run(lambda x: apply(y, x), x), apply(y, x), 1e-13)  # an array that is closed over, on the left


@pytest.mark.parametrize("name", INTEGER)
def test_arithmetic_of_integers(name: str):
    apply = getattr(operator, name)
    x, y = drawn((3, 4), np.int32, 1, 1, 9), drawn((4,), np.int32, 2, 1, 9)
    got = run(apply, x, y)
    assert got.dtype == apply(x, y).dtype
    np.testing.assert_array_equal(got, apply(x, y))
    np.testing.assert_array_equal(run(lambda x: apply(x, 3), x), apply(x, 3))


def test_signs():
    x = drawn((5,), np.float32)
    np.testing.assert_array_equal(run(operator.neg, x), -x)
    np.testing.assert_array_equal(run(abs, x), abs(x))
    np.testing.assert_array_equal(run(operator.invert, x > 0), ~(x > 0))
    np.testing.assert_array_equal(run(operator.invert, np.arange(4)), ~np.arange(4))


def test_numbers_take_the_dtype_of_what_they_meet():
    assert run(lambda x: x * 2.5, drawn((3,), np.float16)).dtype == np.float16
    assert run(lambda x: x * 2, np.arange(3, dtype=np.int32)).dtype == np.int32
    assert run(lambda x: x * 0.5, np.arange(3)).dtype == np.float32
    assert run(lambda x: x / 2, np.arange(3)).dtype == np.float32
    assert run(lambda x: x + 1, np.array([True, False])).dtype == np.int64


@pytest.mark.parametrize("dtype", [np.float16, np.dtype("int32"), "int32", np.bool_, bool, "bf16"], ids=str)
def test_dtypes_of_numpy(dtype: DTypeLike):
    x = np.array([0.0, 1.5, -2.0], np.float32)
    want = x.astype(ml_dtypes.bfloat16 if dtype == "bf16" else dtype)
    key = op.key(3)
    for convert in (
        lambda x: x.astype(dtype), lambda x: op.cast(x, dtype), lambda x: op.zeros(x.shape, dtype) + x.astype(dtype)
    ):  # fmt: skip
        result = run(convert, x)
        if result.dtype != np.int64:  # two bools are added as integers
            assert result.dtype == want.dtype
        np.testing.assert_array_equal(result, want)
    if want.dtype.kind == "f":
        assert run(lambda x: op.uniform(x.shape, key, dtype=dtype), x).dtype == want.dtype


def test_numbers_of_python_are_no_dtypes():
    for dtype in (float, int, None, "f17"):
        with pytest.raises(OperandMismatch, match="there is no dtype") as caught:
            run(lambda x, dtype=dtype: x.astype(dtype), np.ones(2))
        assert "choose from" in str(caught.value)


def test_methods():
    x = drawn((3, 4, 5), np.float64)
    np.testing.assert_array_equal(run(lambda x: x.T, x), x.swapaxes(1, 2))
    np.testing.assert_array_equal(run(lambda x: x.reshape(5, -1), x), x.reshape(5, -1))
    np.testing.assert_array_equal(run(lambda x: x.transpose(), x), x.transpose())
    close(run(lambda x: x.sum(1, keepdims=True), x), x.sum(1, keepdims=True), 1e-13)
    close(run(lambda x: x.mean((0, 2)), x), x.mean((0, 2)), 1e-13)
    np.testing.assert_array_equal(run(lambda x: x.max(-1), x), x.max(-1))
    np.testing.assert_array_equal(run(lambda x: x.min(), x), x.min())
    np.testing.assert_array_equal(run(lambda x: x.astype("f16"), x), x.astype(np.float16))


def test_what_a_tracer_knows():
    def look(x: Array) -> Array:
        assert (x.shape, x.ndim, x.size, len(x), str(x.dtype)) == ((3, 4), 2, 12, 3, "f32")
        assert repr(x) == "<traced x: f32[3, 4]>"
        first, *rest = x
        assert len(rest) == 2
        return first + rest[1]

    x = drawn((3, 4), np.float32)
    np.testing.assert_array_equal(run(look, x), x[0] + x[2])


@pytest.mark.parametrize(
    ("use", "what", "remedy"),
    [
        (lambda x: 1 if x.sum() > 0 else 2, "a branch on values", "op.where(condition, a, b)"),
        (lambda x: float(x.sum()), "a Python number of a value", "keep it an array"),
        (lambda x: int(x.sum()), "a Python number of a value", "keep it an array"),
        (lambda x: range(x.sum()), "an index that is computed", "op.gather(x, index, axis)"),
        (np.sum, "np.sum of a value", "op.sum"),
        (np.concatenate, "np.concatenate of a value", "op.concat"),
        (np.asarray, "a NumPy array of a value", "tessera.op"),
        (np.exp, "np.exp of a value", "op.exp"),
        (np.sinc, "np.sinc of a value", "compute it from operators of tessera.op, or before the graph"),
        (np.add.reduce, "np.add of a value", "compute it from operators"),
        (lambda x: np.maximum(x, 0), "np.maximum of a value", "op.maximum"),
        (lambda x: x.__setitem__(slice(0, 1), 0.0), "writing into a value", "x = x.at[i].set(v)"),
        (lambda x: operator.iadd(np.ones(3, np.float32), x), "writing a value into an array of NumPy", "y = y + x"),
    ],
)
def test_what_needs_numbers_is_refused(use: Callable[[Tracer], object], what: str, remedy: str):
    with pytest.raises(CannotTrace, match=f"{what} cannot be captured") as raised:
        graph.module(lambda x: use(x))(drawn((3,), np.float32))  # noqa: PLW0108 - the line that is shown
    assert remedy in str(raised.value)
    assert "test_tracer.py, line" in str(raised.value)


def test_a_value_of_an_ended_capture():
    kept: list[Tracer] = []

    @graph.module
    def leak(x: Array) -> Array:
        kept.append(x)
        return x + 1

    x = drawn((3,), np.float32)
    leak(x)
    with pytest.raises(CannotTrace, match="a graph that is not being captured any more"):
        graph.module(lambda x: x + kept[0])(x)
    with pytest.raises(CannotTrace, match="no graph is being captured here"):
        op.exp(kept[0])


def test_values_of_the_capture_around_this_one():
    inner = graph.module(lambda x: x)
    x, y = drawn((3,), np.float64, 1), drawn((3,), np.float64, 2)
    got = run(lambda x, y: inner(x) * y, x, y)
    close(got, x * y, 1e-13)


def test_what_is_no_array():
    with tracing() as trace, pytest.raises(OperandMismatch, match="'text' is no array"):
        as_tracer("text", trace)


def test_indices_are_integers():
    with tracing() as trace:
        assert indices(np.arange(3), trace).shape == (3,)
        with pytest.raises(OperandMismatch, match="indices are integers, not f64"):
            indices(np.ones(3), trace)
