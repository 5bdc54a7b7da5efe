"""Sharded graphs: what they cost."""

from dataclasses import replace

from lowering.sharding.test_partition import MESH, dims
from support.gradients import graph_of
from tessera.core.base.dtypes import f32
from tessera.lowering.sharding.costs import picoseconds
from tessera.lowering.sharding.propagate import propagate


def test_what_moves_to_the_outputs_is_part_of_the_cost():
    graph = graph_of(lambda b, x: b.unary("tanh", x), (f32, (64, 64)))
    sharded = propagate(graph, MESH, {graph.inputs[0]: dims("dp", "")})
    assert sharded.cost == sum(choice.cost for choice in sharded.choices.values())
    gathered = replace(sharded, outputs=(dims("", ""),))
    assert gathered.cost - sharded.cost == picoseconds(sent=64 * 64 * 4 * 7 // 8)
