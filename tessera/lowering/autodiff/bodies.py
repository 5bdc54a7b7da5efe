"""Derivatives of bodies: which inputs and outputs have them, and bodies put together anew."""

from collections.abc import Collection, Sequence
from dataclasses import replace

from tessera.core.graph.bodies import BRANCH, parts
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.graph import Graph, Node, Origin, Value
from tessera.core.graph.rewrite import own_outputs, without_dead_code


def reached(graph: Graph, inputs: Collection[Value]) -> set[Value]:
    """Return the floats of a graph that depend on `inputs`, floats themselves, through floats alone."""
    found = set(inputs)
    for node in graph.nodes:
        if not found.isdisjoint(node.operands):
            found.update(value for value in node.results if value.type.dtype.is_float)
    return found


def active_inputs(node: Node, active: Collection[int]) -> list[int]:
    """Return the numbers of the inputs of a node's bodies that have tangents, in order.

    active: operands that have.  A carry has one where it begins with one, or where any trip gives it one.
    """
    if node.op == BRANCH:
        return [number - 1 for number in sorted(active) if number]
    body = node.graphs[-1]
    given = parts(node, body.inputs)
    first, count = len(given.constants), len(given.carries)
    found = set(active)
    while True:
        values = reached(body, {body.inputs[number] for number in found})
        more = {first + place for place in range(count) if body.outputs[place] in values} - found
        if not more:
            return sorted(found)
        found |= more


def active_outputs(node: Node, inputs: Collection[int]) -> list[int]:
    """Return the numbers of the results that have tangents, where these inputs of the bodies have."""
    found: set[int] = set()
    for body in node.graphs if node.op == BRANCH else node.graphs[-1:]:
        values = reached(body, {body.inputs[number] for number in inputs})
        found |= {place for place, value in enumerate(body.outputs) if value in values}
    if node.op != BRANCH:
        first, count = len(parts(node, node.operands).constants), len(parts(node, node.operands).carries)
        found |= {number - first for number in inputs if first <= number < first + count}
    return sorted(found)


def with_ends(graph: Graph, inputs: Sequence[Value], outputs: Sequence[Value]) -> Graph:
    """Return the part of a graph that makes `outputs`, with values and numbers of its own.

    What `inputs` lists is given, whatever made it in `graph`; every output is an array of its own.
    """
    given = set(inputs)
    nodes = tuple(node for node in graph.nodes if given.isdisjoint(node.results))
    part = own_outputs(without_dead_code(replace(graph, inputs=tuple(inputs), nodes=nodes, outputs=tuple(outputs))))
    builder = GraphBuilder()
    fresh = [replace(value) for value in inputs]
    made = builder.inline(part, fresh)
    history = zip(builder.nodes, part.nodes, strict=True)
    builder.nodes = [replace(new, origin=_own(old)) for new, old in history]
    return replace(part, inputs=tuple(fresh), nodes=tuple(builder.nodes), outputs=tuple(made))


def _own(node: Node) -> Origin:
    """Return the history of a node without numbers of nodes of another graph."""
    return Origin(node.origin.rule, (), node.origin.composite)
