"""Choices for whole graphs: by costs that do not depend on how many devices there are, and refusals."""

import pytest

from support.gradients import graph_of
from tessera.core.base.dtypes import f32
from tessera.core.errors.catalog import AmbiguousSharding
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Graph, Value
from tessera.core.placement.mesh import Mesh
from tessera.lowering.sharding.placements import placed
from tessera.lowering.sharding.propagate import propagate


def layers(b: GraphBuilder, x: Value, *weights: Value) -> Value:
    for weight in weights:
        x = b.unary("tanh", b.contract(x, weight, ((0, 1), (1, 2)), (0, 2)))
    return x


def stack(count: int) -> Graph:
    weights = [(f32, (32, 128) if number % 2 == 0 else (128, 32)) for number in range(count)]
    return graph_of(layers, (f32, (64, 32)), *weights)


@pytest.mark.parametrize("devices", [1, 2, 4, 16, 32])
def test_choices_are_those_of_every_mesh(devices: int):
    graph = stack(4)
    x, *weights = graph.inputs
    given = {
        x: placed([(), ()]),
        **{w: placed([(), ("tp",)] if n % 2 == 0 else [("tp",), ()]) for n, w in enumerate(weights)},
    }
    found = propagate(graph, Mesh.of("tp", range(devices)), given)
    assert [each.assignment.results for each in found.choices.values()] == [
        (placed([(), ("tp",)]),), (placed([(), ("tp",)]),), (placed([(), ()], ("tp",)),), (placed([(), ()]),)
    ] * 2  # fmt: skip


def test_what_the_user_places_is_kept():
    graph = stack(1)
    x, w = graph.inputs
    middle = graph.nodes[0].result
    mesh = Mesh.of("tp", range(4))
    found = propagate(graph, mesh, {x: placed([("tp",), ()]), middle: placed([(), ("tp",)])}, [placed([(), ()])])
    assert found.placements[w] == placed([(), ()])
    assert found.placements[middle] == placed([(), ("tp",)])
    assert found.outputs == (placed([(), ()]),)


def outer(b: GraphBuilder, x: Value, y: Value) -> Value:
    return b.contract(x, y, ((0,), (1,)), (0, 1))


def test_ties_of_what_the_user_placed_are_refused_and_others_broken():
    graph = graph_of(outer, (f32, (8,)), (f32, (8,)))
    x, y = graph.inputs
    mesh, cut = Mesh.of("tp", range(4)), placed([("tp",)])
    with pytest.raises(AmbiguousSharding, match="cost the same") as mistake:
        propagate(graph, mesh, {x: cut, y: cut})
    assert "(f32[8@tp], f32[8]) -> f32[8@tp, 8]" in mistake.value.message
    assert "(f32[8], f32[8@tp]) -> f32[8, 8@tp]" in mistake.value.message

    def derived(b: GraphBuilder, x: Value, y: Value) -> Value:
        return outer(b, b.unary("exp", x), b.unary("exp", y))

    graph = graph_of(derived, (f32, (8,)), (f32, (8,)))
    found = propagate(graph, mesh, dict.fromkeys(graph.inputs, cut))
    assert found.outputs == (placed([("tp",), ()]),)


def test_a_value_beside_its_transpose_is_no_conflict():
    graph = graph_of(lambda b, x: b.binary("add", x, b.transpose(x, (1, 0))), (f32, (8, 8)))
    rows = placed([("tp",), ()])
    assert propagate(graph, Mesh.of("tp", range(4)), {graph.inputs[0]: rows}).outputs == (rows,)
