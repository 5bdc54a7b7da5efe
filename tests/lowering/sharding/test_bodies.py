"""Loops and branches on meshes: placements that stay from trip to trip, against the oracle of one device."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lowering.sharding.test_partition import MESH, checked, collectives, dims, shardings
from support.gradients import graph_of
from support.graphs import graphs, small_integers
from tessera.core.base.dtypes import boolean, f64
from tessera.core.errors.catalog import AmbiguousSharding
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, Literal, apply
from tessera.core.graph.graph import Graph, Tensor, Value
from tessera.core.placement.placement import Placement
from tessera.lowering.sharding.partition import partition
from tessera.lowering.sharding.propagate import propagate
from tessera.runtime.interpret.rounding import Numbers

LABELS = ((0, 1), (1, 2)), (0, 2)


def layers(b: GraphBuilder, h: Value, w: Value, v: Value) -> Value:
    return b.unary("tanh", b.contract(b.unary("tanh", b.contract(h, w, *LABELS)), v, *LABELS))


def step_graph() -> Graph:
    return graph_of(
        lambda b, w, v, h, x: (b.binary("add", layers(b, h, w, v), x), b.reduce(h, (1,))),
        (f64, (16, 32)), (f64, (32, 16)), (f64, (8, 16)), (f64, (8, 16)),
    )  # fmt: skip


def recurrence(*, whole_start: bool) -> tuple[Graph, dict[Value, Placement]]:
    """Five steps of a recurrent layer; whole_start: from zeros, which every device has."""

    def make(b: GraphBuilder, w: Value, v: Value, h: Value, xs: Value) -> tuple[Value, ...]:
        begin = b.full(0.0, f64, (8, 16)) if whole_start else h
        return b.add_all(
            "loop", [w, v, begin, xs], (step_graph(),), trips=5, constants=2, carried=1, reverse=False, recompute=False
        )

    graph = graph_of(make, (f64, (16, 32)), (f64, (32, 16)), (f64, (8, 16)), (f64, (5, 8, 16)))
    w, v, h, xs = graph.inputs
    return graph, {w: dims("", "tp"), v: dims("tp", ""), h: dims("dp", ""), xs: dims("", "dp", "")}


def normals(graph: Graph) -> list[Numbers]:
    return [np.random.default_rng(n).normal(size=each.type.shape) / 4 for n, each in enumerate(graph.inputs)]


@pytest.mark.parametrize("whole_start", [False, True])
def test_a_recurrence_needs_one_sum_a_trip(whole_start: bool):
    graph, given_ = recurrence(whole_start=whole_start)
    sharded = propagate(graph, MESH, given_)
    local = checked(sharded, normals(graph), exact=False)
    assert sharded.outputs == (dims("dp", ""), dims("", "dp")), "carries and outputs stay cut"
    (loop,) = (node for node in local.nodes if node.op == "loop")
    assert set(collectives(local)) <= {"slice dp"}, "nothing moves around the loop"
    assert collectives(loop.graphs[0]) == ["all_reduce tp"]
    assert [value.type.shape for value in loop.results] == [(4, 16), (5, 4)]


def test_slices_are_taken_of_the_first_axis():
    graph, given_ = recurrence(whole_start=False)
    xs = graph.inputs[3]
    larger = {**given_, xs: dims("", "", "tp")}
    local = checked(propagate(graph, MESH, larger), normals(graph), exact=False)
    assert local.nodes[-1].op == "loop"


def test_carries_that_no_trip_leaves_as_they_were():
    """Each trip needs all of the carry: it lies as costs least, which is gathering once and not in each trip."""

    def joined(b: GraphBuilder, h: Value) -> Value:
        return b.reduce(b.reshape(b.add("concat", [h, b.scaled(h, 3.0)], axis=0), (2, 8, 8)), (0,))

    def make(b: GraphBuilder, h: Value) -> tuple[Value, ...]:
        body = (graph_of(joined, (f64, (8, 8))),)
        return b.add_all("loop", [h], body, trips=20, constants=0, carried=1, reverse=False, recompute=False)

    graph = graph_of(make, (f64, (8, 8)))
    local = checked(propagate(graph, MESH, {graph.inputs[0]: dims("dp", "")}), normals(graph))
    assert collectives(local) == ["all_gather dp"]
    assert collectives(local.nodes[-1].graphs[0]) == []


def test_while_decides_alike_on_every_device():
    def make(b: GraphBuilder, w: Value, v: Value, h: Value) -> tuple[Value, ...]:
        def large(b: GraphBuilder, w: Value, v: Value, h: Value) -> Value:
            del w, v
            size = Argument(0, f64)
            total = b.reduce(b.binary("mul", h, h), (0, 1))
            return b.elementwise(apply("cmp", size, Literal(0.05, f64), predicate="gt"), [total])

        kinds = [(value.type.dtype, value.type.shape) for value in (w, v, h)]
        half = graph_of(lambda b, w, v, h: b.scaled(layers(b, h, w, v), 0.5), *kinds)
        return b.add_all("while", [w, v, h], (graph_of(large, *kinds), half), constants=2, carried=1)

    graph = graph_of(make, (f64, (16, 32)), (f64, (32, 16)), (f64, (8, 16)))
    w, v, h = graph.inputs
    sharded = propagate(graph, MESH, {w: dims("", "tp"), v: dims("tp", ""), h: dims("dp", "")})
    local = checked(sharded, normals(graph), exact=False)
    condition, body = local.nodes[-1].graphs
    assert collectives(condition) == ["all_reduce dp"]
    assert collectives(body) == ["all_reduce tp"]
    assert sharded.outputs == (dims("dp", ""),)


@pytest.mark.parametrize("flag", [False, True])
def test_both_sides_of_a_branch_give_one_placement(flag: bool):
    def make(b: GraphBuilder, holds: Value, x: Value, w: Value) -> tuple[Value, ...]:
        kinds = [(value.type.dtype, value.type.shape) for value in (x, w)]
        one = graph_of(lambda b, x, w: b.contract(x, w, *LABELS), *kinds)
        other = graph_of(lambda b, x, w: b.broadcast(b.reduce(w, (0,)), (1,), (8, 32)), *kinds)
        return b.add_all("branch", [holds, x, w], (one, other))

    graph = graph_of(make, (boolean, ()), (f64, (8, 16)), (f64, (16, 32)))
    holds, x, w = graph.inputs
    sharded = propagate(graph, MESH, {x: dims("dp", ""), w: dims("", "tp")})
    local = checked(sharded, [np.array(flag), *normals(graph)[1:]], exact=False)
    assert sharded.outputs == (dims("dp", "tp"),)
    assert [collectives(body) for body in local.nodes[-1].graphs] == [[], ["slice dp"]]
    del holds


def test_numbers_of_nodes_are_those_of_one_graph():
    graph, given_ = recurrence(whole_start=True)
    idents = [node.ident for node in partition(propagate(graph, MESH, given_)).walk()]
    assert len(set(idents)) == len(idents)


@settings(max_examples=80, deadline=None)
@given(graphs(), st.integers(1, 3), st.booleans(), st.data())
def test_random_bodies(body: Graph, trips: int, reverse: bool, data: st.DataObject):
    """A random graph a trip: its first input is carried, where an output is of its type, others are slices."""
    first, *others = body.inputs
    carried = next((value for value in body.outputs if value.type == first.type), first)
    trip = Graph(body.name, body.inputs, body.nodes, (carried, *body.outputs), body.source, body.span)

    def make(b: GraphBuilder, *values: Value) -> tuple[Value, ...]:
        return b.add_all("loop", values, (trip,), trips=trips, constants=0, carried=1, reverse=reverse, recompute=False)

    stacks = [Tensor(value.type.dtype, (trips, *value.type.shape)) for value in others]
    graph = graph_of(make, *((kind.dtype, kind.shape) for kind in (first.type, *stacks)))
    given_ = {value: data.draw(shardings(value, MESH)) for value in graph.inputs}
    try:
        checked(propagate(graph, MESH, given_), list(small_integers([value.type for value in graph.inputs])))
    except AmbiguousSharding:
        return
