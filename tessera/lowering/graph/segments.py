"""Cut long graphs into segments, so that equal layers are worked on once, and the time grows with the length.

    before: 320 nodes, eight equal layers
    after:  segments of 32 to 96 nodes, cut where the fewest values are alive

A segment is a graph of consecutive nodes: its inputs are values from before it, its outputs those that are used behind
it.  Cutting loses nothing but what a rule would have found across the cut.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from tessera.core.graph.graph import Graph, Node, Value

WHOLE: Final = 128
"""Most nodes of a graph that is not cut."""
SHORTEST: Final = 32
LONGEST: Final = 96

Key: TypeAlias = tuple[object, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Segment:
    """A part of a graph.  key: equal for segments that compute the same of other values."""

    graph: Graph
    key: Key


def segments(graph: Graph) -> list[Segment]:
    """Return the parts of a graph, in order; a short graph is one."""
    if len(graph.nodes) <= WHOLE:
        return [Segment(graph, ())]
    last = _last_uses(graph)
    found: list[Segment] = []
    first = 0
    while first < len(graph.nodes):
        end = _end(graph, first, last)
        part = _part(graph, graph.nodes[first:end], end, last)
        found.append(Segment(part, _key(part)))
        first = end
    return found


def _last_uses(graph: Graph) -> Mapping[Value, int]:
    """Return the place of the last node that uses each value; outputs are used behind all."""
    last = {operand: place for place, node in enumerate(graph.nodes) for operand in node.operands}
    return {**last, **dict.fromkeys(graph.outputs, len(graph.nodes))}


def _end(graph: Graph, first: int, last: Mapping[Value, int]) -> int:
    """Return where a segment from `first` on ends: where the fewest values of it are used behind, at the latest."""
    size = len(graph.nodes)
    if size - first <= LONGEST:
        return size
    alive = 0
    ends: dict[int, int] = {}
    closing: dict[int, int] = {}
    for place in range(first, first + LONGEST):
        for value in graph.nodes[place].results:
            if last.get(value, -1) > place:
                alive += 1
                closing[last[value]] = closing.get(last[value], 0) + 1
        alive -= closing.pop(place, 0)
        ends[place + 1] = alive
    places = [end for end in ends if end - first >= SHORTEST and size - end >= SHORTEST]
    return min(places, key=lambda end: (ends[end], end))


def _part(graph: Graph, nodes: Sequence[Node], end: int, last: Mapping[Value, int]) -> Graph:
    made = dict.fromkeys(value for node in nodes for value in node.results)
    inputs = dict.fromkeys(value for node in nodes for value in node.operands if value not in made)
    outputs = tuple(value for value in made if last.get(value, -1) >= end)
    return replace(graph, inputs=tuple(inputs), nodes=tuple(nodes), outputs=outputs)


def _key(part: Graph) -> Key:
    """Return what a segment computes, with numbers in the place of its values."""
    numbers: dict[Value, int] = {value: place for place, value in enumerate(part.inputs)}
    rows: list[object] = [tuple(value.type for value in part.inputs)]
    for node in part.nodes:
        body: object = id(node.body) if isinstance(node.body, Graph) else node.body
        given = tuple(sorted(node.attributes.items(), key=lambda item: item[0]))
        rows.append((node.op, tuple(numbers[value] for value in node.operands), given, body))
        for value in node.results:
            numbers[value] = len(numbers)
    return (*rows, tuple(numbers[value] for value in part.outputs))


class Joiner:
    """Puts rewritten segments together again: nodes of the graph keep their numbers, new ones get their own."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes: list[Node] = []
        self._next = graph.next_ident
        self._values: dict[Value, Value] = {}

    def add(self, segment: Graph, model: Graph, made: Graph) -> None:
        """Append what a segment equal to `model` becomes, of which `made` was made."""
        values = {a: self._values.get(b, b) for a, b in zip(model.inputs, segment.inputs, strict=True)}
        twins = {a.ident: b for a, b in zip(model.nodes, segment.nodes, strict=True)}
        for node in made.nodes:
            operands = tuple(values[operand] for operand in node.operands)
            twin = twins.get(node.ident)
            new = self._copied(node, twins) if twin is None else twin
            self.nodes.append(replace(new, operands=operands))
            values.update(zip(node.results, new.results, strict=True))
        for old, result in zip(segment.outputs, made.outputs, strict=True):
            self._values[old] = values[result]

    def _copied(self, node: Node, twins: Mapping[int, Node]) -> Node:
        """Return a new node for another segment: with its own values, and the history of that one's nodes."""
        parents = [twins[parent] for parent in node.origin.parents]
        span = parents[0].span if parents else node.span
        results = tuple(replace(value, span=span) for value in node.results)
        composite = parents[0].origin.composite if parents else node.origin.composite
        origin = replace(node.origin, parents=tuple(parent.ident for parent in parents), composite=composite)
        self._next += 1
        return replace(node, results=results, ident=self._next - 1, origin=origin, span=span)

    def finish(self) -> Graph:
        """Return the whole graph."""
        outputs = tuple(self._values.get(value, value) for value in self.graph.outputs)
        return replace(self.graph, nodes=tuple(self.nodes), outputs=outputs)
