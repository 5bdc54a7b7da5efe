"""List the collectives that a partitioned graph holds: each with its value, before and after, and what asks for it."""

from collections.abc import Iterator
from dataclasses import dataclass

from tessera.core.graph.graph import Node, Value
from tessera.core.placement.sharded_type import ShardedType
from tessera.lowering.sharding.sharded_graph import ShardedGraph
from tessera.lowering.sharding.steps import SLICE, Step, steps_between


@dataclass(frozen=True, slots=True)
class InsertedCollective:
    """One collective.  user: the node that needs it; None: an output does, or the user's own placement."""

    value: Value
    step: Step
    user: Node | None

    @property
    def before(self) -> ShardedType:
        """The type of the value that is joined or moved."""
        return ShardedType(self.value.type.dtype, self.value.type.shape, self.step.before)

    @property
    def after(self) -> ShardedType:
        """The type of what it makes."""
        return ShardedType(self.value.type.dtype, self.value.type.shape, self.step.after)


def inserted_collectives(sharded: ShardedGraph) -> tuple[InsertedCollective, ...]:
    """Return the collectives in the order of the graph; what is made once for several users is listed once."""
    seen: set[tuple[Value, object]] = set()
    found: list[InsertedCollective] = []
    for each in _needed(sharded):
        key = (each.value, each.step.after)
        if key not in seen and each.step.kind != SLICE:
            found.append(each)
        seen.add(key)
    return tuple(found)


def _needed(sharded: ShardedGraph) -> Iterator[InsertedCollective]:
    for node in sharded.graph.nodes:
        assignment = sharded.choices[node].assignment
        for value, wanted in zip(node.operands, assignment.operands, strict=True):
            for step in steps_between(sharded.placements[value], wanted):
                yield InsertedCollective(value, step, node)
        for value, made in zip(node.results, assignment.results, strict=True):
            if made != sharded.placements[value]:
                for step in steps_between(made, sharded.placements[value]):
                    yield InsertedCollective(value, step, None)
    for value, wanted in zip(sharded.graph.outputs, sharded.outputs, strict=True):
        for step in steps_between(sharded.placements[value], wanted):
            yield InsertedCollective(value, step, None)
