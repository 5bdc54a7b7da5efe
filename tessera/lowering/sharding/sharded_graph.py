"""Graphs with a placement for each value: what `propagate` makes, and `partition` and `explain` read."""

from collections.abc import Mapping
from dataclasses import dataclass

from tessera.core.graph.graph import Graph, Node, Value
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.placement import Placement
from tessera.lowering.sharding.assign import Assignment
from tessera.lowering.sharding.costs import picoseconds, reference_extent
from tessera.lowering.sharding.steps import moved_between


@dataclass(frozen=True, slots=True)
class Choice:
    """How one node is cut.

    rejected: the other assignments with their costs, the cheapest first; cost, in picoseconds
    bodies: of a loop or a branch, the graphs that it holds
    """

    node: Node
    assignment: Assignment
    cost: int
    rejected: tuple[tuple[int, Assignment], ...] = ()
    bodies: tuple["ShardedGraph", ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class ShardedGraph:
    """A graph with a sharding for each value.

    inputs: of the inputs; outputs: of the outputs, which may differ from what makes them
    """

    graph: Graph
    mesh: Mesh
    placements: Mapping[Value, Placement]
    choices: Mapping[Node, Choice]
    outputs: tuple[Placement, ...]

    @property
    def cost(self) -> int:
        """The picoseconds of all nodes, and of what moves to bring the outputs where they are wanted."""
        ends = zip(self.graph.outputs, self.outputs, strict=True)
        sent = sum(moved_between(self.placements[value], end, value.type, reference_extent) for value, end in ends)
        return sum(choice.cost for choice in self.choices.values()) + picoseconds(sent=sent)
