"""Captured functions: when they are captured again, what they return, and how they are inspected."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportArgumentType=false, reportUnknownVariableType=false

import threading
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest

from support.operators import Array, close, drawn
from tessera import graph, op
from tessera.core.errors.catalog import NotCalledYet, UnknownLevel
from tessera.core.settings import overridden
from tessera.graphs.function import GraphFunction


class Both(NamedTuple):
    total: object
    rest: list[object]


@dataclass(frozen=True)
class Layer:
    w: object
    activation: str


def captured(function: object) -> GraphFunction[..., object]:
    made = graph.module(function)  # type: ignore[arg-type]
    assert isinstance(made, GraphFunction)
    return made


def test_it_is_captured_once_for_each_kind_of_arguments():
    calls: list[object] = []

    @captured
    def scaled(x: Array, by: float) -> Array:
        calls.append((x.shape, by))
        return x * by

    for x, by in (
        (np.ones(3), 2),
        (np.zeros(3), 2),
        (np.ones(4), 2),
        (np.ones(3), 3),
        (np.ones(3), 2.0),
        (np.ones(3), 2),
    ):
        np.testing.assert_array_equal(scaled(x, by), x * by)
    assert calls == [((3,), 2), ((4,), 2), ((3,), 3), ((3,), 2.0)]
    assert repr(scaled) == "<graph scaled, captured for 4 kinds of arguments>"


def test_nested_arguments_and_results():
    @captured
    def layer(layers: list[Layer], options: dict[str, Any]) -> Both:
        x = options["x"]
        for each in layers:
            x = getattr(op, each.activation)(x @ each.w)
        return Both(x.sum(), [x, {"n": 3, "x": options["x"]}])

    x, w = drawn((2, 3), np.float64, 1), drawn((3, 3), np.float64, 2)
    got = layer([Layer(w, "tanh"), Layer(w, "relu")], {"x": x})
    want = np.maximum(np.tanh(x @ w) @ w, 0)
    assert isinstance(got, Both)
    close(np.asarray(got.total), want.sum(), 1e-12)
    close(np.asarray(got.rest[0]), want, 1e-12)
    assert isinstance(got.rest[1], dict)
    assert got.rest[1]["n"] == 3
    np.testing.assert_array_equal(got.rest[1]["x"], x)
    assert "%layers_0_w: tensor<3x3xf64>" in layer.inspect_ir("graph")


def test_what_it_closes_over_may_change():
    kept = {"w": np.ones(3)}
    weighted = captured(lambda x: x * kept["w"])
    x = np.arange(3.0)
    np.testing.assert_array_equal(weighted(x), x)
    kept["w"][:] = 2  # in place
    np.testing.assert_array_equal(weighted(x), 2 * x)
    first = weighted.executable
    kept["w"] = np.full(3, 5.0)  # another array of its kind: the same executable
    np.testing.assert_array_equal(weighted(x), 5 * x)
    assert weighted.executable is first
    kept["w"] = np.full((2, 3), 7.0)
    np.testing.assert_array_equal(weighted(x), np.full((2, 3), 7.0) * x)


def test_modules_inside_modules_are_named():
    inner = graph.module("inner")(lambda x: op.exp(x) + 1)
    outer = captured(lambda x: inner(inner(x)))
    x = drawn((3,), np.float64)
    close(np.asarray(outer(x)), np.exp(np.exp(x) + 1) + 1, 1e-12)
    text = outer.inspect_ir("graph")
    assert 'composite = "<lambda>/inner/exp"' in text
    assert 'composite = "<lambda>/inner.1/exp' in text


def test_lines_are_those_of_the_operators():
    @captured
    def two(x: Array) -> Array:
        y = op.exp(x)
        return op.square(y)

    first = two.function.__code__.co_firstlineno
    two(np.ones(3))
    text = two.inspect_ir("schedule")
    assert f"# line {first + 2} two/exp" in text
    assert f"# line {first + 3} two/square" in text


def test_levels():
    function = captured(lambda x: x + 1)
    with pytest.raises(NotCalledYet, match="was not called yet"):
        function.inspect_ir("graph")
    assert "tensor<3xf64>" in function.inspect_ir("graph", np.ones(3))
    for level in ("graph", "simplified", "rewritten"):
        assert function.inspect_ir(level).startswith('"graph.module"')
    assert function.inspect_ir("schedule").startswith("schedule")
    with pytest.raises(UnknownLevel, match="a graph has no level 'tile'") as raised:
        function.inspect_ir("tile")
    assert "choose graph, simplified, rewritten or schedule" in str(raised.value)


def test_several_threads():
    function = captured(lambda x, by: op.exp(x) * by)
    x = drawn((50,), np.float64)
    wrong: list[object] = []

    def work(by: int) -> None:
        made = [np.asarray(function(x, by % 3)) for _ in range(10)]
        wrong.extend(each for each in made if not np.allclose(each, np.exp(x) * (by % 3)))

    with overridden(target="cpu"):
        threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    assert wrong == []


def test_a_mistake_leaves_nothing_behind():
    function = captured(lambda x: op.matmul(x, x))
    for _ in range(2):
        with pytest.raises(Exception, match="no inner extent"):
            function(np.ones((2, 3)))
    np.testing.assert_array_equal(function(np.ones((2, 2))), np.full((2, 2), 2.0))
    assert repr(function).endswith("1 kinds of arguments>")


def test_the_graph_without_compiling():
    found = captured(lambda x: x + 1).graph_for(np.ones(3))
    assert [value.type.shape for value in found.graph.inputs] == [(3,)]
    assert found.captured == ()


def test_alternatives():
    def chain(x: Array, y: Array, z: Array) -> Array:
        return (x @ y) @ z

    arrays = [np.ones(shape, np.float32) for shape in ((128, 128), (128, 128), (128, 2))]
    kept, free = (GraphFunction[..., Array](chain, algebra=frozenset(names)) for names in ((), ("reassociate",)))
    with pytest.raises(NotCalledYet):
        kept.alternatives()
    found = kept.alternatives(*arrays)
    assert found.chosen.rules == ()
    assert [name for name, _ in found.with_permission] == ["reassociate"]
    free(*arrays)
    found = free.alternatives()
    assert found.chosen.rules == ("chain-order",)
    assert found.chosen.price < found.before
    (lines,) = found.chosen.lines
    assert lines
    assert 'rule = "chain-order"' in free.inspect_ir("rewritten")
    assert "chain-order" not in free.inspect_ir("simplified")
