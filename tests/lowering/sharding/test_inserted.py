"""Collectives of a graph on a mesh, against those of the partitioned graph."""

from support.gradients import graph_of
from tessera.core.base.dtypes import f32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Value
from tessera.core.placement.mesh import Mesh
from tessera.lowering.autodiff.reverse import vjp
from tessera.lowering.sharding.inserted import inserted_collectives
from tessera.lowering.sharding.partition import partition
from tessera.lowering.sharding.placements import placed
from tessera.lowering.sharding.propagate import propagate

MESH = Mesh.of(("dp", "tp"), range(4), (2, 2))


def mlp(b: GraphBuilder, x: Value, w: Value, v: Value) -> Value:
    h = b.unary("tanh", b.contract(x, w, ((0, 1), (1, 2)), (0, 2)))
    return b.contract(h, v, ((0, 1), (1, 2)), (0, 2))


def test_they_are_those_of_the_graph_of_one_device():
    graph = vjp(graph_of(mlp, (f32, (8, 16)), (f32, (16, 32)), (f32, (32, 16))), (0, 1, 2))
    x, w, v, g = graph.inputs
    given = {x: placed([("dp",), ()]), w: placed([(), ("tp",)]), v: placed([("tp",), ()]), g: placed([("dp",), ()])}
    sharded = propagate(graph, MESH, given)
    found = inserted_collectives(sharded)
    wanted = [
        (node.attributes["kind"], node.attributes["axes"]) for node in partition(sharded).nodes
        if node.op == "collective" and node.attributes["kind"] != "slice"
    ]  # fmt: skip
    assert sorted((each.step.kind, each.step.axes) for each in found) == sorted(wanted)
    assert len(wanted) > 2


def test_types_before_and_after():
    graph = graph_of(mlp, (f32, (8, 16)), (f32, (16, 32)), (f32, (32, 16)))
    x, w, v = graph.inputs
    sharded = propagate(graph, MESH, {w: placed([(), ("tp",)]), v: placed([("tp",), ()])})
    (found,) = inserted_collectives(sharded)
    assert (str(found.before), str(found.after)) == ("f32[8, 16]{sum: tp}", "f32[8, 16]")
    assert found.user is None
    assert x not in sharded.graph.outputs
