"""Nodes that nothing needs are removed, the others stay what they were."""

from support.gradients import graph_of, reals
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.dead_code import live_nodes, without_dead_nodes
from tessera.core.graph.graph import Value


def test_a_chain_that_nothing_reads_goes_as_a_whole():
    def make(b: GraphBuilder, x: Value) -> Value:
        b.unary("exp", b.unary("sin", x))
        return b.unary("cos", x)

    graph = graph_of(make, reals(3))
    (kept,) = without_dead_nodes(graph).nodes
    assert kept is graph.nodes[2]
    assert without_dead_nodes(graph).inputs == graph.inputs


def test_a_graph_without_dead_nodes_is_itself():
    graph = graph_of(lambda b, x: b.unary("exp", b.unary("sin", x)), reals(3))
    assert without_dead_nodes(graph) is graph


def test_live_nodes_of_some_outputs():
    graph = graph_of(lambda b, x: (b.unary("exp", x), b.unary("sin", x)), reals(3))
    assert live_nodes(graph.nodes, graph.outputs[1:]) == [graph.nodes[1]]
    assert live_nodes(graph.nodes, ()) == []
