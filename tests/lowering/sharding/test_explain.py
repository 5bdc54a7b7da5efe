"""What is said of placements: the reason, the collectives with bytes and times, and what was rejected."""

from support.gradients import graph_of
from tessera.core.base.dtypes import f32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Value
from tessera.core.placement.mesh import Mesh
from tessera.lowering.sharding.explain import explain
from tessera.lowering.sharding.placements import placed
from tessera.lowering.sharding.propagate import propagate

MESH = Mesh.of(("dp", "tp"), range(4), (2, 2))


def mlp(b: GraphBuilder, x: Value, w: Value, v: Value) -> Value:
    h = b.unary("tanh", b.contract(x, w, ((0, 1), (1, 2)), (0, 2)))
    return b.unary("neg", b.contract(h, v, ((0, 1), (1, 2)), (0, 2)))


def test_tensor_parallel_layers():
    graph = graph_of(mlp, (f32, (8, 16)), (f32, (16, 32)), (f32, (32, 16)))
    x, w, v = graph.inputs
    sharded = propagate(graph, MESH, {x: placed([("dp",), ()]), w: placed([(), ("tp",)]), v: placed([("tp",), ()])})
    assert explain(sharded).splitlines()[:10] == [
        "g on mesh(dp=2, tp=2), 4 devices: sim:0 to sim:3",
        "x0: f32[8@dp, 16], as it is given",
        "x1: f32[16, 32@tp], as it is given",
        "x2: f32[32@tp, 16], as it is given",
        "%g0 = contract(x0: f32[8@dp, 16], x1: f32[16, 32@tp]) -> f32[8@dp, 32@tp]",
        "  dp: axis 0 of x0, axis 0 of the result",
        "  tp: axis 1 of x1, axis 1 of the result",
        "%g1 = map(%g0: f32[8@dp, 32@tp]) -> f32[8@dp, 32@tp]",
        "  dp: axis 0 of %g0, axis 0 of the result",
        "  tp: axis 1 of %g0, axis 1 of the result",
    ]
    assert "  tp: axis 1 of %g1 and axis 0 of x2, which is reduced: each device has a part" in explain(sharded)
    assert "  instead (f32[8@dp, 32], f32[32, 16]) -> f32[8@dp, 16]: 0.006 us more on the reference mesh" in explain(
        sharded
    )
    assert "  all_reduce over tp of %g2: 256 bytes a device, 7.8 us (unmeasured)" in explain(sharded)


def test_one_value():
    graph = graph_of(mlp, (f32, (8, 16)), (f32, (16, 32)), (f32, (32, 16)))
    x, w, v = graph.inputs
    sharded = propagate(graph, MESH, {w: placed([(), ("tp",)])}, [placed([(), ("tp",)])])
    assert explain(sharded, x).splitlines()[1:] == ["x0: f32[8, 16], as it is given"]
    assert explain(sharded, v).splitlines()[1:] == ["x2: f32[32, 16], as it is given"]
    last = explain(sharded, graph.outputs[0]).splitlines()
    assert last[-2:] == ["output 0: f32[8, 16@tp]", "  slice axis 1 over tp of %g3: nothing moves"]


def test_shards_that_differ_in_length():
    graph = graph_of(lambda b, x, y: (b.reduce(x, (0,)), b.binary("add", x, y)), (f32, (7, 4)), (f32, (7, 4)))
    x, y = graph.inputs
    mesh = Mesh.of(("dp", "tp"), range(6), (3, 2))
    lines = explain(propagate(graph, mesh, {x: placed([("dp", "tp"), ()]), y: placed([("dp",), ()])})).splitlines()
    assert "    7 over 6: 3 of 2, then 1, 2 without any, masked behind its end" in lines
    assert any(line.endswith("shards of 7 rows do not nest, so all go everywhere: pad them to 12") for line in lines)


def test_what_a_sum_over_two_axes_sends_to_add_alike():
    graph = graph_of(lambda b, x: b.reduce(x, (0, 1)), (f32, (8, 16)))
    sharded = propagate(graph, MESH, {graph.inputs[0]: placed([("dp",), ("tp",)])})
    expected = (
        "  all_reduce over tp of its 4 sums, so that all meshes add alike: 16 bytes a device, 7.8 us (unmeasured)"
    )
    assert expected in explain(sharded).splitlines()
