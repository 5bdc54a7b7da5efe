"""A step of a graph on a mesh that is no kernel: what the devices have is joined."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from tessera.core.errors.catalog import NeedsMesh
from tessera.core.graph.graph import Node
from tessera.core.placement.devices import SIMULATED
from tessera.core.placement.mesh import Mesh
from tessera.core.schedule.plan import Group
from tessera.graphs.execution.engine_collectives import copy_here, flat, run_collective
from tessera.graphs.execution.frames import Memory, Workspace
from tessera.runtime.dist.engines import engine_of
from tessera.runtime.interpret.mesh import evaluate_collective


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
            made = evaluate_collective(node, mesh, [each.view for each in mine])
            for place, value in zip(places, made, strict=True):
                place.view[...] = value
        else:
            groups = mesh.along(cast("tuple[str, ...]", node.attributes["axes"]))
            outs = [flat(each) for each in places]
            made = run_collective(node, engine_of(mesh.devices), groups, [flat(each) for each in mine], outs)
            for out, value in zip(outs, made, strict=True):
                copy_here(out, value)
        for memory, place in zip(memories, places, strict=True):
            memory[node.result] = place
