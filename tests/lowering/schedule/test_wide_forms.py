"""Sums of exponentials are found, with their weights, and what is a multiple of these."""

import pytest

from support.gradients import graph_of, reals, softmax
from tessera.core.base.dtypes import f64
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, Literal, apply
from tessera.core.graph.graph import Graph, Value
from tessera.lowering.graph.simplify import simplify
from tessera.lowering.schedule.cascades.terms import Term
from tessera.lowering.schedule.wide_forms import Normaliser, find_normalisers
from tessera.lowering.sharding.leaves import fold_leaves

X, Y = Argument(0, f64), Argument(1, f64)


def only(graph: Graph) -> Normaliser:
    (found,) = find_normalisers(graph)
    return found


def test_weights_of_a_softmax():
    graph = simplify(graph_of(softmax, reals(4, 5)))
    found = only(graph)
    assert found.forms.rows == (0,)
    assert found.relative(found.forms.normal(graph.outputs[0])) == (Term(1.0),)


def test_a_divisor_that_is_replaced_where_it_is_zero():
    def make(b: GraphBuilder, x: Value) -> Value:
        weights = b.unary("exp", x)
        total = b.reduce(weights, (1,))
        empty = apply("cmp", X, Literal(0.0, f64), predicate="eq")
        guarded = b.elementwise(apply("select", empty, Literal(1.0, f64), X), [total])
        return b.map(apply("div", X, Y), (weights, guarded), ((0, 1), (0,)), (4, 5))

    graph = simplify(graph_of(make, reals(4, 5)))
    found = only(graph)
    assert found.relative(found.forms.normal(graph.outputs[0])) == (Term(1.0),)
    assert len(found.divisors) == 2


def test_a_multiple_keeps_what_it_is_multiplied_with():
    def make(b: GraphBuilder, x: Value, y: Value) -> Value:
        return b.elementwise(apply("mul", apply("mul", X, Y), Literal(3.0, f64)), [softmax(b, x), y])

    graph = simplify(graph_of(make, reals(4, 5), reals(4, 5)))
    found = only(graph)
    terms = found.relative(found.forms.normal(graph.outputs[0]))
    assert terms is not None
    assert [(term.coefficient, len(term.atoms), term.parameters) for term in terms] == [(3.0, 1, ())]


@pytest.mark.parametrize("rows", [(), (1,)])
def test_a_total_that_a_mesh_has_parts_of_is_what_they_add_up_to(rows: tuple[int, ...]):
    def make(b: GraphBuilder, x: Value) -> Value:
        weights = b.unary("exp", x)
        part = b.reshape(b.reduce(weights, (1,)), (*rows, 4))
        total = b.add("collective", [part], None, "", kind="all_reduce", axes=("tp",), parts=2, reduction="sum")
        empty = apply("cmp", X, Literal(0.0, f64), predicate="eq")
        guarded = b.elementwise(apply("select", empty, Literal(1.0, f64), X), [b.reshape(total, (4,))])
        return b.map(apply("div", X, Y), (weights, guarded), ((0, 1), (0,)), (4, 5))

    graph = simplify(graph_of(make, reals(4, 5)))
    found = only(graph)
    assert found.relative(found.forms.normal(graph.outputs[0])) == (Term(1.0),)
    divisors = {found.forms.atoms[each.number][0] for each in found.divisors if isinstance(each, Argument)}
    assert len(divisors) == 2
    assert found.total.result not in divisors


@pytest.mark.parametrize("kind", ["all_reduce", "reduce_scatter"])
def test_a_total_that_no_device_has_as_a_whole_divides_nothing(kind: str):
    """Of an all_reduce it is the sum of four leaves."""

    def make(b: GraphBuilder, x: Value) -> Value:
        part = b.reduce(b.unary("exp", x), (1,))
        where = {"cut": 0} if kind == "reduce_scatter" else {}
        given = part if where else fold_leaves(b, part, 4)
        return b.add("collective", [given], None, "", kind=kind, axes=("tp",), parts=2, reduction="sum", **where)

    assert list(find_normalisers(simplify(graph_of(make, reals(4, 5))))) == []


@pytest.mark.parametrize("other", ["add", "sub"])
def test_sums_with_other_things_are_no_multiple(other: str):
    def make(b: GraphBuilder, x: Value, y: Value) -> Value:
        return b.binary(other, softmax(b, x), y)

    graph = simplify(graph_of(make, reals(4, 5), reals(4, 5)))
    found = only(graph)
    assert found.relative(found.forms.normal(graph.outputs[0])) is None


def test_other_sums_are_no_normalisers():
    def make(b: GraphBuilder, x: Value) -> Value:
        return b.reduce(b.binary("mul", x, b.unary("exp", x)), (1,))

    assert not list(find_normalisers(graph_of(make, reals(4, 5))))
