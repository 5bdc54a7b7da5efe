"""Captured functions read what they close over when they are called, as plain functions do."""

# pyright: reportUntypedFunctionDecorator=false, reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import gc
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tessera
from support.closure_programs import ClosureProgram
from tessera import graph, op
from tessera.core.settings import overridden
from tessera.graphs.function import GraphFunction

Array = Any
X = np.array([1.0, -2.0, 0.5, 3.0], np.float32)


def agree(program: ClosureProgram, function: Callable[..., Array]) -> None:
    """Assert that a captured function gives what the plain one does now."""
    with np.errstate(all="ignore"):
        right = np.asarray(program.function(X))
    got = np.asarray(function(X))
    np.testing.assert_allclose(got, right, rtol=1e-4, atol=1e-4, err_msg=program.text + "\n".join(program.history))


def within_a_graph(function: Callable[..., Array]) -> Callable[..., Array]:
    """Return a graph that calls a function."""
    return graph.module("within")(lambda v: function(v) + 0.0)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("decorate", [graph.module("f"), tessera.jit, within_a_graph])
def test_random_programs_whose_closures_change(seed: int, decorate: Callable[..., Callable[..., Array]]):
    program = ClosureProgram.drawn(seed)
    function = decorate(program.function)
    with overridden(target="interpret"):
        agree(program, function)
        for _ in range(6):
            for _ in range(program.random.randint(0, 3)):
                program.change()
            agree(program, function)
            agree(program, function)  # a call like the last one


def counted(function: Callable[..., Array]) -> tuple[GraphFunction[..., Array], list[int]]:
    """Return a function as a graph, and a list that grows when it is captured."""
    captures: list[int] = []

    def traced(*arguments: object) -> Array:
        captures.append(1)
        return function(*arguments)

    return GraphFunction(traced, "counted"), captures


def test_new_weights_are_not_captured_again():
    model: dict[str, Any] = {"w": np.ones((4, 4), np.float32), "layers": [np.ones(4, np.float32) for _ in range(3)]}
    settings = SimpleNamespace(rate=0.5)

    def forward(v: Array) -> Array:
        h = v @ model["w"].T
        for each in model["layers"]:
            h = h * each
        return h * settings.rate

    function, captures = counted(forward)
    rng = np.random.default_rng(0)
    for step in range(5):
        model["w"] = rng.standard_normal((4, 4)).astype(np.float32)
        model["layers"][step % 3] = rng.standard_normal(4).astype(np.float32)
        np.testing.assert_allclose(np.asarray(function(X)), forward(X), rtol=1e-5)
    assert len(captures) == 1
    for rate in (0.25, 0.5, 0.25):
        settings.rate = rate
        np.testing.assert_allclose(np.asarray(function(X)), forward(X), rtol=1e-5)
    assert len(captures) == 2  # the one of 0.5 was still there


def test_numbers_of_one_kind_are_captured_once():
    table = {"scale": 1.0}
    function, captures = counted(lambda v: v * table["scale"])
    for scale, expected in (
        (0.0, 1),
        (-0.0, 2),
        (0.0, 2),
        (float("nan"), 3),
        (float("nan"), 3),
        (1, 4),
        (1.0, 5),
        (True, 6),
    ):
        table["scale"] = scale
        got = np.asarray(function(X))
        np.testing.assert_array_equal(np.signbit(got), np.signbit(X * scale))
        np.testing.assert_array_equal(got, X * scale)
        assert len(captures) == expected


def test_number_arguments_are_captured_once_each_and_the_third_for_all():
    """With the third, the capture for all of them is compared with one for this number."""
    function, captures = counted(lambda v, number: v * number)
    nan = float("nan")
    for number, expected in ((0.0, 1), (-0.0, 2), (0.0, 2), (nan, 4), (0.0, 4), (-0.0, 4), (nan, 4), (7.0, 4), (0, 5)):
        got = np.asarray(function(X, number))
        np.testing.assert_array_equal(got, X * number)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(X * number))
        assert len(captures) == expected


def test_what_a_function_is_given_is_read_too():
    scale = 2.0

    def activation(v: Array) -> Array:
        return v * scale

    @graph.module("apply")
    def apply(v: Array, function: Callable[..., Array]) -> Array:
        return function(v)

    np.testing.assert_array_equal(np.asarray(apply(X, activation)), X * 2)
    scale = 3.0
    np.testing.assert_array_equal(np.asarray(apply(X, activation)), X * 3)


def test_derivatives_and_operators_of_ones_own():
    scale, slope = 2.0, 5.0

    def loss(v: Array) -> Array:
        return op.sum(v * v * scale)

    gradient = tessera.grad(loss)
    np.testing.assert_allclose(gradient(X), 4 * X)
    scale = 3.0
    np.testing.assert_allclose(gradient(X), 6 * X)

    def pulled(inputs: tuple[Array, ...], outputs: Array, cotangents: tuple[Array, ...]) -> Array:
        return cotangents[0] * slope

    @op.custom(adjoint=pulled)
    def doubled(v: Array) -> Array:
        return v * 2

    around = tessera.grad(lambda v: op.sum(doubled(v)))
    np.testing.assert_allclose(around(X), np.full(4, 5.0))
    slope = 7.0
    np.testing.assert_allclose(around(X), np.full(4, 7.0))


def test_graphs_inside_of_graphs():
    scale = 2.0

    @graph.module("inner")
    def inner(v: Array) -> Array:
        return v * scale

    outer = graph.module("outer")(lambda v: inner(v) + 1)
    np.testing.assert_array_equal(np.asarray(outer(X)), X * 2 + 1)
    scale = 3.0
    np.testing.assert_array_equal(np.asarray(outer(X)), X * 3 + 1)


def test_functions_whose_extents_are_symbols():
    scale = 2.0

    @graph.module("scaled")
    def scaled(v: "f32[n]") -> Array:  # type: ignore[name-defined]
        return v * scale

    for factor in (2.0, 3.0, 2.0):
        scale = factor
        for n in (32, 48):
            x = np.arange(n, dtype=np.float32)
            np.testing.assert_array_equal(np.asarray(scaled(x)), x * factor)


def test_a_graph_of_launches():
    module: Any = tessera.compile_source("""
rate = 2.0
parts = {"x": None}

@kernel
def scale(x: f32[n], y: mut f32[n], a: f32):
    y[:] = x[:] * a

@jit(capture_graph=True)
def step(y):
    scale(parts["x"], y, rate)
""")
    y = np.zeros(4, np.float32)
    module.parts["x"] = X
    for rate, x in ((2.0, X), (3.0, X), (3.0, X + 1), (2.0, X + 1)):
        module.rate, module.parts["x"] = rate, x
        for _ in range(2):
            module.step(y)
            np.testing.assert_array_equal(y, x * np.float32(rate))
    assert len(module.step.graphs) == 1


def test_old_weights_are_let_go():
    class Weights(np.ndarray):
        """Arrays that can be watched."""

    held = {"w": np.ones(4, np.float32).view(Weights)}
    function = graph.module("f")(lambda v: v * held["w"])
    function(X)
    old = weakref.ref(held["w"])
    held["w"] = np.zeros(4, np.float32).view(Weights)
    np.testing.assert_array_equal(np.asarray(function(X)), X * 0)
    gc.collect()
    assert old() is None


def test_functions_that_a_loop_makes_are_captured_once():
    captures: list[int] = []
    w = np.ones(4, np.float32)
    for step in range(6):
        scale = (2.0, 3.0)[step % 2]

        def loss(v: Array, scale: Array = scale) -> Array:
            captures.append(1)
            return op.sum(v * v * w * scale)  # noqa: B023 - what it is when it is called

        w = np.full(4, step, np.float32)
        np.testing.assert_allclose(tessera.grad(loss)(X), 2 * X * w * scale, rtol=1e-6)
        np.testing.assert_allclose(tessera.grad(lambda v: loss(v) * 2)(X), 4 * X * w * scale, rtol=1e-6)
    assert len(captures) == 4  # of 2.0 and of 3.0, alone and within the other function


def test_functions_of_one_place_with_other_text():
    for factor in (2, 3, 2):
        names: dict[str, Array] = {}
        exec(compile(f"def f(v):\n    return v * {factor}\n", "<one place>", "exec"), names)
        np.testing.assert_array_equal(np.asarray(graph.module("f")(names["f"])(X)), X * factor)


def test_functions_that_were_let_go_keep_no_arrays():
    class Weights(np.ndarray):
        """Arrays that can be watched."""

    w = np.ones(4, np.float32).view(Weights)
    graph.module("f")(lambda v: v * w)(X)
    old = weakref.ref(w)
    del w
    gc.collect()
    assert old() is None


def test_transposes_are_read_where_they_lie():
    """As `x @ w.T` has them, or a matrix that is kept transposed: nothing is copied for a kernel."""
    kept: dict[str, Array] = {"w": np.ones((3, 4), np.float32), "t": np.ones((4, 3), np.float32).T}
    function = graph.module("f")(lambda v: (v @ kept["w"].T, kept["t"] @ v))
    for seed in range(3):
        for got, right in zip(function(X), (X @ kept["w"].T, kept["t"] @ X), strict=True):
            np.testing.assert_allclose(np.asarray(got), right, rtol=1e-5)
        captured: Array = function.graph_for(X).captured
        assert [each.flags.c_contiguous for each in captured] == [True, True]
        assert captured[1].base is not None
        rng = np.random.default_rng(seed)
        kept["w"], kept["t"] = rng.standard_normal((3, 4)).astype("f"), rng.standard_normal((4, 3)).astype("f").T
