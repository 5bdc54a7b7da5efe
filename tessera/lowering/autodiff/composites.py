"""Composites whose derived adjoint is replaced: their nodes as one operator, with inputs and outputs.

An adjoint is a function that appends nodes: `adjoint(builder, inputs, outputs, cotangents)` returns a cotangent for
each input, None for one that is zero or no float.  inputs: what the nodes read from outside, in order of first use;
outputs: what is read outside, in the order of the nodes; cotangents: of those outputs that are floats.  `check_adjoint`
compares it with finite differences.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Graph, Node, NodeAdjoint, Value

Adjoint: TypeAlias = Callable[
    [GraphBuilder, Sequence[Value], Sequence[Value], Sequence[Value]], Sequence[Value | None]
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Region:
    """The nodes of one instance of a composite, or a call with an adjoint of its own.

    name: of the composite, without the number of the instance; adjoint: None for the one that overrides tell
    """

    name: str
    nodes: tuple[Node, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    adjoint: Adjoint | None = None


def called(node: Node, adjoint: NodeAdjoint) -> Region:
    """Return a call as a region."""

    def pulled(
        builder: GraphBuilder, _: Sequence[Value], __: Sequence[Value], cotangents: Sequence[Value]
    ) -> Sequence[Value | None]:
        return adjoint(builder, node, cotangents)

    return Region(node.routine.name, (node,), node.operands, node.results, pulled)


def regions_of(graph: Graph, names: Sequence[str]) -> list[Region]:
    """Return the instances of composites that `names` lists, the outermost where they nest.

    `softmax` is the name of `softmax` and of `softmax.1`.  What differentiation made is no instance.
    Raises ValueError where other nodes lie between those of an instance.
    """
    found: dict[tuple[str, ...], list[int]] = {}
    for position, node in enumerate(graph.nodes):
        if (path := _instance(node.origin.composite, frozenset(names))) is not None:
            found.setdefault(path, []).append(position)
    for path, positions in found.items():
        if positions[-1] - positions[0] + 1 != len(positions):
            raise ValueError(f"the nodes of {'/'.join(path)} in {graph.name} do not lie together")
    return [
        _region(graph, _name(path[-1]), graph.nodes[positions[0] : positions[-1] + 1])
        for path, positions in found.items()
    ]


def _name(element: str) -> str:
    return element.partition(".")[0]


def _instance(composite: tuple[str, ...], names: frozenset[str]) -> tuple[str, ...] | None:
    if composite and composite[0] in ("tangent", "adjoint"):
        return None
    for depth, element in enumerate(composite):
        if _name(element) in names:
            return composite[: depth + 1]
    return None


def _region(graph: Graph, name: str, nodes: Sequence[Node]) -> Region:
    made = {value: None for node in nodes for value in node.results}
    inputs = {value: None for node in nodes for value in node.operands if value not in made}
    inside, outputs = frozenset(nodes), frozenset(graph.outputs)
    seen = [
        value for value in made if value in outputs or not inside.issuperset(graph.users.get(value, ()))
    ]  # fmt: skip
    return Region(name, tuple(nodes), tuple(inputs), tuple(seen))


def region_graph(graph: Graph, region: Region) -> Graph:
    """Return the nodes of a region as a graph of their own."""
    return Graph(region.name, region.inputs, region.nodes, region.outputs, graph.source, region.nodes[0].span)
