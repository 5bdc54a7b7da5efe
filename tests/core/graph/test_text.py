"""Graphs as text: MLIR reads it back, names are unique, and every node has its place."""

import math

import pytest
from hypothesis import given, settings

from support.gradients import graph_of
from support.graphs import graphs
from tessera.core.base.dtypes import BY_NAME, boolean, f32, i64, u32
from tessera.core.base.source import Span
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Literal
from tessera.core.graph.extents import Symbols
from tessera.core.graph.graph import Graph, Node, Origin, Tensor, Value
from tessera.core.graph.index_maps import Affine, IndexMap, Term, window
from tessera.core.graph.text import index_map_text, numbered_lines, tensor_text, to_text
from tessera.core.mlir import ir


def parsed(graph: Graph) -> ir.Module:
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        return ir.Module.parse(to_text(graph))


def test_a_layer():
    def make(b: GraphBuilder, x: Value, w: Value) -> Value:
        with b.within(Origin(composite=("linear", "gelu")), Span("cell", 3, 9, 3, 12)):
            product = b.contract(x, w, ((0, 1), (1, 2)), (0, 2))
        return b.scaled(product, 0.5)

    assert to_text(graph_of(make, (f32, (2, 3)), (f32, (3, 4)))) == (
        '"graph.module"() ({ ^entry(%x0: tensor<2x3xf32>, %x1: tensor<3x4xf32>):\n'
        '  %0 = "graph.contract"(%x0, %x1) {labels = [[0 : i64, 1 : i64], [1 : i64, 2 : i64]], '
        'result = [0 : i64, 2 : i64], accumulate = "f32", exact = false, tile_shape = [], composite = "linear/gelu"} : '
        '(tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32> loc("g0"("cell":3:9))\n'
        '  %1 = "graph.map"(%0) {axes = [[0 : i64, 1 : i64]], shape = [2 : i64, 4 : i64], body = "(x0 * 0.5)"} : '
        '(tensor<2x4xf32>) -> tensor<2x4xf32> loc("g1")\n'
        '  "graph.return"(%1) : (tensor<2x4xf32>) -> ()\n'
        '}) {sym_name = "g"} : () -> ()\n'
    )


@settings(max_examples=30)
@given(graphs())
def test_mlir_reads_it_back(graph: Graph):
    module = parsed(graph)
    (operation,) = module.body.operations
    (block,) = operation.regions[0].blocks
    assert [op.operation.name for op in block.operations] == [*(f"graph.{n.op}" for n in graph.nodes), "graph.return"]
    for op, node in zip(block.operations, graph.nodes, strict=False):
        assert [str(result.type) for result in op.results] == [tensor_text(value.type) for value in node.results]


def test_rules_bodies_and_strange_numbers():
    inner = graph_of(lambda b, x: b.unary("exp", x), (f32, (3,)))
    result = Value(Tensor(f32, (3,)), "out")
    attributes = {"trips": 2, "limit": math.inf, "none": None, "empty": "", "kept": False, "text": 'a "b"'}
    loop = Node("loop", (), (result,), attributes, (inner,), 9, Origin("unroll", (3, 4)))
    graph = Graph("outer", (), (loop,), (result,))
    text = to_text(graph)
    assert 'limit = "inf"' in text
    assert 'rule = "unroll", parents = ["g3", "g4"]' in text
    assert "none" not in text
    assert "empty" not in text
    parsed(graph)


def test_names_are_unique():
    type_ = Tensor(f32, ())
    inputs = [Value(type_, name) for name in ("x", "x", "x", "", "größe", "a b")]
    text = to_text(Graph("g", tuple(inputs), (), tuple(inputs)))
    assert "(%x, %x_1, %x_2, %0, %1, %2)" in text.replace(": tensor<f32>", "").splitlines()[1]
    parsed(Graph("g", tuple(inputs), (), tuple(inputs)))


def test_each_line_knows_its_node():
    graph = graph_of(lambda b, x: b.unary("sin", b.unary("exp", x)), (f32, (3,)))
    assert [node for _, node in numbered_lines(graph)] == [None, *graph.nodes, None, None]


@pytest.mark.parametrize(
    ("tensor", "text"),
    [(Tensor(f32, ()), "tensor<f32>"), (Tensor(i64, (2, 0)), "tensor<2x0xi64>"), (Tensor(boolean, (3,)), "tensor<3xi1>"),
     (Tensor(u32, (3,)), "tensor<3xui32>"), (Tensor(BY_NAME["fp8_e4m3"], (3,)), "tensor<3xf8E4M3FN>")],
)  # fmt: skip
def test_types(tensor: Tensor, text: str):
    assert tensor_text(tensor) == text


@pytest.mark.parametrize(
    ("index_map", "text"),
    [
        (IndexMap((4, 3), (Affine(1, (Term(1, 2),)), Affine())), "(d0, d1) -> (d1 * 2 + 1, 0)"),
        (window((8,), (-1,), (1,), (5,)), "(d0) -> (d0 + -1) or 0"),
        (
            IndexMap((12,), (Affine(0, (Term(0, 1, 4),)), Affine(0, (Term(0, 3, 1, 4),)))),
            "(d0) -> (d0 // 4, (d0 % 4) * 3)",
        ),
        (IndexMap((), (Affine(2),)), "() -> (2)"),
        (IndexMap((2, 2), (Affine(0, (Term(0, 2), Term(1))),)), "(d0, d1) -> (d0 * 2 + d1)"),
    ],
)
def test_index_maps(index_map: IndexMap, text: str):
    assert index_map_text(index_map) == text


def test_literals_of_maps():
    def make(b: GraphBuilder, x: Value) -> tuple[Value, Value]:
        return x, b.map(Literal(-0.0, f32), (), (), (2,))

    assert 'body = "-0.0"' in to_text(graph_of(make, (f32, ())))


def test_symbols_are_dynamic_extents_with_their_names():
    n, m = Symbols(("n", "m"), (48, 40)).extents
    assert tensor_text(Tensor(f32, (n, 3, 2 * m))) == 'tensor<?x3x?xf32, "n, 2*m">'
    graph = graph_of(lambda b, x, y: b.contract(x, y, ((0, 2), (1, 2)), (0, 1)), (f32, (n, 3)), (f32, (m, 3)))
    module = parsed(graph)
    (block,) = module.body.operations[0].regions[0].blocks
    assert str(block.operations[0].results[0].type) == tensor_text(Tensor(f32, (n, m)))
