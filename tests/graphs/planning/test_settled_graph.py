"""What is chosen before a mesh cuts a graph is chosen for the whole, and for the bodies of its loops."""

# Operators take arrays of any library and return the same kind, which their types cannot say.
# pyright: reportArgumentType=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false, reportMissingParameterType=false

import numpy as np

import tessera
from support.gradients import causal_attention, graph_of
from support.mesh_arrays import Sharded
from tessera import op
from tessera.core.base.dtypes import f32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Graph, Value
from tessera.core.placement.mesh import Mesh
from tessera.graphs.mesh_executable import MeshExecutable
from tessera.graphs.planning.settled_graph import recomputes_in_bodies, settle
from tessera.lowering.autodiff.reverse import vjp
from tessera.lowering.graph.rewrite import rewrite
from tessera.lowering.graph.simplify import simplify


def two_products(b: GraphBuilder, x: Value, w: Value, v: Value) -> tuple[Value, ...]:
    """Two products of one operand, which `merge-siblings` makes one of."""
    return tuple(b.contract(x, each, ((0, 1), (1, 2)), (0, 2)) for each in (w, v))


def gradients(length: int) -> Graph:
    return simplify(vjp(graph_of(causal_attention, *((f32, (1, length, 64)),) * 3), (0, 1, 2)))


def test_weights_are_kept_or_computed_again_by_the_price_of_the_whole():
    assert settle(gradients(16), ()).recomputes
    assert not settle(gradients(4096), ()).recomputes  # products in f32 take longer than moving the weights


def test_operands_are_not_concatenated():
    graph = graph_of(two_products, (f32, (4096, 4096)), (f32, (4096, 16)), (f32, (4096, 16)))
    assert [node.op for node in rewrite(graph).candidates[0].nodes] == ["concat", "contract", "view", "view"]
    settled = settle(graph, ())
    assert not settled.is_rewritten
    assert [node.op for node in settled.graph.nodes] == ["contract", "contract"]


def layers(h, ws):
    def layer(h, w):
        weights = op.softmax((h @ w) @ op.swapaxes(h, -1, -2))
        return op.tanh(weights @ h), op.sum(h)

    return op.scan(layer, h, ws)


def executable_on(size: int) -> MeshExecutable:
    rng, mesh = np.random.default_rng(0), Mesh.of("dp", range(size))
    h, ws = (rng.standard_normal(shape).astype(np.float32) for shape in ((8, 13, 16), (2, 16, 16)))
    function = tessera.grad(lambda h, ws: op.sum(layers(h, ws)[0]), argnums=(0, 1))
    function(Sharded.of(h, mesh, "dp", "", ""), Sharded.of(ws, mesh, "", "", ""))
    executable = function.executable
    assert isinstance(executable, MeshExecutable)
    return executable


def test_all_sizes_of_a_mesh_settle_the_same():
    one, eight = executable_on(1), executable_on(8)
    assert one.recomputes == eight.recomputes
    assert [name for name, _ in one.states] == [name for name, _ in eight.states]
    for first, second in zip(one.settled.graph.nodes, eight.settled.graph.nodes, strict=True):
        assert recomputes_in_bodies(first) == recomputes_in_bodies(second)
    loops = [node for node in eight.graph.nodes if node.op == "loop"]
    assert loops
    for loop in loops:
        assert all(
            body.recomputes is settled
            for body, settled in zip(eight.bodies[loop], recomputes_in_bodies(loop), strict=True)
        )
        assert None not in recomputes_in_bodies(loop)


def test_prices_decide_without_a_mesh():
    function = tessera.grad(lambda h, ws: op.sum(layers(h, ws)[0]))
    function(np.ones((2, 3, 4), np.float32), np.ones((2, 4, 4), np.float32))
    executable = function.executable
    assert executable.recomputes is None
    assert all(body.recomputes is None for bodies in executable.bodies.values() for body in bodies)
