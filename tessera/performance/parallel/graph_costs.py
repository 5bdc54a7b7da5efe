"""Price a graph on a mesh: kernels, collectives and memory for the placements of its inputs, in whole or in stages."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Final

from tessera.core.graph.graph import Graph, Node, Value
from tessera.core.graph.infer import labels_of
from tessera.core.placement.link_costs import LINKS, topology_on
from tessera.core.placement.mesh import Mesh
from tessera.core.placement.placement import Placement
from tessera.core.placement.sharded_type import ShardedType
from tessera.core.planning.parallel_plan import PlannedCollective
from tessera.lowering.sharding.inserted import InsertedCollective, inserted_collectives
from tessera.lowering.sharding.propagate import propagate
from tessera.lowering.sharding.sharded_graph import ShardedGraph

_FUSED: Final = frozenset({"map", "view", "constant", "iota"})
"""Operators that other kernels take in: what they make is not counted as memory's traffic."""


@dataclass(frozen=True)
class SpreadGraph:
    """A graph on a mesh with the axes pp, dp and tp.

    stages: numbers of the nodes at which stages of a pipeline begin, the first of them 0
    micro_batches: parts of the batch that go through the stages one behind the other
    """

    sharded: ShardedGraph
    stages: tuple[int, ...] = (0,)
    micro_batches: int = 1

    @property
    def mesh(self) -> Mesh:
        """The mesh."""
        return self.sharded.mesh

    @property
    def graph(self) -> Graph:
        """The graph as a whole."""
        return self.sharded.graph

    def local_bytes(self, value: Value) -> int:
        """Return the bytes of a device's part of a value."""
        extent = self.mesh.size(self.sharded.placements[value].axes)
        return -(-value.type.bytes // extent)

    @cached_property
    def node_seconds(self) -> Sequence[float]:
        """Seconds of each node's kernel, for the whole batch."""
        domain = topology_on(self.mesh).domain
        found: list[float] = []
        for node in self.graph.nodes:
            if node.op in _FUSED:
                found.append(0.0)
                continue
            parts = self.mesh.size(self.sharded.choices[node].assignment.parts)
            moved = sum(value.type.bytes for value in (*node.operands, *node.results)) / parts
            found.append(max(operations(node) / parts / (domain.products * 1e12), moved / (domain.memory * 1e9)))
        return found

    @cached_property
    def _stage_of(self) -> Mapping[int, int]:
        """The stage of each node, by its number in the order of nodes."""
        found: dict[int, int] = {}
        stage = -1
        for place in range(len(self.graph.nodes)):
            if stage + 1 < len(self.stages) and place == self.stages[stage + 1]:
                stage += 1
            found[place] = stage
        return found

    @cached_property
    def collectives(self) -> tuple[PlannedCollective, ...]:
        """The collectives of one call of a stage's devices, equal ones together."""
        return tuple(each for _, each in self._collectives)

    @cached_property
    def _collectives(self) -> tuple[tuple[int, PlannedCollective], ...]:
        """The collectives, each with its stage."""
        places = {node: place for place, node in enumerate(self.graph.nodes)}
        found: list[tuple[int, PlannedCollective]] = []
        for each in inserted_collectives(self.sharded):
            times = 1 if each.step.axes == ("dp",) else self.micro_batches
            sent = each.step.moved(each.value.type, self.mesh.size)
            cost = LINKS.cost(each.step.kind, self.mesh, each.step.axes, sent / times)
            if cost.seconds:
                stage = self._stage_of[places[each.user]] if each.user in places else len(self.stages) - 1
                what = each.value.name or self._made_by(each)
                found.append((stage, PlannedCollective(each.step.kind, what, each.step.axes, times, cost)))
        return tuple(found)

    def _made_by(self, each: InsertedCollective) -> str:
        maker = self.graph.producers.get(each.value)
        return f"%g{maker.ident}" if maker is not None else "an input"

    def stage_seconds(self) -> Iterator[tuple[float, float]]:
        """Yield for each stage the seconds of kernels, and of collectives of parts of the batch, for one part."""
        kernels = [0.0] * len(self.stages)
        for place, seconds in enumerate(self.node_seconds):
            kernels[self._stage_of[place]] += seconds / self.micro_batches
        joining = [0.0] * len(self.stages)
        for stage, each in self._collectives:
            joining[stage] += each.seconds / self.micro_batches
        yield from zip(kernels, joining, strict=True)

    @cached_property
    def sent_between(self) -> int:
        """Bytes that a device sends to the next stage at most, for one part of the batch."""
        places = {value: place for place, node in enumerate(self.graph.nodes) for value in node.results}
        most = 0
        for begin in self.stages[1:]:
            crossing = {
                value for place, node in enumerate(self.graph.nodes) if place >= begin for value in node.operands
                if places.get(value, begin) < begin
            }  # fmt: skip
            most = max(most, sum(map(self.local_bytes, crossing)))
        return -(-most // self.micro_batches)

    @cached_property
    def memory(self) -> Mapping[str, int]:
        """Bytes of a device of the fullest stage: inputs, and what is alive at once of what kernels make."""
        parts = self.micro_batches
        found = [(self._inputs_of(stage), -(-self._alive_in(stage) // parts)) for stage in range(len(self.stages))]
        inputs, alive = max(found, key=sum)
        return {"inputs": inputs, "values": alive}

    def _nodes_of(self, stage: int) -> list[tuple[int, Node]]:
        return [(place, node) for place, node in enumerate(self.graph.nodes) if self._stage_of[place] == stage]

    def _inputs_of(self, stage: int) -> int:
        used = {value for _, node in self._nodes_of(stage) for value in node.operands}
        return sum(self.local_bytes(value) for value in self.graph.inputs if value in used or len(self.stages) == 1)

    def _alive_in(self, stage: int) -> int:
        """Return the peak of the bytes of what the kernels of a stage make, each until its last use."""
        last: dict[Value, int] = dict.fromkeys(self.graph.outputs, len(self.graph.nodes))
        for place, node in enumerate(self.graph.nodes):
            for value in node.operands:
                last[value] = max(last.get(value, 0), place)
        alive: dict[Value, int] = {}
        most = 0
        for place, node in self._nodes_of(stage):
            made = {value: self.local_bytes(value) for value in node.results if node.op not in ("constant", "iota")}
            if node.op not in _FUSED:
                alive.update(made)
                most = max(most, sum(alive.values()))
            alive = {value: size for value, size in alive.items() if last.get(value, 0) > place}
            if node.op in _FUSED:  # a kernel that takes it in writes it where its operand would be
                alive.update(made)
                most = max(most, sum(alive.values()))
        return most

    @property
    def layouts(self) -> Mapping[str, str]:
        """The types of the inputs with their placements."""
        return {
            value.name or f"input {number}": str(
                ShardedType(value.type.dtype, value.type.shape, self.sharded.placements[value])
            )
            for number, value in enumerate(self.graph.inputs)
        }


def spread(graph: Graph, mesh: Mesh, placements: Mapping[Value, Placement]) -> SpreadGraph:
    """Return a graph on a mesh, in one stage.  Raises AmbiguousSharding."""
    return SpreadGraph(propagate(graph, mesh, placements))


def operations(node: Node) -> int:
    """Return the operations of a contraction; of others, one an element of the results."""
    if node.op != "contract":
        return sum(value.type.size for value in node.results)
    extents = {
        label: size
        for labels, operand in zip(labels_of(node.attributes["labels"]), node.operands, strict=True)
        for label, size in zip(labels, operand.type.shape, strict=True)
    }
    return 2 * prod(extents.values())


def balanced(seconds: Sequence[float], stages: int) -> tuple[int, ...] | None:
    """Return where stages begin so that they take about equally long; None for fewer kernels than stages."""
    if sum(each > 0 for each in seconds) < stages:
        return None
    share, begins, total = sum(seconds) / stages, [0], 0.0
    for place, each in enumerate(seconds):
        if len(begins) < stages and each and total + each / 2 > share * len(begins) and place > begins[-1]:
            begins.append(place)
        total += each
    return tuple(begins) if len(begins) == stages else None
