"""The builder: types, numbers and places of nodes, and NumPy's rules of broadcasting."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.gradients import graph_of
from support.graphs import assert_same_bits, normals
from tessera.core.base.dtypes import DType, bf16, f16, f32, f64, i32
from tessera.core.base.source import NOWHERE, Span
from tessera.core.graph.build import GraphBuilder, accumulator, broadcast_shape, types_of
from tessera.core.graph.graph import Node, Origin, Tensor, Value
from tessera.core.graph.infer import IllTyped
from tessera.runtime.interpret.graph import evaluate

X = Value(Tensor(f32, (3, 4)), "x")
shapes = st.lists(st.sampled_from((1, 1, 2, 3, 0)), max_size=4).map(tuple)


@given(st.lists(shapes, max_size=3))
def test_broadcast_shapes_are_numpys(given_shapes: list[tuple[int, ...]]):
    try:
        wanted = np.broadcast_shapes(*given_shapes)
    except ValueError:
        with pytest.raises(ValueError, match="do not broadcast"):
            broadcast_shape(given_shapes)
    else:
        assert broadcast_shape(given_shapes) == wanted


@given(shapes, shapes)
def test_elementwise_operations_broadcast(one: tuple[int, ...], other: tuple[int, ...]):
    try:
        np.broadcast_shapes(one, other)
    except ValueError:
        return
    built = graph_of(lambda b, x, y: b.binary("sub", x, y), (f32, one), (f32, other))
    x, y = normals([value.type for value in built.inputs])
    assert_same_bits(evaluate(built, [x, y])[0], x - y)


@pytest.mark.parametrize(("dtype", "into"), [(f16, f32), (bf16, f32), (f32, f32), (f64, f64), (i32, i32)])
def test_accumulators(dtype: DType, into: DType):
    assert accumulator(dtype) == into


def test_numbers_go_up():
    b = GraphBuilder(7)
    b.unary("exp", b.unary("sin", X))
    assert [node.ident for node in b.nodes] == [7, 8]
    b.append(Node("iota", (), (Value(Tensor(f32, ())),), {"extent": 1}, None, 3))
    b.append(Node("iota", (), (Value(Tensor(f32, ())),), {"extent": 1}, None, 20))
    b.unary("cos", X)
    assert [node.ident for node in b.nodes] == [7, 8, 9, 20, 21]


def test_origins_and_places_end_with_their_block():
    b = GraphBuilder()
    outer, inner = Origin(composite=("layer",)), Span("cell", 3, 1, 3, 5)
    with b.within(outer):
        b.unary("exp", X)
        with b.within(span=inner):
            b.unary("sin", X)
        with pytest.raises(IllTyped), b.within(Origin("rule")):
            b.gather(X, X)
    b.unary("cos", X)
    assert [(node.origin, node.span) for node in b.nodes] == [(outer, NOWHERE), (outer, inner), (Origin(), NOWHERE)]
    assert b.nodes[1].result.span == inner


def test_what_changes_nothing_makes_no_node():
    b = GraphBuilder()
    assert b.cast(X, f32) is X
    assert b.transpose(X, (0, 1)) is X
    assert b.reshape(X, (3, 4)) is X
    assert b.reduce(X, ()) is X
    assert b.concat((X,), 0) is X
    assert b.sum_of((X,)) is X
    assert not b.nodes
    assert b.copy(X) is not X


def test_reshapes_that_do_not_nest_go_over_the_flat_form():
    b = GraphBuilder()
    b.reshape(X, (4, 3))
    assert [node.result.type.shape for node in b.nodes] == [(12,), (4, 3)]


def test_axes_of_reductions_are_sorted():
    b = GraphBuilder()
    b.reduce(X, {1, 0}, "max")
    assert b.nodes[0].attributes == {"axes": (0, 1), "kind": "max"}


def test_sums_are_added_in_order():
    built = graph_of(lambda b, x, y, z: b.sum_of((x, y, z)), *[(f32, (5,))] * 3)
    x, y, z = normals([value.type for value in built.inputs])
    assert_same_bits(evaluate(built, [x, y, z])[0], (x + y) + z)


def test_types_of_values():
    assert types_of((X, X)) == (Tensor(f32, (3, 4)),) * 2
