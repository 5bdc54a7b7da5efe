"""Python numbers that change from call to call: one graph for all, with the bits of a graph for each."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tessera
from tessera import op
from tessera.core.base.dtypes import BY_NAME
from tessera.core.errors.catalog import OperandMismatch
from tessera.graphs import function as functions
from tessera.graphs.function import GraphFunction
from tessera.kernels.options import Options

Function = Callable[..., Any]
Array: TypeAlias = Any  # of any library
INTERPRETED = Options(target="interpret")


def adam(w: Array, g: Array, s: float, n: int) -> Array:
    moment = 0.9 * w + (1 - 0.9) * g
    return w - s * moment / (1 - 0.9**n) * 0.5 - abs(-s) * w


def nested(w: Array, g: Array, s: float, n: int) -> Array:
    inner = GraphFunction(lambda x, scale: op.exp(x * scale) - scale)
    return inner(w, s) + inner(g, s / n)


def trips(w: Array, g: Array, s: float, n: int) -> Array:
    total, _ = op.scan(lambda carry, row: (carry * s + row, None), g[0], w)
    return op.cond(op.sum(g) > 0, lambda x: x * s, lambda x: x - n, total)


def slope(w: Array, g: Array, s: float, n: int) -> Array:
    return w - s * tessera.grad(lambda v: op.sum(op.sin(v * s) * g) * n)(w)


PROGRAMS: dict[str, Function] = {
    "times": lambda w, g, s, n: w * s + g * n,
    "reflected": lambda w, g, s, n: s - w / n + (n / (g * g + 1.0)),
    "quotients": lambda w, g, s, n: s / (w * w + 1.0) + g / (s * s + 1),
    "where": lambda w, g, s, n: op.where(w > g, s, w) + op.where(g > 0.0, g, n),
    "compared": lambda w, g, s, n: op.where(w > s, w, g) * (g <= n),
    "bounds": lambda w, g, s, n: op.maximum(w, s) + op.clip(g, -1.0, s),
    "updates": lambda w, g, s, n: w.at[1:].set(s) + g.at[0].add(s * n),
    "alone": lambda w, g, s, n: w * op.sqrt(s * s) + op.exp(op.sin(s)) * g,
    "powers": lambda w, g, s, n: op.abs(w) ** s + op.abs(g) ** n + (w % (s * s + 0.5)),
    "adam": adam, "nested": nested, "trips": trips, "slope": slope,
}  # fmt: skip


def captures(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count captures."""
    counts = [0]
    capture = functions.capture

    def counting(*arguments: object) -> Array:  # those of `capture`
        counts[0] += 1
        return capture(*arguments)

    monkeypatch.setattr(functions, "capture", counting)
    return counts


def same_bits(one: Array, other: Array) -> None:
    assert (one.dtype, one.shape) == (other.dtype, other.shape)
    assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("name", PROGRAMS)
@settings(max_examples=4, deadline=None)
@given(data=st.data())
def test_every_number_gives_the_bits_that_it_gives_as_a_literal(name: str, dtype: str, data: st.DataObject):
    function = GraphFunction(PROGRAMS[name], options=INTERPRETED)
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    w, g = (rng.standard_normal((3, 4)).astype(BY_NAME[dtype].numpy) for _ in range(2))
    for _ in range(5):
        s, n = data.draw(st.floats(-2.0, 2.0)), data.draw(st.integers(1, 40))
        literal = GraphFunction(PROGRAMS[name], options=INTERPRETED)
        same_bits(function(w, g, s, n), literal(w, g, s, n))


@pytest.mark.parametrize("name", PROGRAMS)
def test_captures_end_with_the_third_number(name: str, monkeypatch: pytest.MonkeyPatch):
    counts = captures(monkeypatch)
    function = GraphFunction(PROGRAMS[name], options=INTERPRETED)
    w = g = np.ones((3, 4), np.float32)
    for n in range(3):
        function(w, g, 0.1 + n, 3 + n)
    counts[0] = 0
    for n in range(3, 8):
        function(w, g, 0.1 + n, 3 + n)
    assert counts[0] == 0
    assert len(function.executable.graph.inputs) > 2


def by_kind(w: Array, s: float) -> Array:
    return w * s if type(s) is float else w + w


DECIDE: dict[str, Function] = {
    "branch": lambda w, s: w * s if s > 2 else w - s,
    "math": lambda w, s: w * math.sqrt(abs(s)),
    "kind": by_kind,
    "text": lambda w, s: w * len(f"{s:.3f}"),
    "table": lambda w, s: w * {1.5: 2.0}.get(s, 3.0),
    "numpy": lambda w, s: w * np.float32(s),
    "array": lambda w, s: w * (np.ones(4, np.float32) * s),
    "rounded": lambda w, s: w * round(s),
    "remainder": lambda w, s: w * (s % 2),
}


@pytest.mark.parametrize("name", DECIDE)
def test_functions_that_decide_by_a_number_are_captured_for_each(name: str):
    function = GraphFunction(DECIDE[name], options=INTERPRETED)
    w = np.linspace(1, 2, 12, dtype=np.float32).reshape(3, 4)
    for s in (0.5, 1.5, 2.5, 3.25, 0.75, 1.5):
        same_bits(function(w, s), GraphFunction(DECIDE[name], options=INTERPRETED)(w, s))


def test_integers_that_shape_arrays_are_part_of_the_program():
    rolled = GraphFunction(lambda x, n: op.concat([x[n:], x[:n]]), options=INTERPRETED)
    x = np.arange(9.0, dtype=np.float32)
    for n in range(7):
        np.testing.assert_array_equal(rolled(x, n), np.roll(x, -n))
    integers = GraphFunction(lambda x, n: x * n, options=INTERPRETED)
    for n in range(7):
        np.testing.assert_array_equal(integers(np.arange(5), n), np.arange(5) * n)
    with pytest.raises(OperandMismatch):
        integers(np.arange(5, dtype=np.int8), 300)


def test_switches_are_part_of_the_program(monkeypatch: pytest.MonkeyPatch):
    function = GraphFunction(lambda x, scale, axis: op.sum(x, axis=axis) * scale, options=INTERPRETED)
    x = np.ones((3, 4), np.float32)
    counts = captures(monkeypatch)
    for n in range(9):
        got = function(x, 1.5 + n, n % 2)
        np.testing.assert_array_equal(got, np.full(4 - n % 2, (3 + n % 2) * (1.5 + n), np.float32))
    assert counts[0] <= 8
    counts[0] = 0
    for n in range(9, 15):
        function(x, 1.5 + n, n % 2)
    assert counts[0] == 0


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, -0.0, 0.0, 1e300, 5e-324, 70000.0])
@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
def test_special_numbers(number: float, dtype: str):
    function = GraphFunction(lambda x, s: (x * s, op.maximum(x, s), s / x), options=INTERPRETED)
    x = np.array([1.0, -2.0, 0.0], BY_NAME[dtype].numpy)
    for first in (1.0, 2.0, 3.0):
        function(x, first)
    literal = GraphFunction(lambda x, s: (x * s, op.maximum(x, s), s / x), options=INTERPRETED)
    for got, want in zip(function(x, number), literal(x, number), strict=True):
        same_bits(got, want)


def test_closures_beside_numbers_are_read_again():
    rate = [2.0]
    function = GraphFunction(lambda x, s: x * s + rate[0], options=INTERPRETED)
    x = np.ones(3, np.float32)
    for n in range(8):
        rate[0] = float(n // 4)
        np.testing.assert_array_equal(function(x, float(n)), x * n + n // 4)


def test_numbers_in_trees_and_keywords(monkeypatch: pytest.MonkeyPatch):
    function = GraphFunction(lambda p, *, rate: p["w"] * p["scale"] - rate, options=INTERPRETED)
    w = np.ones(3, np.float32)
    for n in range(3):
        function({"w": w, "scale": 1.0 + n}, rate=0.5 * n)
    counts = captures(monkeypatch)
    np.testing.assert_array_equal(function({"w": w, "scale": 8.0}, rate=0.25), np.full(3, 7.75, np.float32))
    assert counts[0] == 0


def test_derivatives_of_functions_with_numbers(monkeypatch: pytest.MonkeyPatch):
    gradient = tessera.value_and_grad(lambda w, x, s: op.sum((w * x - s) ** 2) * s)
    w, x = np.array([1.0, 2.0], np.float32), np.array([3.0, -1.0], np.float32)
    for n in range(3):
        gradient(w, x, 1.0 + n)
    counts = captures(monkeypatch)
    value, slope = gradient(w, x, 0.5)
    assert counts[0] == 0
    assert value == ((w * x - 0.5) ** 2).sum() * 0.5
    np.testing.assert_array_equal(slope, 2 * (w * x - 0.5) * x * 0.5)


def test_views_of_given_arguments_show_their_numbers():
    function = GraphFunction(lambda x, s: x * s, options=INTERPRETED)
    x = np.ones(3, np.float32)
    for n in range(5):
        function(x, float(n))
    assert len(function.executable.graph.inputs) == 2
    assert len(function.executable_for(x, 7.0).graph.inputs) == 1
    assert "7.0" in function.inspect_ir("graph", x, 7.0)
    assert len(function.graph_for(x, 8.0).graph.inputs) == 1
