"""Calls of graphs become those graphs, at any depth; the others stay."""

import numpy as np

from support.gradients import drawn, graph_of
from tessera.core.base.dtypes import f32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Graph, Origin, Routine, Value
from tessera.core.graph.verify import verify
from tessera.lowering.graph.expand_calls import RULE, expand_calls
from tessera.runtime.interpret.graph import evaluate


def defined(name: str, opcode: str, inner: Routine | None = None) -> Routine:
    """Return a routine that is one operation, of what `inner` makes of its operand first."""

    def make(b: GraphBuilder, x: Value) -> Value:
        with b.within(Origin(composite=(name,))):
            given = b.call(inner, [x])[0] if inner else x
            return b.unary(opcode, given)

    return Routine(name, definition=graph_of(make, (f32, (3,))))


def called(routine: Routine) -> Graph:
    def make(b: GraphBuilder, x: Value) -> Value:
        with b.within(Origin(composite=("model", routine.name))):
            return b.scaled(b.call(routine, [x])[0], 2.0)

    return graph_of(make, (f32, (3,)))


def test_definitions_take_the_place_of_calls():
    graph = called(defined("outer", "exp", defined("inner", "tanh")))
    expanded = expand_calls(graph)
    verify(expanded)
    assert [node.op for node in expanded.nodes] == ["map", "map", "map"]
    assert [node.origin.composite for node in expanded.nodes][1:] == [("model", "outer")] * 2
    assert expanded.nodes[1].origin.rule == RULE
    given = drawn(graph)
    for a, b in zip(evaluate(graph, given), evaluate(expanded, given), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_allclose(evaluate(graph, given)[0], 2 * np.exp(np.tanh(given[0])), rtol=1e-6)


def test_calls_without_a_definition_stay():
    routine = Routine("twice", types=lambda types, _: types, run=lambda arrays, _: [np.asarray(arrays[0]) * 2])
    graph = called(routine)
    assert expand_calls(graph) is graph
