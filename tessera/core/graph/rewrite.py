"""Rewrite a graph node by node: what changes is built anew, the rest keeps its nodes and their numbers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Graph, Node, Origin, Value
from tessera.core.graph.index_maps import identity


class Rewriter:
    """Builds the graph that a pass makes of another one.

    builder: appends new nodes, with numbers that the old graph does not have
    """

    def __init__(self, graph: Graph, rule: str = "") -> None:
        self.graph, self.rule = graph, rule
        self.builder = GraphBuilder(graph.next_ident)
        self._values: dict[Value, Value] = {}

    def value(self, old: Value) -> Value:
        """Return what stands for a value of the old graph."""
        return self._values.get(old, old)

    def operands(self, node: Node) -> list[Value]:
        """Return what stands for the operands of a node."""
        return [self.value(operand) for operand in node.operands]

    def keep(self, node: Node, operands: Sequence[Value] | None = None) -> None:
        """Take a node over, with other operands if need be; its number and its results stay."""
        mine = tuple(operands) if operands is not None else tuple(self.operands(node))
        self.builder.nodes.append(node if mine == node.operands else replace(node, operands=mine))

    def replace(self, node: Node, value: Value) -> None:
        """Let `value` stand for the only result of a node."""
        self.stand_in(node.result, value)

    def stand_in(self, old: Value, new: Value) -> None:
        """Let a value stand for one of the old graph."""
        self._values[old] = new

    def origin(self, *parents: Node) -> Origin:
        """Return the origin of a node that this pass makes of `parents`."""
        return Origin(self.rule, tuple(node.ident for node in parents), parents[0].origin.composite)

    def view_of(self, operand: Value, user: Node) -> Value:
        """Return a view of a value that one user alone reads."""
        with self.builder.within(self.origin(user), user.span):
            return self.builder.add("view", (self.value(operand),), identity(operand.type.shape), operand.name)

    def finish(self) -> Graph:
        """Return the new graph, without nodes that no output needs."""
        outputs = tuple(self.value(value) for value in self.graph.outputs)
        return without_dead_code(replace(self.graph, nodes=tuple(self.builder.nodes), outputs=outputs))


def without_dead_code(graph: Graph) -> Graph:
    """Return the graph without the nodes that no output needs."""
    needed = set(graph.outputs)
    kept: list[Node] = []
    for node in reversed(graph.nodes):
        if needed & set(node.results):
            kept.append(node)
            needed |= set(node.operands)
    return graph if len(kept) == len(graph.nodes) else replace(graph, nodes=tuple(reversed(kept)))


def renamed(graph: Graph, values: Mapping[Value, Value]) -> Graph:
    """Return the graph with other values in place of inputs."""
    nodes = tuple(replace(node, operands=tuple(values.get(v, v) for v in node.operands)) for node in graph.nodes)
    inputs = tuple(values.get(value, value) for value in graph.inputs)
    return replace(graph, inputs=inputs, nodes=nodes, outputs=tuple(values.get(v, v) for v in graph.outputs))


def with_bodies(graph: Graph, change: Callable[[Graph], Graph]) -> Graph:
    """Return the graph with the bodies of its loops and branches changed; itself where none is."""
    nodes = [_with_body(node, change) for node in graph.nodes]
    same = all(new is old for new, old in zip(nodes, graph.nodes, strict=True))
    return graph if same else replace(graph, nodes=tuple(nodes))


def _with_body(node: Node, change: Callable[[Graph], Graph]) -> Node:
    if not isinstance(node.body, tuple):
        return node
    changed = tuple(map(change, node.body))
    same = all(new is old for new, old in zip(changed, node.body, strict=True))
    return node if same else replace(node, body=changed)


def own_outputs(graph: Graph) -> Graph:
    """Return the graph with an array of its own for every output: no input, and none twice."""
    if len({*graph.inputs, *graph.outputs}) == len(graph.inputs) + len(graph.outputs):
        return graph
    builder = GraphBuilder(graph.next_ident)
    builder.nodes.extend(graph.nodes)
    made = set(graph.producers)
    outputs: list[Value] = []
    for value in graph.outputs:
        outputs.append(value if value in made else builder.copy(value))
        made.discard(value)
    return replace(graph, nodes=tuple(builder.nodes), outputs=tuple(outputs))
