"""Names of values: the user's variables where there are any."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

import numpy as np

from support.operator_graphs import LOSS, QKV, ROWS, attention, classify, gradient, line_of, module
from tessera.core.base.dtypes import f32
from tessera.core.base.source import NOWHERE, Source
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Tensor, Value
from tessera.graphs.tracer import Tracer
from tessera.viz.operators.names import function_span, value_names


def test_values_are_called_what_the_text_calls_them():
    graph = attention.graph_for(*QKV).graph
    names = value_names(graph)
    assert [names[value] for value in graph.inputs] == ["Q", "K", "V"]
    by_op = {names[node.result]: node.op for node in graph.nodes}
    assert (by_op["S"], by_op["A"], by_op["result"]) == ("contract", "map", "contract")
    assert len(set(names.values())) == len(graph.inputs) + len(graph.nodes)


def test_tuples_give_a_name_to_each():
    graph = classify.graph_for(*ROWS).graph
    names = value_names(graph)
    assert {"h", "logits", "p", "result"} <= set(names.values())
    assert [names[value] for value in graph.outputs] == ["p", "result"]


def test_adjoints_take_no_names_away():
    graph = gradient.graph_for(*LOSS).graph
    names = value_names(graph)
    (hidden,) = [node for node in graph.nodes if names[node.result] == "h"]
    assert hidden.origin.composite == ("grad_loss", "gelu")


def test_a_name_that_is_taken_gets_a_number():
    @module("twice")
    def twice(x: Tracer) -> object:
        for _ in range(2):
            y = x + 1.0
            x = y * y
        return x

    graph = twice.graph_for(np.ones(3, np.float32)).graph
    names = sorted(value_names(graph).values())
    assert len(names) == len(set(names))
    assert {"x", "x_1"} <= set(names)


def test_a_graph_without_text_has_numbers():
    build = GraphBuilder()
    x, y = Value(Tensor(f32, (3,)), "x"), Value(Tensor(f32, (3,)), "no name")
    out = build.binary("add", build.unary("exp", x), y)
    graph = build.finish("g", [x, y], [out])
    names = value_names(graph)
    assert [names[value] for value in (x, y, graph.nodes[0].result, out)] == ["x", "x_1", "g0", "result"]
    assert function_span(graph) == NOWHERE
    cell = build.finish("g", [x, y], [out], Source("cell", "%%tessera\nnot python:::"))
    assert value_names(cell)[out] == "result"
    assert function_span(cell) == NOWHERE


def test_the_place_of_the_function():
    span = function_span(attention.graph_for(*QKV).graph)
    assert (span.line, span.end_line) == (line_of("def attention"), line_of("return op.matmul(A, V)"))
