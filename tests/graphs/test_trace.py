"""A capture: its inputs, what it closes over, and the names of its operators."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportArgumentType=false, reportGeneralTypeIssues=false, reportUnknownVariableType=false

import threading

import numpy as np
import pytest

from support.operators import Array
from tessera import graph, op
from tessera.core.base.dtypes import boolean, f32, f64, i64
from tessera.core.graph.graph import Tensor
from tessera.graphs.function import GraphFunction
from tessera.graphs.trace import current_trace, is_operand, tensor_of, tracing
from tessera.graphs.tracer import Tracer
from tessera.runtime.arrays.host import plain


def test_captures_nest_and_the_innermost_one_counts():
    assert current_trace() is None
    with tracing() as outer:
        with tracing() as inner:
            assert current_trace() is inner
            assert outer.encloses(inner)
            assert not inner.encloses(outer)
            assert not inner.encloses(inner)
        assert current_trace() is outer
    assert current_trace() is None


def test_a_capture_ends_with_its_mistake():
    with pytest.raises(ZeroDivisionError), tracing():
        raise ZeroDivisionError
    assert current_trace() is None


def test_a_captured_array_is_one_input():
    x, y = np.zeros(3, np.float32), np.zeros(4)
    with tracing() as trace:
        assert trace.capture(x) is trace.capture(x)
        trace.capture(y)
    assert [value.type for value in trace.captured_values] == [Tensor(f32, (3,)), Tensor(f64, (4,))]
    assert [each is given for each, given in zip(trace.captured, (x, y), strict=True)] == [True, True]


def test_operators_are_numbered_and_nest():
    with tracing() as trace:
        x = Tracer(trace, trace.input(Tensor(f32, (3,)), "x"))
        with trace.operator("outer"):
            op.exp(op.exp(x))
    assert trace.operators == 3
    assert [node.origin.composite for node in trace.builder.nodes] == [("outer", "exp"), ("outer", "exp.1")]


def test_outputs_are_arrays_of_their_own():
    @graph.module
    def twice(x: Array) -> tuple[Array, Array, Array]:
        y = x + 1
        return x, y, y

    x = np.arange(3.0)
    a, b, c = twice(x)
    assert isinstance(a, np.ndarray)
    assert not any(np.shares_memory(p, q) for p, q in ((a, x), (b, c)))  # type: ignore[arg-type]
    np.testing.assert_array_equal(a, x)
    np.testing.assert_array_equal(b, c)


def test_threads_capture_apart():
    found: list[object] = []
    with tracing():
        thread = threading.Thread(target=lambda: found.append(current_trace()))
        thread.start()
        thread.join()
    assert found == [None]


def test_types_of_arrays_and_numbers():
    assert tensor_of(np.zeros((2, 3), np.float32), "x") == Tensor(f32, (2, 3))
    assert tensor_of(np.array(1.0), "x") == Tensor(f64, ())
    assert [tensor_of(number, "x").dtype for number in (True, 1, 1.0)] == [boolean, i64, f64]


def test_what_is_an_operand():
    assert is_operand(np.zeros(3))
    assert is_operand(np.array(2.0))
    assert not any(map(is_operand, (1, 1.0, np.float32(1), "x", None)))


def test_numbers_of_numpy_are_numbers():
    assert type(plain(np.float32(1.5))) is float
    assert type(plain(np.int64(2))) is int
    assert plain("text") == "text"


def test_nodes_have_the_place_of_the_users_own_operator():
    def places(x: Array, y: Array):
        z = x @ y.T
        return op.softmax(z) - z

    function: GraphFunction[..., object] = GraphFunction(places)
    traced = function.graph_for(np.ones((2, 3), np.float32), np.ones((4, 3), np.float32)).graph
    lines = traced.source.text.split("\n")
    said = {
        node.op: lines[node.span.line - 1][node.span.column - 1 : node.span.end_column - 1] for node in traced.nodes
    }
    assert traced.source.name == __file__
    assert said["contract"] == "x @ y.T"
    assert said["reduce"] == "op.softmax(z)"
    assert traced.nodes[0].op == "view"
    assert lines[traced.nodes[0].span.line - 1][traced.nodes[0].span.column - 1 :] == "y.T"
    assert said["map"] == "op.softmax(z) - z"
