"""Equal nodes are one; numbers go into expressions."""

import numpy as np

from support.gradients import graph_of, reals
from tessera.core.base.dtypes import bf16, f32, f64
from tessera.core.graph.expr import Apply, Argument, Literal, apply, to_text
from tessera.core.graph.graph import Graph
from tessera.core.graph.index_maps import broadcast, window
from tessera.lowering.autodiff.derived_builder import DerivedBuilder
from tessera.runtime.interpret.graph import evaluate

X, Y = Argument(0, f64), Argument(1, f64)


def start() -> tuple[Graph, DerivedBuilder]:
    graph = graph_of(lambda b, x: b.unary("sin", x), reals(3, 4))
    return graph, DerivedBuilder(graph)


def test_an_equal_node_is_the_one_that_is_there():
    graph, b = start()
    (x,) = graph.inputs
    assert b.unary("sin", x) is graph.outputs[0]
    assert b.like(graph.nodes[0], (x,)) is graph.outputs[0]
    assert b.unary("cos", x) is b.unary("cos", x)
    assert b.reduce(x, (0,)) is not b.reduce(x, (1,))
    assert b.reduce(x, (0,), "max") is not b.reduce(x, (0,))
    assert b.nodes[0] is graph.nodes[0]
    assert [node.ident for node in b.nodes] == list(range(len(b.nodes)))


def test_numbers_go_into_expressions():
    graph, b = start()
    (x,) = graph.inputs
    two, zero = b.full(2.0, f64, (4,)), b.full(0.0, f64, (3, 4))
    product = b.expression(apply("mul", X, Y), (x, two), ((0, 1), (1,)), (3, 4))
    body = b.nodes[-1].body
    assert isinstance(body, Apply)
    assert to_text(body) == "(2.0 * x0)"
    assert b.nodes[-1].operands == (x,)
    assert b.expression(apply("add", X, Y), (product, zero), ((0, 1), (0, 1)), (3, 4)) is product
    everywhere = b.view(two, broadcast((4,), (1,), (5, 4)))
    assert b.nodes[-1].body == Literal(2.0, f64)
    assert everywhere.type.shape == (5, 4)


def test_operands_are_there_once_and_only_where_needed():
    graph, b = start()
    (x,) = graph.inputs
    b.expression(apply("mul", apply("exp", X), Argument(2, f64)), (x, x, x), ((0, 1), (1, 0), (0, 1)), (3, 4))
    assert b.nodes[-1].operands == (x,)
    assert b.nodes[-1].attributes["axes"] == ((0, 1),)


def test_a_total_is_rounded_once():
    graph = graph_of(lambda b, x, y: b.binary("max", x, y), (bf16, (1,)), (bf16, (1,)))
    b = DerivedBuilder(graph)
    x, y = graph.inputs
    out = b.finish("total", (x, y), [b.total([x, y, y], bf16)])
    assert len(out.nodes) == 2
    found = evaluate(out, [np.array([1.0], bf16.numpy), np.array([2.0**-8], bf16.numpy)])[0]
    assert float(found[0]) == 1 + 2.0**-7  # adding 2 ** -8 twice, rounded each time, stays 1
    assert b.total([x], bf16) is x


def test_long_sums_are_several_maps_with_the_bits_of_one():
    graph = graph_of(lambda b, x: b.unary("sin", x), (f32, (100, 3)))
    b = DerivedBuilder(graph)
    (x,) = graph.inputs
    rows = [b.reshape(b.view(x, window((100, 3), (n, 0), (1, 1), (1, 3))), (3,)) for n in range(100)]
    out = b.finish("total", (x,), [b.total(rows, bf16)])
    sums = [node for node in out.nodes if node.op == "map"][1:]
    assert [len(node.operands) for node in sums] == [32, 32, 32, 7]
    values = np.random.default_rng(0).normal(size=(100, 3)).astype(np.float32)
    wanted = np.zeros(3, np.float32)
    for row in values:
        wanted += row
    np.testing.assert_array_equal(evaluate(out, [values])[0], wanted.astype(bf16.numpy))
