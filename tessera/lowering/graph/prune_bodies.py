"""Take out of loops and branches what nothing needs: results, carries and stacked inputs, and carries that stay.

before: w, h, ys = loop(w0, h0, xs) {w, h' = f(w, h, x), y}, of which h alone is used
after:  h = loop(w0, h0, xs) {h' = f(w, h, x)}, w0 a constant
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from tessera.core.graph.bodies import BRANCH, WHILE, WITH_BODIES, parts
from tessera.core.graph.dead_code import live_nodes
from tessera.core.graph.graph import Graph, Node, Origin, Value
from tessera.core.graph.index_maps import IndexMap
from tessera.core.graph.rewrite import Rewriter, own_outputs, without_dead_code

RULE: Final = "prune-bodies"


def prune_bodies(graph: Graph) -> Graph:
    """Return the graph with the least that its loops and branches can do, bodies in bodies included."""
    if all(node.op not in WITH_BODIES for node in graph.nodes):
        return graph
    needed = set(graph.outputs)
    kept: list[Node] = []
    stays: dict[Value, Value] = {}
    for node in reversed(graph.nodes):
        if needed.isdisjoint(node.results):
            continue
        new = node
        if node.op in WITH_BODIES:
            same = _staying(node)
            stays.update(same)
            needed.update(value for result, value in same.items() if result in needed)
            new = _pruned(node, needed.difference(same), same)
        if new is not None:
            needed.update(new.operands)
            kept.append(new)
    kept.reverse()
    return _with_stand_ins(graph, kept, stays)


def _with_stand_ins(graph: Graph, nodes: Sequence[Node], stays: dict[Value, Value]) -> Graph:
    """Put what carries begin with in the place of those that stay; every output is an array of its own."""
    rewriter = Rewriter(replace(graph, nodes=tuple(nodes)), RULE)
    for result, value in stays.items():
        while value in stays:
            value = stays[value]  # noqa: PLW2901 - a loop behind a loop
        rewriter.stand_in(result, value)
    for node in nodes:
        rewriter.keep(node)
    with rewriter.builder.within(Origin(RULE)):
        return own_outputs(rewriter.finish())


def _staying(node: Node) -> dict[Value, Value]:
    """Return the results that are what their carries begin with: the body hands these on as they are."""
    if node.op == BRANCH:
        return {}
    body = node.graphs[-1]
    inside, outside = parts(node, body.inputs), parts(node, node.operands)
    return {
        node.results[place]: outside.carries[place]
        for place, value in enumerate(inside.carries)
        if _source(body, body.outputs[place]) is value
    }


def _source(body: Graph, value: Value) -> Value:
    """Return what a value is a copy of."""
    while True:
        node = body.producers.get(value)
        if node is None or not isinstance(node.body, IndexMap):
            return value
        if not node.body.is_identity(node.operands[0].type.shape):
            return value
        value = node.operands[0]


def _pruned(node: Node, needed: Collection[Value], stays: Collection[Value]) -> Node | None:
    """Return a node without results that are not needed, and operands that are not read; None: nothing is left."""
    if node.op == BRANCH:
        return _pruned_branch(node, needed)
    count = len(parts(node, node.operands).carries)
    body = node.graphs[-1]
    inside = parts(node, body.inputs)
    live = {place for place, result in enumerate(node.results) if result in needed}
    if not live:
        return None
    read = _read(node.graphs[0], node.graphs[0].outputs) if node.op == WHILE else set[int]()
    first = len(inside.constants)
    while True:
        read |= _read(body, [body.outputs[place] for place in live])
        more = {n - first for n in read if first <= n < first + count and node.results[n - first] not in stays} - live
        if not more:
            break
        live |= more
    numbers = parts(node, range(len(node.operands)))
    fixed = [number for number in numbers.carries if node.results[number - first] in stays]
    constants = [number for number in (*numbers.constants, *fixed) if number in read]
    carries = [number for number in numbers.carries if number - first in live]
    order = [*constants, *carries, *(number for number in numbers.stacked if number in read)]
    if len(order) == len(node.operands) and len(live) == len(node.results) and not fixed:
        return _with_pruned_bodies(node)
    outputs = sorted(live)
    bodies = [_selected(each, order, outputs if each is body else range(1)) for each in node.graphs]
    attributes = {**node.attributes, "constants": len(constants), "carried": len(carries)}
    return replace(
        node, operands=tuple(node.operands[number] for number in order),
        results=tuple(node.results[number] for number in outputs), attributes=attributes, body=tuple(bodies),
    )  # fmt: skip


def _pruned_branch(node: Node, needed: Collection[Value]) -> Node:
    outputs = [place for place, result in enumerate(node.results) if result in needed]
    read = set[int]()
    for body in node.graphs:
        read |= _read(body, [body.outputs[place] for place in outputs])
    order = sorted(read)
    if len(outputs) == len(node.results) and len(order) == len(node.operands) - 1:
        return _with_pruned_bodies(node)
    return replace(
        node, operands=(node.operands[0], *(node.operands[number + 1] for number in order)),
        results=tuple(node.results[number] for number in outputs),
        body=tuple(_selected(body, order, outputs) for body in node.graphs),
    )  # fmt: skip


def _read(body: Graph, outputs: Sequence[Value]) -> set[int]:
    """Return the numbers of the inputs that outputs of a body depend on."""
    used = {*outputs, *(operand for node in live_nodes(body.nodes, outputs) for operand in node.operands)}
    return {number for number, value in enumerate(body.inputs) if value in used}


def _selected(body: Graph, inputs: Sequence[int], outputs: Sequence[int]) -> Graph:
    made = tuple(body.outputs[number] for number in outputs)
    less = replace(body, inputs=tuple(body.inputs[number] for number in inputs), outputs=made)
    return prune_bodies(without_dead_code(less))


def _with_pruned_bodies(node: Node) -> Node:
    bodies = tuple(map(prune_bodies, node.graphs))
    same = all(new is old for new, old in zip(bodies, node.graphs, strict=True))
    return node if same else replace(node, body=bodies)
