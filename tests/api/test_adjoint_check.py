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
