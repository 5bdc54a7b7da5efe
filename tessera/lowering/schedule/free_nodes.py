"""Find free nodes: those that every kernel that needs them computes for itself, because they cost nothing there."""

from collections.abc import Collection, Sequence
from typing import Final, cast

from tessera.core.graph.expr import Apply, Argument, walk
from tessera.core.graph.graph import Graph, Node, Value
from tessera.lowering.schedule.channels_last import COPY

_CHEAP: Final = ("cast", "cmp", "select", "and", "or", "xor", "not")
_SPREAD: Final = 16
"""How many times larger than what it is made of an array has to be to be made by every user anew."""


def picks_number(graph: Graph, node: Node) -> bool:
    """Return whether a node is one number of an input, such as half of a key: what is made of it is, too."""
    return node.op == "view" and node.result.type.size == 1 and node.operands[0] in graph.inputs


def spreads(graph: Graph, node: Node, free: Collection[Node]) -> bool:
    """Return whether a node compares or chooses among elements of arrays that are far smaller than its result.

    free: the nodes before it that are free
    """
    if node.op != "map" or any(isinstance(each, Apply) and each.opcode not in _CHEAP for each in walk(node.expr)):
        return False
    sizes = [0 if graph.producers.get(each) in free else each.type.size for each in node.operands]
    return bool(sizes) and sum(sizes) * _SPREAD <= node.result.type.size


def is_read_through(graph: Graph, node: Node) -> bool:
    """Return whether a node is a view, or converts an input: each kernel that needs it does so for itself."""
    return (node.op == "view" and node.origin.rule != COPY) or _converts(graph, node)


def _converts(graph: Graph, node: Node) -> bool:
    """Return whether every user may convert for itself: what is an input, or shorter in memory than converted."""
    if node.op != "map" or len(node.operands) != 1:
        return False
    body = node.expr
    if not isinstance(body, Apply) or body.opcode != "cast" or not isinstance(body.operands[0], Argument):
        return False
    return node.operands[0] in graph.inputs or body.operands[0].dtype.bits < body.dtype.bits


def is_factor(graph: Graph, value: Value) -> bool:
    """Return whether a product reads a value, also through views: it reads what lies in memory."""
    users = graph.users.get(value, ())
    return any(user.op == "contract" or (user.op == "view" and is_factor(graph, user.result)) for user in users)


def by_element(node: Node) -> bool:
    """Return whether a map reads each operand at its own place."""
    if node.op != "map" or not node.operands:
        return False
    places = tuple(range(len(node.result.type.shape)))
    return all(tuple(each) == places for each in cast("Sequence[Sequence[int]]", node.attributes["axes"]))
