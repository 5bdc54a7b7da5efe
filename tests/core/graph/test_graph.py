"""Graphs as data: types, producers, users, numbers, and the walk through bodies."""

from dataclasses import FrozenInstanceError

import pytest

from support.gradients import graph_of
from tessera.core.base.dtypes import bf16, boolean, f32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Graph, Node, Tensor, Value


def test_types():
    tensor = Tensor(bf16, (3, 4, 5))
    assert (tensor.size, tensor.bytes, str(tensor)) == (60, 120, "bf16[3, 4, 5]")
    assert (Tensor(boolean, ()).size, str(Tensor(boolean, ()))) == (1, "bool[]")
    assert Tensor(f32, (2, 0)).bytes == 0
    assert Tensor(f32, (2,)) == Tensor(f32, (2,)) != Tensor(bf16, (2,))


def test_values_are_themselves_alone():
    assert Value(Tensor(f32, ())) != Value(Tensor(f32, ()))


def diamond() -> Graph:
    def make(b: GraphBuilder, x: Value) -> tuple[Value, Value]:
        e = b.unary("exp", x)
        return b.binary("mul", e, e), b.binary("add", e, x)

    return graph_of(make, (f32, (3,)))


def test_producers_and_users():
    graph = diamond()
    exp, mul, add = graph.nodes
    (x,) = graph.inputs
    assert graph.producers == {exp.result: exp, mul.result: mul, add.result: add}
    assert graph.users == {x: (exp, add), exp.result: (mul, add)}  # each user once, though mul reads it twice


def test_numbers_go_up_through_bodies():
    inner = diamond()
    loop = Node("loop", (), (Value(Tensor(f32, (3,))),), {"trips": 2, "carried": 0}, (inner,), 1)
    graph = Graph("outer", (), (loop,), (loop.result,))
    assert [node.ident for node in graph.walk()] == [1, 0, 1, 2]
    assert graph.next_ident == 3
    assert Graph("empty", (), (), ()).next_ident == 0


def test_nodes_know_their_bodies():
    exp = diamond().nodes[0]
    assert exp.expr.dtype == f32
    with pytest.raises(AssertionError):
        _ = exp.index_map
    with pytest.raises(FrozenInstanceError):
        exp.ident = 7  # pyright: ignore[reportAttributeAccessIssue]
