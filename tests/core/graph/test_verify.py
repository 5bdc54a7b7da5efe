"""Graphs that break a rule are refused, with the node that does."""

from dataclasses import replace

import pytest

from support.gradients import graph_of
from tessera.core.base.dtypes import f32, f64
from tessera.core.graph.graph import Graph, Node, Routine, Tensor, Value
from tessera.core.graph.infer import IllTyped
from tessera.core.graph.verify import verify


def chain() -> Graph:
    return graph_of(lambda b, x: b.unary("sin", b.unary("exp", x)), (f32, (3,)))


def refused(graph: Graph, message: str) -> None:
    with pytest.raises(IllTyped, match=message):
        verify(graph)


def test_a_graph_as_built():
    verify(chain())


def test_uses_before_definitions():
    graph = chain()
    refused(replace(graph, nodes=graph.nodes[::-1]), r"g: g1 \(map\): uses a value before it is made")


def test_outputs_that_nothing_makes():
    refused(replace(chain(), outputs=(Value(Tensor(f32, ())),)), "an output that nothing makes")


def test_numbers_and_values_are_used_once():
    graph = chain()
    first, second = graph.nodes
    refused(replace(graph, nodes=(first, replace(second, ident=0))), "its number is used twice")
    refused(replace(graph, nodes=(first, replace(second, results=first.results))), "makes a value twice")


def test_primitives_that_there_are_not():
    graph = chain()
    refused(replace(graph, nodes=(replace(graph.nodes[0], op="frob"), graph.nodes[1])), "no such primitive")


def test_results_have_the_type_that_follows():
    graph = chain()
    wrong = replace(graph.nodes[1], results=(Value(Tensor(f64, (3,))),))
    refused(replace(graph, nodes=(graph.nodes[0], wrong), outputs=()), r"its result is f64\[3\], and must be f32\[3\]")


def test_attributes_that_do_not_fit():
    graph = chain()
    wrong = replace(graph.nodes[1], attributes={"axes": (), "shape": (3,)})
    refused(replace(graph, nodes=(graph.nodes[0], wrong)), r"g1 \(map\): one tuple of axes an operand")


def test_bodies_are_verified():
    inner = chain()
    bad = replace(inner, nodes=inner.nodes[::-1])
    x = Value(inner.inputs[0].type)
    results = tuple(Value(value.type) for value in inner.outputs)
    call = Node("call", (x,), results, {}, Routine("f", definition=inner))
    verify(Graph("outer", (x,), (call,), results))
    wrong = replace(call, body=Routine("f", definition=bad))
    refused(Graph("outer", (x,), (wrong,), results), "outer: g0 .call.: g: g1 .map.: uses a value")


def test_all_results_of_a_call_are_verified():
    x = Value(Tensor(f32, (3,)))
    routine = Routine("halves", types=lambda types, _: [types[0], types[0]])
    made = Value(x.type), Value(Tensor(f64, (3,)))
    graph = Graph("g", (x,), (Node("call", (x,), made, {}, routine),), made)
    refused(graph, r"its result is f32\[3\], f64\[3\], and must be f32\[3\], f32\[3\]")
