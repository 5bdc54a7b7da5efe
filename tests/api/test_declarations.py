"""Declarations in cells store arrays as they say."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportCallIssue=false, reportUnknownVariableType=false, reportArgumentType=false

from typing import Any

import numpy as np
import pytest

from support.operators import TARGETS, close, drawn
from support.quantized import restored
from tessera import fp4, op
from tessera.api.declarations import store_declared
from tessera.api.source_module import run_cell
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.numerics import Numerics, Scale, TensorOf, numerics_of
from tessera.core.settings import overridden
from tessera.graphs.scaled import Scaled

X, W = drawn((3, 64), np.float32, 1), drawn((64, 5), np.float32, 2)


def cell(text: str, **given: object) -> dict[str, Any]:
    run_cell(text, given, name="<declarations>")
    return given


@pytest.mark.parametrize("target", TARGETS)
def test_names_are_bound_anew(target: str):
    text = (
        'x: Tensor["B", "D", fp4 @accum(fp32) @round("nearest") @scale(block=(1, 32), dtype="e8m0")]\ny = gemm(x, w)\n'
    )
    with overridden(target=target):
        found = cell(text, x=X, w=W)
    numerics = Numerics(fp4, scale=Scale((1, 32), "e8m0"))
    assert found["x"].numerics == numerics
    close(found["y"], restored(X, numerics).astype(np.float64) @ W, 3e-6)


def test_codes_stay():
    held = op.quantize(X, fp4)
    assert cell("x: fp4 @accum(f32)", x=held)["x"] is held


def test_other_declarations_are_pythons():
    found = cell("x: fp4\nz: fp4 @accum(f32)\na: 'text'\nn: int = round(2.5)\nassert round(2.567, 1) == 2.6", x=X)
    assert found["x"] is X
    assert "z" not in found
    assert found["n"] == 2


def test_functions_in_cells():
    found = cell(
        '@jit\ndef f(x: Tensor["B", "D", fp6 @accum(fp32) @scale(block=(1, 32))], w):\n    return gemm(x, w)\n'
    )
    numerics = Numerics(numerics_of("fp6").format, scale=Scale((1, 32)))
    close(found["f"](X, W), restored(X, numerics).astype(np.float64) @ W, 3e-6)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('x: Tensor["B", fp4 @accum(f32)]', r"x has the shape \(3, 64\), and is declared with the axes B"),
        ("x: fp4 @accum(f16)", "products are not summed in f16"),
        ("x: fp4 @scale(block=(1, 48))", "do not divide an axis of 64"),
        ("n: fp4 @accum(f32)", "n is declared as fp4_e2m1 @accum.f32., and is no array: 3"),
    ],
)
def test_mistakes(text: str, message: str):
    with pytest.raises(OperandMismatch, match=rf"^[^\n]*(?:{message})") as caught:
        cell(text, x=X, n=3)
    assert "<declarations>" in str(caught.value) or caught.value.span.line == 1


def test_values_without_numerics():
    assert store_declared(3, TensorOf(("B",), None), "x") == 3
    assert isinstance(store_declared(X, numerics_of(fp4), "x"), Scaled)
