"""Inverse trigonometric functions: units in the last place over the whole range, quadrants, derivatives."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportCallIssue=false, reportUnknownArgumentType=false

import math

import numpy as np
import pytest

import tessera
from support.operators import FLOATS, TARGETS, Array, everywhere
from tessera import graph, op
from tessera.core.errors.catalog import OperandMismatch
from tessera.core.graph.build import GraphBuilder
from tessera.core.settings import overridden
from tessera.graphs.trace import tracing
from tessera.graphs.tracer import as_tracer
from tessera.ops.elementary.inverse_trigonometric import one_minus_square
from tessera.runtime.interpret.graph import evaluate

SMALL = np.logspace(-44, 38, 800)
NEAR_ONE = 1 - np.logspace(-16, 0, 300)
POINTS = np.concatenate([SMALL, np.linspace(0, 3, 601), NEAR_ONE, 2 - NEAR_ONE, [0.0, math.inf]])
NAMES = ("arctan", "arcsin", "arccos")
UNITS = {"arctan": 2.2, "arcsin": 3.2, "arccos": 2.7, "arctan2": 2.7}
EDGES = (0.0, -0.0, 1.0, -1.0, 1e-38, -3e38, 1e20, math.inf, -math.inf, math.nan)


def within(got: Array, exact: Array, units: float, name: str) -> None:
    """Assert that a result is so many units in the last place from an exact one, with the sign of each zero."""
    result = np.asarray(got)
    with np.errstate(all="ignore"):
        rounded = exact.astype(result.dtype)
        error = np.abs(result.astype(np.longdouble) - exact) / np.spacing(np.abs(rounded)).astype(np.longdouble)
    alike = (result == rounded) | (np.isnan(result) & np.isnan(rounded))
    wrong = ~(alike | (error <= units))
    assert not wrong.any(), (name, exact[wrong][:3], result[wrong][:3], float(error[wrong].max()))
    number = ~np.isnan(rounded)
    np.testing.assert_array_equal(np.signbit(result)[number], np.signbit(rounded)[number])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_units_in_the_last_place(dtype: type[np.floating]):
    with np.errstate(all="ignore"):
        x = np.unique(np.concatenate([POINTS, -POINTS]).astype(dtype))
        x = np.concatenate([x, np.array([-0.0, np.nan], dtype)])
        exact = [getattr(np, name)(x.astype(np.longdouble)) for name in NAMES]
    for target in TARGETS:
        with overridden(target=target):
            got = graph.module("all")(lambda x: tuple(getattr(op, name)(x) for name in NAMES))(x)
        for name, each, right in zip(NAMES, got, exact, strict=True):
            within(each, right, UNITS[name], name)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_angles_in_all_quadrants(dtype: type[np.floating]):
    rng = np.random.default_rng(0)
    edges = np.array(EDGES, np.float64)
    with np.errstate(all="ignore"):
        y, x = (np.concatenate([v, rng.normal(size=3000) * 10.0 ** rng.integers(-6, 7, 3000)]).astype(dtype)
                for v in (np.repeat(edges, len(edges)), np.tile(edges, len(edges))))  # fmt: skip
        exact = np.arctan2(y.astype(np.longdouble), x.astype(np.longdouble))
    for target in TARGETS:
        with overridden(target=target):
            within(op.arctan2(y, x), exact, UNITS["arctan2"], "arctan2")


def test_short_floats_and_integers():
    x = np.linspace(-1, 1, 37)
    for dtype in ("f16", "bf16"):
        short = x.astype(FLOATS[dtype])
        for name in NAMES:
            got = everywhere(getattr(op, name), short)
            assert got.dtype == short.dtype
            np.testing.assert_array_equal(got, getattr(np, name)(short.astype(np.float64)).astype(short.dtype))
    assert np.asarray(op.arctan2(np.array([1, -1]), 0)).dtype == np.float32
    np.testing.assert_allclose(op.arctan2(np.array([1, -1]), 0), [math.pi / 2, -math.pi / 2], rtol=1e-6)
    np.testing.assert_allclose(op.arctan(np.array([0, 1, -3])), np.arctan([0, 1, -3]), rtol=1e-6)


def test_derivatives_of_angles():
    y, x = (
        np.array([1.0, -2.0, 0.0, 3e200, 1e-200, 0.0, 1.0]),
        np.array([2.0, -1.0, -3.0, 4e200, 1e-200, 0.0, math.inf]),
    )
    by_y, by_x = tessera.grad(lambda y, x: op.sum(op.arctan2(y, x)), (0, 1))(y, x)
    np.testing.assert_allclose(by_y, [0.4, -0.2, -1 / 3, 0.16e-200, 0.5e200, 0.0, 0.0], rtol=1e-14, atol=1e-300)
    np.testing.assert_allclose(by_x, [-0.2, 0.4, 0.0, -0.12e-200, -0.5e200, 0.0, 0.0], rtol=1e-14, atol=1e-300)
    tessera.check_adjoint(op.arctan2, np.linspace(-2, 2, 5), np.linspace(0.5, 1.5, 5)[:, None])
    _, tangent = tessera.jvp(op.arctan, (np.array([0.5]),), (np.array([2.0]),))
    np.testing.assert_allclose(tangent, [1.6])


def test_degrees_and_radians():
    x = np.array([0.0, 90.0, -180.0, 720.0], np.float32)
    np.testing.assert_array_equal(everywhere(op.radians, x), np.radians(x))
    np.testing.assert_allclose(everywhere(op.degrees, np.radians(x)), x, rtol=1e-6)
    assert np.asarray(op.radians(np.array([180]))).dtype == np.float32


def test_what_does_not_broadcast_is_refused():
    with pytest.raises(OperandMismatch, match=r"\(3,\) and \(4,\) do not broadcast together"):
        op.arctan2(np.ones(3), np.ones(4))


def test_one_minus_a_square_is_rounded_once():
    x = np.float32(1) - np.float32(5 * 2**-20)
    with tracing(GraphBuilder()) as trace:
        graph_of_x = trace.finish("f", [one_minus_square(as_tracer(np.array(x))).value])
    (got,) = evaluate(graph_of_x, [np.array(x)])
    assert float(got) == float(np.float32(1 - float(x) ** 2))
    assert float(got) != float(np.float32(1) - x * x)
