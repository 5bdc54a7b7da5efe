"""`tessera.check_adjoint`: right derivatives pass, wrong ones are named with their place."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownLambdaType=false

from types import SimpleNamespace

import numpy as np
import pytest

import tessera
from support.operators import Array, drawn
from tessera import op
from tessera.core.errors.catalog import WrongAdjoint

X = drawn((3, 4), np.float32)


def test_functions_of_operators_are_checked_in_f64():
    report = tessera.check_adjoint(lambda w, x: op.softmax(op.tanh(x @ w)), drawn((4, 2), np.float32, 1), X)
    assert sorted(report.errors) == [0, 1]
    assert report.within(1e-7)


def test_arrays_that_are_closed_over_are_inputs_too():
    assert sorted(tessera.check_adjoint(lambda x: x * X, X).errors) == [0, 1]


def test_a_wrong_adjoint_is_named_with_its_place():
    @op.custom(adjoint=lambda inputs, outputs, cotangents: 2 * cotangents[0] * outputs[0])
    def twice(x: Array) -> Array:
        return op.exp(x)

    with pytest.raises(WrongAdjoint, match="the adjoint of twice differs from finite differences by 1") as caught:
        tessera.check_adjoint(lambda x: op.sum(twice(op.sin(x))), X)
    assert "op.sum(twice(op.sin(x)))" in str(caught.value)
    assert "^^^" in str(caught.value)


def test_an_adjoint_that_is_not_linear():
    @op.custom(adjoint=lambda inputs, outputs, cotangents: cotangents[0] * cotangents[0])
    def same(x: Array) -> Array:
        return x * 1.0

    with pytest.raises(WrongAdjoint, match="same is not linear in the cotangent"):
        tessera.check_adjoint(same, X)


KINKS = {
    "relu": op.relu, "abs": abs, "maximum": lambda x: op.maximum(x, 0.5 * x), "clip": lambda x: op.clip(x, -1.0, 1.0),
    "leaky_relu": op.leaky_relu, "hardswish": op.hardswish, "max": lambda x: op.max(x * 1e-9),
    "mean of relu": lambda x: op.mean(op.relu(x) * x + op.relu(2.0 * x)),
}  # fmt: skip


@pytest.mark.parametrize("name", KINKS)
def test_kinks_are_no_mistakes(name: str):
    """At a kink a derivative may be that of either side, and within the step of one the quotient is that of both."""
    near = np.array([0.0, -0.0, 3e-7, -2e-7, 1.0, -1.0, 1 + 4e-7, 3.0, -3.0, -3 + 1e-7, 0.7, -0.2])
    assert tessera.check_adjoint(KINKS[name], near).within(1e-5)
    assert tessera.check_adjoint(KINKS[name], np.tile(near, 400)).within(1e-5)


@pytest.mark.parametrize("factor", [1.001, 0.0, -1.0])
def test_wrong_adjoints_of_functions_with_kinks_are_found(factor: float):
    @op.custom(adjoint=lambda inputs, outputs, cotangents: factor * op.where(inputs[0] > 0, cotangents[0], 0.0))
    def bent(x: Array) -> Array:
        return op.maximum(x, 0.0)

    with pytest.raises(WrongAdjoint, match="the adjoint of bent"):
        tessera.check_adjoint(lambda x: op.sum(bent(x) * x), np.array([0.0, 3e-7, 1.0, 2.0, -1.0]))


def test_contractions_that_spread_over_nothing():
    """A transposed convolution of a volume: a copy of each window for each result would take 40 GB."""
    x, w = drawn((3, 8, 6, 10, 12), np.float64, 1), drawn((8, 4, 3, 3, 3), np.float64, 2)
    assert tessera.check_adjoint(lambda x, w: op.mean(op.conv_transpose3d(x, w, stride=2)), x, w).within(1e-7)


@pytest.mark.parametrize(("factor", "passes"), [(1.0, True), (1.1, False)])
def test_functions_of_the_host_are_checked_in_their_own_dtype(factor: float, passes: bool):
    seen: set[np.dtype[np.generic]] = set()

    @op.custom(adjoint=lambda i, o, c: factor * c[0] * op.cos(i[0]), shape=lambda x: x.shape)
    def sine(x: Array) -> Array:
        seen.add(x.dtype)
        return np.sin(x)

    if passes:
        assert tessera.check_adjoint(sine, X).within(5e-3)
    else:
        with pytest.raises(WrongAdjoint, match="the adjoint of sine differs"):
            tessera.check_adjoint(sine, X)
    assert seen == {np.dtype(np.float32)}


def test_arrays_of_a_gpu_are_refused_where_they_are_called():
    described = {"data": (1 << 20, False), "shape": (2,), "typestr": "<f4", "version": 3}
    with pytest.raises(tessera.TesseraError, match="lies in the memory of"):
        tessera.check_adjoint(op.exp, SimpleNamespace(__cuda_array_interface__=described))
