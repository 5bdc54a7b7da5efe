"""Captures that take numbers, compared with captures for these numbers."""

from collections.abc import Callable

import pytest

from tessera.core.base.dtypes import bf16, f32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, Expr, Literal, apply
from tessera.core.graph.graph import Graph, Tensor, Value
from tessera.graphs.operands.same_program import same_program

X, N = Argument(0, f32), Argument(1, f32)


def general(body: Expr, axes: tuple[tuple[int, ...], ...] = ((0, 1), ())) -> tuple[Graph, Value]:
    """A map of an array and a number, whose place is returned."""
    b, x, n = GraphBuilder(), Value(Tensor(f32, (3, 3)), "x"), Value(Tensor(f32, ()), "n")
    return b.finish("g", (x, n), (b.map(body, [x, n], axes, (3, 3)),)), n


def exact(body: Expr, axes: tuple[int, ...] = (0, 1)) -> Graph:
    b, x = GraphBuilder(), Value(Tensor(f32, (3, 3)), "x")
    return b.finish("g", (x,), (b.map(body, [x], (axes,), (3, 3)),))


def number(value: float) -> Literal:
    return Literal(value, f32)


def test_a_number_stands_for_a_literal():
    graph, place = general(apply("mul", X, N))
    assert same_program(graph, {place: 2.1}, exact(apply("mul", X, number(2.1))))
    assert same_program(graph, {place: 2.1}, exact(apply("mul", number(2.1), X)))
    assert same_program(graph, {place: 2.1}, exact(apply("mul", X, number(2.0999999046325684))))  # the same f32
    assert not same_program(graph, {place: 2.1}, exact(apply("mul", X, number(2.2))))
    assert not same_program(graph, {place: 2.1}, exact(apply("add", X, number(2.1))))
    assert not same_program(graph, {place: 2.1}, exact(apply("mul", X, X)))
    assert not same_program(graph, {place: 2.1}, exact(apply("mul", X, number(2.1)), (1, 0)))
    assert not same_program(graph, {place: 0.0}, exact(apply("mul", X, number(-0.0))))


def test_order_counts_where_it_matters():
    graph, place = general(apply("sub", X, N))
    assert same_program(graph, {place: 2.0}, exact(apply("sub", X, number(2.0))))
    assert not same_program(graph, {place: 2.0}, exact(apply("sub", number(2.0), X)))


def test_nan_is_one_number():
    graph, place = general(apply("add", X, N))
    assert same_program(graph, {place: float("nan")}, exact(apply("add", X, number(float("nan")))))


def _views(build: Callable[[GraphBuilder, Value, Value | None], Value], *, takes: bool) -> tuple[Graph, Value]:
    b, x, n = GraphBuilder(), Value(Tensor(f32, (3, 3)), "x"), Value(Tensor(f32, ()), "n")
    made = build(b, x, n if takes else None)
    return b.finish("g", (x, n) if takes else (x,), (made,)), n


@pytest.mark.parametrize("value", [2.5, 3.5])
def test_numbers_through_views_and_maps_of_numbers_alone(value: float):
    """What the adjoint of a sum makes: the number everywhere, then a product."""

    def build(b: GraphBuilder, x: Value, n: Value | None) -> Value:
        root = b.full(2.5, f32, ()) if n is None else n
        wide = b.broadcast(b.unary("sin", root), (), (3, 3))
        return b.binary("mul", x, wide)

    graph, place = _views(build, takes=True)
    want, _ = _views(build, takes=False)
    assert same_program(graph, {place: value}, want) == (value == 2.5)


def test_numbers_in_other_nodes_and_outputs():
    b, n = GraphBuilder(), Value(Tensor(f32, ()), "n")
    graph = b.finish("g", (n,), (n,))
    c = GraphBuilder()
    assert same_program(graph, {n: 1.5}, c.finish("g", (), (c.full(1.5, f32, ()),)))
    d = GraphBuilder()
    assert not same_program(graph, {n: 1.5}, d.finish("g", (), (d.full(1.5, bf16, ()),)))
    e = GraphBuilder()
    assert not same_program(graph, {n: 1.5}, e.finish("g", (), (e.full(2.5, f32, ()),)))
