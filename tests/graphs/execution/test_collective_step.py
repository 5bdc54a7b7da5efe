"""Collectives between kernels: alone they are refused, together they fill the places that are given."""

import numpy as np
import pytest

from tessera.core.base.dtypes import f32
from tessera.core.errors.catalog import NeedsMesh
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Tensor, Value
from tessera.core.placement.mesh import Mesh
from tessera.core.schedule.plan import CALL, Group, Plan
from tessera.graphs.execution.collective_step import CollectiveStep
from tessera.graphs.execution.frames import Frame, Memory, Workspace
from tessera.graphs.execution.supply import LibrarySupply
from tessera.runtime.memory.operands import operand

X = Value(Tensor(f32, (2, 3)), "x")
BUILDER = GraphBuilder()
SUM = BUILDER.add("collective", [X], None, kind="all_reduce", axes=("tp",), parts=2, reduction="sum")
STEP = CollectiveStep(Group(0, CALL, tuple(BUILDER.nodes), (X,), (SUM,), (), {}, {}, {}))


def room() -> Workspace:
    plan = Plan(GraphBuilder().finish("nothing", [], []), (), {})
    return Workspace(Frame(plan, LibrarySupply.of(operand(np.empty(0, np.float32), "x"))))


def test_one_device_alone_has_none_to_join_with():
    memory: Memory = {X: operand(np.ones((2, 3), np.float32), "x")}
    with pytest.raises(NeedsMesh, match=r"all_reduce over \('tp',\) joins the devices of a mesh") as mistake:
        STEP.run(memory, room())
    assert "dist.tensor" in mistake.value.hint
    assert SUM not in memory


def test_all_devices_together():
    memories: list[Memory] = [{X: operand(np.full((2, 3), each, np.float32), "x")} for each in (1, 2)]
    STEP.run_together(memories, [room(), room()], Mesh.of("tp", range(2)))
    for memory in memories:
        np.testing.assert_array_equal(memory[SUM].view, np.full((2, 3), 3, np.float32))
    assert not np.shares_memory(memories[0][SUM].view, memories[1][SUM].view)
