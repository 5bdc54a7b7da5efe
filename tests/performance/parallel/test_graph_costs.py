"""Costs of graphs on meshes: operations and bytes by hand, and stages that take about equally long."""

import pytest

from support.gradients import graph_of
from tessera.core.base.dtypes import f32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Value
from tessera.core.placement.mesh import Mesh
from tessera.lowering.sharding.placements import placed
from tessera.performance.parallel.graph_costs import SpreadGraph, balanced, operations, spread

MESH = Mesh.of(("pp", "dp", "tp"), range(8), (1, 2, 4))


def mlp(b: GraphBuilder, x: Value, w: Value, v: Value) -> Value:
    h = b.unary("tanh", b.contract(x, w, ((0, 1), (1, 2)), (0, 2)))
    return b.contract(h, v, ((0, 1), (1, 2)), (0, 2))


def megatron() -> SpreadGraph:
    graph = graph_of(mlp, (f32, (8, 16)), (f32, (16, 32)), (f32, (32, 16)))
    x, w, v = graph.inputs
    return spread(graph, MESH, {x: placed([("dp",), ()]), w: placed([(), ("tp",)]), v: placed([("tp",), ()])})


def test_operations_and_seconds():
    found = megatron()
    assert [operations(node) for node in found.graph.nodes] == [2 * 8 * 16 * 32, 8 * 32, 2 * 8 * 32 * 16]
    first, between, second = found.node_seconds
    assert between == 0  # a map is part of a kernel
    assert first == pytest.approx((8 * 16 + 16 * 32 + 8 * 32) * 4 / 8 / 4.8e12)
    assert second == pytest.approx((8 * 32 + 32 * 16 + 8 * 16) * 4 / 8 / 4.8e12)


def test_collectives_and_memory():
    found = megatron()
    (joined,) = found.collectives
    assert (joined.kind, joined.axes, joined.count) == ("all_reduce", ("tp",), 1)
    assert joined.sent == 2 * 3 / 4 * 4 * 16 * 4
    assert found.memory == {"inputs": (4 * 16 + 16 * 8 + 8 * 16) * 4, "values": (4 * 8 + 4 * 16) * 4}
    assert found.layouts == {"x0": "f32[8@dp, 16]", "x1": "f32[16, 32@tp]", "x2": "f32[32@tp, 16]"}


def test_stages_of_a_pipeline():
    whole = megatron()
    cut = SpreadGraph(whole.sharded, (0, 2), 2)
    (first, no), (second, joining) = cut.stage_seconds()
    assert 2 * (first + second) == pytest.approx(sum(whole.node_seconds))
    assert no == 0
    assert joining > 0
    assert cut.sent_between == 4 * 8 * 4 // 2
    assert cut.memory["inputs"] < whole.memory["inputs"]


def test_stages_are_balanced():
    assert balanced([1.0, 1.0, 1.0, 1.0], 2) == (0, 2)
    assert balanced([3.0, 0.0, 1.0, 1.0, 1.0], 2) == (0, 2)
    assert balanced([1.0] * 12, 3) == (0, 4, 8)
    assert balanced([1.0, 0.0, 1.0], 3) is None
    assert balanced([1.0, 2.0], 1) == (0,)
