"""Remove nodes whose results nothing uses: nodes are pure, so an unused one changes nothing."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tessera.core.graph.graph import Graph, Node, Value


def live_nodes(nodes: Sequence[Node], outputs: Iterable[Value]) -> list[Node]:
    """Return the nodes that `outputs` need, in their order; nodes: each after those whose results it uses."""
    needed = set(outputs)
    kept: list[Node] = []
    for node in reversed(nodes):
        if not needed.isdisjoint(node.results):
            needed.update(node.operands)
            kept.append(node)
    kept.reverse()
    return kept


def without_dead_nodes(graph: Graph) -> Graph:
    """Return `graph` without the nodes that no output needs; inputs stay, used or not."""
    kept = live_nodes(graph.nodes, graph.outputs)
    return graph if len(kept) == len(graph.nodes) else replace(graph, nodes=tuple(kept))
