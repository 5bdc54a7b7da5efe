"""Rewriting: what changes has new numbers and an origin, the rest stays the very same."""

from support.gradients import graph_of
from tessera.core.base.dtypes import f32
from tessera.core.base.source import Span
from tessera.core.graph.graph import Graph, Origin, Tensor, Value
from tessera.core.graph.index_maps import identity
from tessera.core.graph.rewrite import Rewriter, renamed, without_dead_code
from tessera.core.graph.verify import verify


def chain() -> Graph:
    return graph_of(lambda b, x: b.unary("cos", b.unary("sin", b.unary("exp", x))), (f32, (3,)))


def test_a_pass_that_changes_nothing_keeps_every_node():
    graph = chain()
    rewriter = Rewriter(graph)
    for node in graph.nodes:
        rewriter.keep(node)
    again = rewriter.finish()
    assert again.nodes == graph.nodes
    assert again.outputs == graph.outputs


def test_a_node_that_is_replaced():
    graph = chain()
    exp, sin, cos = graph.nodes
    rewriter = Rewriter(graph, "halve")
    rewriter.keep(exp)
    with rewriter.builder.within(rewriter.origin(sin, exp), Span("cell", 3, 1, 3, 2)):
        rewriter.replace(sin, rewriter.builder.scaled(rewriter.operands(sin)[0], 0.5))
    rewriter.keep(cos)
    made = rewriter.finish()
    verify(made)
    first, half, last = made.nodes
    assert first is exp
    assert (half.ident, half.origin, half.span.line) == (3, Origin("halve", (1, 0)), 3)
    assert (last.ident, last.results, last.operands) == (2, cos.results, half.results)


def test_outputs_and_dead_nodes():
    graph = chain()
    rewriter = Rewriter(graph)
    for node in graph.nodes:
        rewriter.keep(node)
    rewriter.replace(graph.nodes[-1], graph.inputs[0])
    made = rewriter.finish()
    assert made.outputs == graph.inputs
    assert made.nodes == ()


def test_views_of_their_own():
    graph = chain()
    rewriter = Rewriter(graph)
    value = rewriter.view_of(graph.inputs[0], graph.nodes[0])
    (view,) = rewriter.builder.nodes
    assert (view.op, view.body, view.result, value.name) == ("view", identity((3,)), value, "x0")


def test_dead_code():
    graph = chain()
    assert without_dead_code(graph) is graph
    shorter = without_dead_code(Graph("g", graph.inputs, graph.nodes, graph.nodes[0].results))
    assert shorter.nodes == graph.nodes[:1]


def test_other_inputs():
    graph = chain()
    y = Value(Tensor(f32, (3,)), "y")
    made = renamed(graph, {graph.inputs[0]: y})
    verify(made)
    assert made.inputs == (y,)
    assert made.nodes[0].operands == (y,)
    assert made.outputs == graph.outputs
    assert renamed(Graph("g", graph.inputs, (), graph.inputs), {graph.inputs[0]: y}).outputs == (y,)
