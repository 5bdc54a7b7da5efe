"""Executables that functions share, whose graphs are equal."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false

import gc
import weakref
from collections.abc import Callable

import numpy as np
import pytest

import tessera
from support.operators import Array, close, drawn
from tessera import graph, op
from tessera.core.settings import overridden
from tessera.graphs import known_executables
from tessera.graphs.executable import Executable
from tessera.graphs.function import GraphFunction
from tessera.graphs.known_executables import executable_of
from tessera.kernels.options import Options


def layer(
    number: float, shape: tuple[int, ...] = (4,), dtype: type = np.float32, target: str | None = None,
    algebra: str | frozenset[str] = "bits",
) -> Executable:  # fmt: skip
    """The executable of a function that is made anew, with a number that it closes over."""
    made: GraphFunction[..., object] = graph.module("layer", target=target, algebra=algebra)(
        lambda x: op.exp(x) * number
    )
    return made.executable_for(np.ones(shape, dtype))


def test_equal_functions_have_one_executable():
    assert layer(2.0) is layer(2.0)
    x = drawn((4,), np.float32)
    with overridden(target="cpu"):
        (doubled_,), (tripled,) = layer(2.0)(x), layer(3.0)(x)
    close(np.asarray(doubled_), 2 * np.exp(x), 1e-6)
    close(np.asarray(tripled), 3 * np.exp(x), 1e-6)


OTHER_LAYERS: dict[str, Callable[[], Executable]] = {
    "constant": lambda: layer(3.0),
    "sign": lambda: layer(-2.0),
    "type of a constant": lambda: layer(True),
    "shape": lambda: layer(2.0, (5,)),
    "axes": lambda: layer(2.0, (4, 1)),
    "dtype": lambda: layer(2.0, dtype=np.float64),
    "algebra": lambda: layer(2.0, algebra="real"),
    "a class of rewrites": lambda: layer(2.0, algebra=frozenset({"widen"})),
    "target": lambda: layer(2.0, target="cpu"),
    "options": lambda: executable_of(layer(2.0).traced, Options(sanitize=True)),
}


@pytest.mark.parametrize("name", OTHER_LAYERS)
def test_other_functions_have_others(name: str):
    made, known = OTHER_LAYERS[name](), layer(2.0)
    assert made is not known
    assert OTHER_LAYERS[name]() is made


def test_a_closure_that_changes_has_another():
    kept = {"number": 2.0}

    def scaled(x: Array) -> Array:
        return x * kept["number"]

    x = drawn((3,), np.float32)
    first = graph.module("scaled")(scaled)
    np.testing.assert_array_equal(first(x), 2 * x)
    kept["number"] = 5.0
    np.testing.assert_array_equal(graph.module("scaled")(scaled)(x), 5 * x)  # type: ignore[arg-type]
    np.testing.assert_array_equal(first(x), 5 * x)  # captured again
    kept["number"] = 2.0
    np.testing.assert_array_equal(first(x), 2 * x)


def test_arrays_that_are_closed_over_are_not_mixed_up():
    def weighted(w: Array) -> GraphFunction[..., object]:
        return graph.module("weighted")(lambda x: x * w)

    x, a, b = (drawn((3,), np.float32, n) for n in range(3))
    first, second = weighted(a), weighted(b)
    with overridden(target="cpu"):
        for _ in range(2):
            np.testing.assert_array_equal(np.asarray(first(x)), x * a)
            np.testing.assert_array_equal(np.asarray(second(x)), x * b)
    assert first.executable is second.executable


def test_the_same_on_every_target():
    x = drawn((4,), np.float32)
    for target in ("cpu", "interpret", "cpu"):
        with overridden(target=target):
            close(np.asarray(layer(2.0)(x)[0]), 2 * np.exp(x), 1e-6)


def test_places_in_the_text_are_those_of_each_function():
    def first(x: Array) -> Array:
        return op.exp(x)

    def second(x: Array) -> Array:
        return op.exp(x)

    made = [graph.module("layer")(each).executable_for(np.ones(3, np.float32)) for each in (first, second)]
    lines = [each.traced.nodes[0].span.line for each in made]
    assert lines == [each.__code__.co_firstlineno + 1 for each in (first, second)]


def test_gradients_that_are_asked_for_anew_have_one_executable():
    def loss(x: Array) -> Array:
        return op.sum(op.square(x))

    x = drawn((3,), np.float32)
    first, second = (tessera.grad(loss) for _ in range(2))
    assert first.executable_for(x) is second.executable_for(x)
    assert first.executable_for(x) is not tessera.value_and_grad(loss).executable_for(x)


def test_what_a_function_of_the_host_holds_is_let_go():
    def scaled(by: Array) -> GraphFunction[..., object]:
        @op.custom(shape=lambda x: x.shape)
        def host(x: Array) -> Array:
            return x * by

        return graph.module("scaled")(lambda x: 2 * host(x))

    x, by = drawn((3,), np.float32, 1), drawn((3,), np.float32, 2)
    gone = weakref.ref(by)
    made = scaled(by)
    np.testing.assert_array_equal(np.asarray(made(x)), 2 * x * by)
    del made, by
    gc.collect()
    assert gone() is None
    for n in range(2):
        by = drawn((3,), np.float32, n)
        np.testing.assert_array_equal(np.asarray(scaled(by)(x)), 2 * x * by)


def test_only_so_many_are_kept(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(known_executables, "_MOST_KEPT", 2)
    gone = [weakref.ref(layer(number)) for number in (20.0, 21.0, 22.0, 23.0)]
    gc.collect()
    assert [each() is None for each in gone] == [True, True, False, False]
