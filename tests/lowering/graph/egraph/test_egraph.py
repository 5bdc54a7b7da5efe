"""The e-graph: hash-consing, unions, congruence, types, and nodes that rules do not look into."""

from collections.abc import Callable

import pytest

from support.gradients import graph_of
from tessera.core.base.dtypes import f32, u32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, apply
from tessera.core.graph.graph import Graph, Node, Tensor, Value
from tessera.lowering.graph.egraph.egraph import RESULT, EGraph, ENode, canonical_labels

EXP, SIN = (apply(name, Argument(0, f32)) for name in ("exp", "sin"))
SHAPE = {"axes": ((0,),), "shape": (3,)}


def of(make: Callable[[GraphBuilder, Value, Value], tuple[Value, ...]]) -> EGraph:
    return EGraph(graph_of(make, (f32, (3,)), (f32, (3,))))


def test_equal_nodes_are_one():
    egraph = of(lambda b, x, y: (b.unary("exp", x), b.unary("exp", x), b.unary("exp", y)))
    assert egraph.roots[0] == egraph.roots[1] != egraph.roots[2]
    assert egraph.size == 4
    assert egraph.add("map", (0,), EXP, SHAPE) == egraph.roots[0]


def test_a_union_makes_users_equal():
    """Congruence, also of users of users; the older class stays."""
    egraph = of(lambda b, x, y: (b.unary("sin", b.unary("exp", x)), b.unary("sin", b.unary("exp", y))))
    first, second = egraph.roots
    assert egraph.find(first) != egraph.find(second)
    assert egraph.union(0, 1)
    assert not egraph.union(0, 1)
    egraph.rebuild()
    assert egraph.find(first) == egraph.find(second) == first
    assert [node.op for node in egraph.members[0]] == ["input", "input"]
    assert len(egraph.members[first]) == 1


def test_a_class_of_itself():
    """x = exp(x): the union of a node with its operand."""
    egraph = of(lambda b, x, y: (b.unary("sin", b.unary("exp", x)), y))
    made = egraph.add("map", (0,), EXP, SHAPE)
    egraph.union(made, 0)
    egraph.rebuild()
    assert egraph.members[0] == [ENode("input", (), (("number", 0),)), ENode("map", (0,), tuple(SHAPE.items()), EXP)]
    assert egraph.add("map", (0,), EXP, SHAPE) == 0
    assert egraph.add("map", (0,), SIN, SHAPE) == egraph.find(egraph.roots[0])


def test_types_are_known_and_unions_need_equal_ones():
    egraph = of(lambda b, x, y: (b.reduce(x, (0,)), y))
    assert egraph.type_of(egraph.roots[0]) == Tensor(f32, ())
    with pytest.raises(AssertionError, match="is not"):
        egraph.union(*egraph.roots)


def test_labels_are_numbered_as_they_come():
    given = {"labels": ((7, 3), (3, 9)), "result": (9, 7), "exact": False}
    assert canonical_labels(given) == {"labels": ((0, 1), (1, 2)), "result": (2, 0), "exact": False}


def test_contractions_that_differ_in_labels_alone_are_one():
    def make(b: GraphBuilder, x: Value, y: Value) -> tuple[Value, ...]:
        return b.contract(x, y, ((4,), (2,)), (2, 4)), b.contract(x, y, ((0,), (1,)), (1, 0))

    assert len(set(of(make).roots)) == 1


def test_reasons_name_the_graphs_nodes():
    egraph = of(lambda b, x, y: (b.unary("exp", x), y))
    (node,) = egraph.members[egraph.roots[0]]
    assert egraph.reasons[node].node is egraph.graph.nodes[0]
    assert egraph.reasons[node].parents == (0,)


def test_nodes_of_several_results_are_leaves_with_operands():
    key = Value(Tensor(u32, (2,)))
    results = (Value(Tensor(f32, (3,))), Value(Tensor(f32, ())))
    node = Node("call", (key,), results, {"name": "both"}, None, 5)
    egraph = EGraph(Graph("g", (key,), (node,), results))
    for place, root in enumerate(egraph.roots):
        assert egraph.members[root] == [ENode(RESULT, (0,), (("node", 5), ("place", place)))]
    assert egraph.type_of(egraph.roots[1]) == Tensor(f32, ())
