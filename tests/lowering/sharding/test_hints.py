"""What users of a sum by index say of how it lies."""

from support.gradients import graph_of
from tessera.core.base.dtypes import f32, i64
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Value
from tessera.core.placement.mesh import Mesh
from tessera.lowering.sharding.hints import hints_of
from tessera.lowering.sharding.placements import placed
from tessera.lowering.sharding.propagate import propagate

CUT = placed([("tp",), ()])


def update(b: GraphBuilder, w: Value, i: Value, g: Value) -> Value:
    return b.binary("sub", w, b.scaled(b.scatter_add(i, g, w.type.shape[0]), 0.5))


def test_an_update_of_rows_that_are_cut_wants_its_gradient_cut():
    graph = graph_of(update, (f32, (64, 4)), (i64, (3,)), (f32, (3, 4)))
    (scattered,) = (node.result for node in graph.nodes if node.op == "scatter_add")
    given = {graph.inputs[0]: CUT}
    assert hints_of(graph, given, [])[scattered] == CUT
    assert propagate(graph, Mesh.of("tp", range(4)), given).placements[scattered] == CUT


def test_outputs_say_how_they_are_wanted():
    graph = graph_of(
        lambda b, i, g: b.unary("neg", b.scatter_add(i, g, 64)), (i64, (3,)), (f32, (3, 4))
    )  # fmt: skip
    assert hints_of(graph, {}, [CUT])[graph.nodes[0].result] == CUT
    assert hints_of(graph, {}, [None]) == {}
