"""Activations against NumPy in f64; the whole range and derivatives are in `test_saturation.py`."""

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
from support.operators import FLOATS, INTEGERS, TARGETS, TOLERANCE, Array, close, drawn, everywhere
from tessera import op
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.settings import overridden

Numbers = NDArray[Any]
ERF = np.vectorize(math.erf, otypes=[np.float64])


def sigmoid(x: Numbers) -> Numbers:
    return 1 / (1 + np.exp(-x))


def tanh_gelu(x: Numbers) -> Numbers:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


FUNCTIONS: dict[str, tuple[Callable[[Array], Array], Callable[[Numbers], Numbers]]] = {
    "celu": (lambda x: op.celu(x, -0.5), lambda x: np.where(x > 0, x, -0.5 * np.expm1(np.minimum(x, 0) / -0.5))),
    "elu": (op.elu, lambda x: np.where(x > 0, x, np.expm1(x))),
    "elu -1": (lambda x: op.elu(x, -1.0), lambda x: np.where(x > 0, x, -np.expm1(x))),
    "gelu": (op.gelu, lambda x: 0.5 * x * (1 + ERF(x / math.sqrt(2)))),
    "gelu tanh": (lambda x: op.gelu(x, "tanh"), tanh_gelu),
    "hardsigmoid": (op.hardsigmoid, lambda x: np.clip(x / 6 + 0.5, 0, 1)),
    "hardswish": (op.hardswish, lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    "hardtanh": (op.hardtanh, lambda x: np.clip(x, -1, 1)),
    "hardtanh 0": (lambda x: op.hardtanh(x, 0.0, 0.0), np.zeros_like),
    "leaky_relu": (op.leaky_relu, lambda x: np.where(x > 0, x, 0.01 * x)),
    "leaky_relu -2": (lambda x: op.leaky_relu(x, -2.0), lambda x: np.where(x > 0, x, -2.0 * x)),
    "log_sigmoid": (op.log_sigmoid, lambda x: -np.logaddexp(-x, 0)),
    "mish": (op.mish, lambda x: x * np.tanh(np.logaddexp(x, 0))),
    "relu": (op.relu, lambda x: np.maximum(x, 0)),
    "relu6": (op.relu6, lambda x: np.clip(x, 0, 6)),
    "selu": (op.selu, lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x))),
    "sigmoid": (op.sigmoid, sigmoid),
    "silu": (op.silu, lambda x: x * sigmoid(x)),
    "softplus": (op.softplus, lambda x: np.logaddexp(x, 0)),
    "softsign": (op.softsign, lambda x: x / (1 + np.abs(x))),
}
NAMES = sorted(FUNCTIONS)


def every(x: Array) -> Array:
    """Return all functions of one operand: one graph, compiled once a dtype."""
    return op.stack([FUNCTIONS[name][0](x) for name in NAMES])


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_functions_of_floats(dtype: str):
    x = drawn((3, 17), FLOATS[dtype], low=-9, high=9)
    got = everywhere(every, x)
    assert got.dtype == x.dtype
    for name, each in zip(NAMES, got, strict=True):
        close(each, FUNCTIONS[name][1](x.astype(np.float64)), TOLERANCE[dtype])


@settings(max_examples=10)
@given(
    shape=st.lists(st.integers(0, 9), max_size=3).map(tuple), dtype=st.sampled_from(sorted(FLOATS)),
    seed=st.integers(0, 99),
)  # fmt: skip
def test_functions_of_floats_of_any_shape(shape: tuple[int, ...], dtype: str, seed: int):
    x = drawn(shape, FLOATS[dtype], seed, -9, 9)
    with overridden(target="interpret"):
        got = np.asarray(every(x))
    unit = 1e-15 if dtype == "f64" else 1e-6  # the tails of gelu are right relative to 1
    for name, each in zip(NAMES, got, strict=True):
        with np.errstate(over="ignore"):
            want = FUNCTIONS[name][1](x.astype(np.float64)).astype(FLOATS[dtype]).astype(np.float64)
        np.testing.assert_allclose(each.astype(np.float64), want, rtol=TOLERANCE[dtype], atol=unit)


def test_integers_give_f32_or_stay():
    x = np.arange(-7, 9, dtype=np.int32)
    got = everywhere(
        lambda x: op.stack([f(x) for name, (f, _) in sorted(FUNCTIONS.items()) if not name.startswith("relu")]), x
    )
    assert got.dtype == np.float32
    expected = [g(x.astype(np.float64)) for name, (_, g) in sorted(FUNCTIONS.items()) if not name.startswith("relu")]
    for each, want in zip(got, expected, strict=True):
        close(each, want, 4e-6)
    for integer in INTEGERS.values():
        y = np.arange(9, dtype=integer)
        for function, want in ((op.relu, y), (op.relu6, np.minimum(y, 6))):
            result = np.asarray(function(y))
            assert result.dtype == integer
            np.testing.assert_array_equal(result, want)


@pytest.mark.parametrize("target", TARGETS)
def test_infinities_and_nan(target: str):
    x = np.array([-math.inf, math.inf, math.nan])
    with overridden(target=target):
        got = dict(zip(NAMES, np.asarray(every(x)), strict=True))
    ends = {
        "celu": (-math.inf, math.inf), "elu": (-1, math.inf), "elu -1": (1, math.inf), "gelu": (0, math.inf),
        "gelu tanh": (0, math.inf), "hardsigmoid": (0, 1), "hardswish": (0, math.inf), "hardtanh": (-1, 1),
        "hardtanh 0": (0, 0), "leaky_relu": (-math.inf, math.inf), "leaky_relu -2": (math.inf, math.inf),
        "log_sigmoid": (-math.inf, 0), "mish": (0, math.inf), "relu": (0, math.inf), "relu6": (0, 6),
        "selu": (-1.0507009873554805 * 1.6732632423543772, math.inf), "sigmoid": (0, 1), "silu": (0, math.inf),
        "softplus": (0, math.inf), "softsign": (-1, 1),
    }  # fmt: skip
    for name, want in ends.items():
        np.testing.assert_allclose(got[name], (*want, math.nan), rtol=1e-15, err_msg=name)


@settings(max_examples=15)
@given(data=st.data(), dtype=st.sampled_from(sorted(FLOATS)))
def test_halves_of_any_axis(data: st.DataObject, dtype: str):
    shape = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=3))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    shape[axis] *= 2
    x = drawn(shape, FLOATS[dtype], 3, -4, 4)
    value, gate = np.split(x.astype(np.float64), 2, axis)
    with overridden(target="interpret"):
        got = np.asarray(op.glu(x, axis))
    assert got.dtype == x.dtype
    close(got, value * sigmoid(gate), 2 * TOLERANCE[dtype])


def test_gates_are_their_own_sigmoid():
    x, far = drawn((5, 6), np.float64), np.array([2.0, -3.0, 1e4, -1e4])
    assert tessera.check_adjoint(lambda x: op.glu(x, 1), x).within(1e-6)
    np.testing.assert_array_equal(op.glu(far), [2.0, 0.0])
    slope = np.asarray(tessera.grad(lambda x: op.sum(op.glu(x)))(far))
    np.testing.assert_array_equal(slope, [1.0, 0.0, 0.0, 0.0])


@pytest.mark.parametrize(
    ("call", "message", "remedy"),
    [
        (lambda x: op.gelu(x, "tan"), "gelu has no approximation 'tan'", 'choose "none" or "tanh"'),
        (lambda x: op.hardtanh(x, 1.0, 0.5), "hardtanh from 1.0 to 0.5 has no numbers between", "give low <= high"),
        (lambda x: op.hardtanh(x, math.nan, 0.5), "has no numbers between", "give low <= high"),
        (lambda x: op.celu(x, 0.0), "celu divides by alpha, which is 0", "op.relu(x)"),
        (lambda x: op.glu(x, 0), "3 elements along axis 0 of (3, 4) have no two halves", "^^^^"),
        (lambda x: op.glu(x, 2), "has no axis 2", "^^^^"),
    ],
)
def test_bad_operands(call: Callable[[Numbers], object], message: str, remedy: str):
    with pytest.raises(OperandMismatch) as raised:
        call(drawn((3, 4), np.float32))
    first, _, listing = str(raised.value).partition("\n")
    assert message in first
    assert remedy in listing
    assert "test_activations.py, line" in listing
