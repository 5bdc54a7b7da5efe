"""A step of a graph on a mesh that is no kernel: what the devices have is joined."""

from collections.abc import Sequence
from dataclasses import dataclass

from tessera.core.errors.catalog import NeedsMesh
from tessera.core.graph.graph import Node
from tessera.core.placement.devices import SIMULATED
from tessera.core.placement.mesh import Mesh
from tessera.core.schedule.plan import Group
from tessera.graphs.execution.engine_collectives import flat, join_by_engine
from tessera.graphs.execution.frames import Memory, Workspace
from tessera.runtime.interpret.mesh import join_into


@dataclass(frozen=True, slots=True, eq=False)
class CollectiveStep:
    """Runs the collective of a group that is one."""

    group: Group

    @property
    def launches_only(self) -> bool:
        """See `Step`."""
        return False

    @property
    def node(self) -> Node:
        """The only node."""
        return self.group.members[0]

    def run(self, memory: Memory, allocate: Workspace) -> None:
        """Raise NeedsMesh: one device has no other to join with."""
        del memory, allocate
        kind, axes = self.node.attributes["kind"], self.node.attributes["axes"]
        raise NeedsMesh(
            f"{kind} over {axes} joins the devices of a mesh, and this graph runs on one device", self.node.span,
            hint="call it with arrays that lie on a mesh: dist.tensor(..., mesh=mesh)",
        )  # fmt: skip

    def run_together(self, memories: Sequence[Memory], allocate: Sequence[Workspace], mesh: Mesh) -> None:
        """Join what all devices have, and put results where each has memory for them.

        By the engine of the devices; for simulated ones the oracle is as fast.
        """
        (operand,), node = self.node.operands, self.node
        mine = [memory[operand] for memory in memories]
        places = [workspace(node.result) for workspace in allocate]
        if mesh.devices[0].kind == SIMULATED:  # as all of them
            join_into(node, mesh, [each.view for each in mine], [each.view for each in places])
        else:
            join_by_engine(node, mesh, [flat(each) for each in mine], [flat(each) for each in places])
        for memory, place in zip(memories, places, strict=True):
            memory[node.result] = place
