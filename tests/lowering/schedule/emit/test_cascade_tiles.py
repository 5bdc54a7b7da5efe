"""Tiles of a cascade's loop: one load of a block, and products with the rows first, whatever they are of."""

from collections import Counter

from support.gradients import graph_of
from support.graphs import close, normals
from tessera.core.base.dtypes import f32
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, apply
from tessera.core.graph.graph import Graph, Value
from tessera.core.program.program import Program
from tessera.core.schedule.plan import CASCADE
from tessera.core.targets import generation
from tessera.graphs.steps import steps_of
from tessera.lowering.schedule.emit.to_program import to_program
from tessera.lowering.schedule.plan_graph import plan_graph
from tessera.performance.machine_kind import MachineKind
from tessera.session.session import resolve_target


def keys_of(b: GraphBuilder, q: Value, k: Value, shift: Value) -> Value:
    """sum_i exp(q k^T - shift)[i, j] q[i, :]: the loop goes over the rows of the product inside of it."""
    scores = b.contract(q, k, ((0, 2), (1, 2)), (0, 1))
    body = apply("exp", apply("sub", Argument(0, f32), Argument(1, f32)))
    weights = b.map(body, (scores, shift), ((0, 1), (0,)), scores.type.shape)
    return b.contract(weights, q, ((0, 1), (0, 2)), (1, 2))


def program_of(graph: Graph) -> Program:
    (group,) = plan_graph(graph).groups
    assert group.kind == CASCADE
    steps = steps_of(group, MachineKind(generation("sm_90a"), None, resolve_target("cuda:sm_90a").kind.tile_elements))
    return to_program(group, steps.blocks, steps.options, graph.source, {}).program


def counted(program: Program) -> Counter[str]:
    return Counter(op.opcode for op in program.body.walk())


def test_a_block_that_is_read_along_two_axes_is_loaded_once():
    program = program_of(graph_of(keys_of, (f32, (300, 16)), (f32, (200, 16)), (f32, (300,))))
    assert len(program.parameters) == 4, "q, k, the shift, and the result"
    assert counted(program)["load"] == 3


def test_values():
    graph = graph_of(keys_of, (f32, (300, 16)), (f32, (200, 16)), (f32, (300,)))
    close(graph, [each / 4 for each in normals([value.type for value in graph.inputs])], 1e-4)
