"""Tell graphs apart: a key of what a graph computes, of its history, and of its places in the user's text.

Two graphs with equal keys differ in nothing but the identity of their values: every pass makes the same of both, with
the same names, numbers and places.
"""

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TypeAlias

from tessera.core.graph.graph import Body, Graph, Node, Routine, Value

Parts: TypeAlias = tuple[Hashable, ...]


@dataclass(frozen=True, slots=True)
class GraphKey:
    """A key of a graph; its hash is computed once, for it goes over all nodes."""

    parts: Parts
    _hash: int = field(init=False, repr=False, compare=False, default=0)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_hash", hash(self.parts))

    def __hash__(self) -> int:
        return self._hash


def graph_key(graph: Graph) -> GraphKey:
    """Return what tells a graph from others, with numbers in the place of its values.

    Attributes are told apart as text, so that 1, 1.0 and True are three.  A routine without a definition is told apart
    as an object, for what it calls is not known; derivatives do not count.
    """
    numbers: dict[Value, int] = {}
    inputs = [_value(value, numbers) for value in graph.inputs]
    nodes = [_node(node, numbers) for node in graph.nodes]
    outputs = [numbers[value] for value in graph.outputs]
    return GraphKey((graph.name, graph.source, graph.span, tuple(inputs), tuple(nodes), tuple(outputs)))


def _node(node: Node, numbers: dict[Value, int]) -> Parts:
    operands = tuple([numbers[value] for value in node.operands])
    results = tuple([_value(value, numbers) for value in node.results])
    body: Body | Hashable = node.body
    if isinstance(body, Routine):
        body = _routine(body)
    elif isinstance(body, tuple):
        body = tuple([graph_key(graph) for graph in body])
    return (node.op, node.ident, operands, results, body, repr(node.attributes), node.origin, node.span)


def _routine(routine: Routine) -> Hashable:
    if routine.definition is None:
        return routine
    real = None if routine.real is None else graph_key(routine.real)
    return (routine.name, routine.library, graph_key(routine.definition), real)


def _value(value: Value, numbers: dict[Value, int]) -> Parts:
    numbers[value] = len(numbers)
    return (value.type, value.name, value.span, value.numerics)
