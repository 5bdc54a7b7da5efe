"""The errors of a graph, operator by operator."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportCallIssue=false, reportUnknownVariableType=false, reportArgumentType=false
# pyright: reportUnknownMemberType=false

import numpy as np
import pytest

import tessera
from support.operators import Array, drawn
from support.quantized import restored
from tessera import fp4, op, scale
from tessera.core.errors.catalog import CannotTrace
from tessera.graphs.function import GraphFunction

ROWS = fp4 @ scale(block=(1, 0))
X, W = drawn((5, 32), np.float32, 1), drawn((32, 3), np.float32, 2)


@GraphFunction
def model(x: Array, w: Array) -> Array:
    h = op.matmul(op.quantize(x, ROWS), w)
    return op.tanh(h).astype("f16")


def test_each_operator():
    report = tessera.numerics_report(model)(X, W)
    found = {each.operator: each for each in report.errors}
    exact = X.astype(np.float64) @ W
    made = restored(X, ROWS).astype(np.float64) @ W
    product, tanh, end = found["model/matmul"], found["model/tanh"], found["model"]
    assert product.rms == pytest.approx(np.sqrt(((made - exact) ** 2).mean() / (exact**2).mean()), rel=1e-5)
    assert product.largest == pytest.approx(np.abs(made - exact).max() / np.abs(exact).max(), rel=1e-5)
    assert product.own_rms == pytest.approx(product.rms, rel=1e-3)
    assert product.stored == "f32"
    assert 0 < tanh.own_rms < 1e-6 < tanh.rms
    assert end.stored == "f16"
    assert 1e-5 < end.own_rms < 1e-3
    assert end.rms == pytest.approx(
        np.sqrt(((np.tanh(made) - np.tanh(exact)) ** 2).mean() / (np.tanh(exact) ** 2).mean()), rel=1e-2
    )
    assert report.worst is product
    assert [each.operator for each in report.errors].index("model/matmul") < 2 + len(found)
    line = model.function.__code__.co_firstlineno
    assert (product.line, tanh.line) == (line + 2, line + 3)


def test_as_a_table():
    report = tessera.numerics_report(model)(X, W)
    lines = str(report).splitlines()
    assert lines[0] == "numerics of model, errors relative to f64"
    assert lines[1].split() == ["operator", "line", "stored", "as", "largest", "rms", "own", "rms"]
    assert len(lines) == 2 + len(report.errors)
    shown = report._repr_html_()
    assert shown.count("<tr>") == 1 + len(report.errors)
    assert "<td>model/matmul</td>" in shown


def test_functions_and_f64():
    report = tessera.numerics_report(lambda x: op.exp(x) * 2)(X.astype(np.float64))
    assert all(each.rms == each.largest == 0 for each in report.errors)


def test_overflows_and_nothing():
    (error,) = tessera.numerics_report(op.exp)(np.array([100.0, 1.0], np.float32)).errors
    assert (error.largest, error.rms) == (float("inf"), float("inf"))
    (error,) = tessera.numerics_report(op.exp)(np.zeros((0, 3), np.float32)).errors
    assert (error.largest, error.rms) == (0, 0)
    (error,) = tessera.numerics_report(op.log)(np.array([-1.0, 0.0, 1.0], np.float32)).errors
    assert error.rms == 0


def test_mistakes():
    with pytest.raises(CannotTrace):
        tessera.numerics_report(lambda x: float(x.sum()))(X)
