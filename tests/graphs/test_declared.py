"""Parameters that are declared with numerics."""

# Operators take arrays of any library and return the same kind, which their types cannot say; annotations are values.
# pyright: reportCallIssue=false, reportUnknownVariableType=false, reportArgumentType=false, reportInvalidTypeForm=false
# pyright: reportUnknownMemberType=false, reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportOperatorIssue=false, reportUnknownArgumentType=false, reportUndefinedVariable=false

import numpy as np
import pytest

import tessera
from support.operators import TARGETS, close, drawn
from support.quantized import restored
from tessera import Tensor, accum, f32, fp4, fp6, fp8_e4m3, graph, op, scale
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.numerics import numerics_of
from tessera.core.settings import overridden
from tessera.graphs.declared import declared
from tessera.graphs.function import GraphFunction
from tessera.graphs.scaled import Scaled


@GraphFunction
def typed(x: Tensor["B", "D", fp6 @ accum(f32)], w: fp8_e4m3 @ scale(block=(0, 1)), b: f32 = 0.5):
    assert isinstance(x, Scaled)
    assert isinstance(w, Scaled)
    return op.matmul(x, w) + b


X, W = drawn((4, 9), np.float32, 1), drawn((9, 3), np.float32, 2)
COLUMNS = fp8_e4m3 @ scale(block=(0, 1))


@pytest.mark.parametrize("target", TARGETS)
def test_arrays_become_codes(target: str):
    want = restored(X, numerics_of(fp6)).astype(np.float64) @ restored(W, COLUMNS) + 0.5
    with overridden(target=target):
        close(typed(X, W), want, 3e-6)
        close(typed(x=op.quantize(X, fp6), w=W), want, 3e-6)
        close(graph.module(lambda x, w: typed(x * 1.0, w))(X, W), want, 3e-6)


def test_what_is_declared():
    assert list(declared(typed.function)) == ["x", "w"]
    assert declared(len) == {}


def test_derivatives():
    slope = tessera.grad(lambda x, w: op.sum(typed(x, w)))(X, W)
    close(slope, np.ones((4, 3)) @ restored(W, COLUMNS).T, 3e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((X[0], W), r"x has the shape \(9,\), and is declared with the axes B, D"),
        ((op.quantize(X, fp4), W), r"x is fp4_e2m1 @accum\(f32\), and is declared as fp6_e3m2 @accum\(f32\)"),
        ((X, op.quantize(W, fp4)), "w is fp4_e2m1"),
        ((X.astype(np.int32), W), "i32 is not quantised"),
    ],
)
def test_mistakes(arguments: tuple[object, ...], message: str):
    with pytest.raises(OperandMismatch, match=rf"^[^\n]*(?:{message})"):
        typed(*arguments)
