"""Compute values of the forward part again in the backward part, where keeping them costs too much memory.

What is kept is a smallest cut, in bytes, between what may not be computed again and what the backward part reads.  Of
all smallest cuts it is the one nearest to the inputs, which is unique.  The peak of the resulting graph is simulated
rather than estimated, for a ladder of cuts that compute more and more again: the first that fits is taken.

The fewest bytes are not the lowest peak: a deep network computed again from its inputs has all of it in memory at once.
So each step of the ladder is tried with checkpoints, from all of them to none, doubling the distance.  A checkpoint is
a value that alone connects what comes before it with the rest of the forward part, and it is not computed again (T.
Chen, B. Xu, C. Zhang, C. Guestrin, "Training Deep Nets with Sublinear Memory Cost", arXiv:1604.06174, 2016).
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from tessera.core.base.min_cut import FlowNetwork
from tessera.core.graph.graph import Graph, Node, Origin, Value
from tessera.core.graph.infer import labels_of
from tessera.lowering.autodiff.peak_memory import peak_memory

CHEAP: Final = frozenset({"map", "view", "concat", "gather", "iota", "random"})
SUMMED: Final = frozenset({"reduce", "scan", "scatter_add"})


@dataclass(frozen=True, slots=True)
class Rung:
    """One cut of the ladder.

    name: what it may compute again; kept: bytes of values that the backward part reads; peak: of the whole graph
    recomputed: how many nodes run twice
    """

    name: str
    kept: int
    peak: int
    recomputed: int


@dataclass(frozen=True, slots=True)
class Recomputation:
    """The choice that was made.

    graph: with nodes of `Origin("recompute", ...)`; rungs: all cuts tried, the last one taken where it `fits`,
    else the first of those with the smallest peak
    """

    graph: Graph
    rungs: tuple[Rung, ...]
    fits: bool


def is_backward(node: Node) -> bool:
    """Return whether differentiation made the node."""
    return node.origin.composite[:1] in (("adjoint",), ("tangent",))


def multiply_adds(node: Node) -> int:
    """Return how many products a contraction adds up, 0 for any other node."""
    if node.op != "contract":
        return 0
    extents: dict[int, int] = {}
    for operand, labels in zip(node.operands, labels_of(node.attributes["labels"]), strict=True):
        extents.update(zip(labels, operand.type.shape, strict=True))
    return prod(extents.values())


def recompute(
    graph: Graph, memory_limit: int, *, keep: Collection[int] = (), most_multiply_adds: int = 0,
    backward: Callable[[Node], bool] = is_backward,
) -> Recomputation:  # fmt: skip
    """Return `graph`, what `vjp` or `value_and_grad` made, with as little computed again as fits into memory.

    memory_limit: bytes, as `peak_memory` counts them; keep: numbers of nodes that are never computed again
    most_multiply_adds: of a contraction that may be; calls, collectives, state and loops never are
    backward: which nodes are the backward part; the others come first
    The new nodes must not be merged with those that they repeat: simplify before, not after.
    """
    forward = [node for node in graph.nodes if not backward(node)]
    rungs: list[Rung] = []
    tried: set[frozenset[Value]] = set()
    best: tuple[int, Graph] | None = None
    for name, again in _ladder(graph, forward, frozenset(keep), most_multiply_adds):
        kept = _cut(graph, forward, again)
        if frozenset(kept) in tried:
            continue
        tried.add(frozenset(kept))
        made = _rebuilt(graph, frozenset(forward), kept)
        rung = Rung(name, sum(v.type.bytes for v in kept), peak_memory(made), len(made.nodes) - len(graph.nodes))
        rungs.append(rung)
        if rung.peak <= memory_limit:
            return Recomputation(made, tuple(rungs), fits=True)
        if best is None or rung.peak < best[0]:
            best = (rung.peak, made)
    assert best is not None
    return Recomputation(best[1], tuple(rungs), fits=False)


def _ladder(
    graph: Graph, forward: Sequence[Node], keep: frozenset[int], most: int
) -> list[tuple[str, frozenset[Node]]]:
    """Return which nodes may be computed again, fewer first."""
    costs = sorted({cost for node in forward if 0 < (cost := multiply_adds(node)) <= most})
    kinds: list[tuple[str, Callable[[Node], bool]]] = [
        ("maps and moves", lambda node: node.op in CHEAP),
        ("sums", lambda node: node.op in CHEAP | SUMMED),
        *((f"contractions of {cost}", _up_to(cost)) for cost in costs),
    ]
    found: list[tuple[str, frozenset[Node]]] = [("nothing", frozenset())]
    checkpoints = _checkpoints(graph, forward)
    for name, allowed in kinds:
        able = frozenset(node for node in forward if allowed(node) and node.ident not in keep)
        step = 1
        while step < len(checkpoints):
            found.append((f"{name}, every {step} checkpoints", able.difference(checkpoints[step - 1 :: step])))
            step *= 2
        found.append((name, able))
    return found


def _checkpoints(graph: Graph, forward: Sequence[Node]) -> list[Node]:
    """Return the nodes whose result alone is read by what comes after them, inputs aside."""
    last: dict[Value, int] = {}
    for position, node in enumerate(forward):
        last.update(dict.fromkeys(node.operands, position))
    inputs = frozenset(graph.inputs)
    found: list[Node] = []
    reach = -1  # how far values of earlier nodes are read
    for position, node in enumerate(forward):
        mine = max((last.get(value, -1) for value in node.results), default=-1)
        if reach <= position < mine and not inputs.issuperset(node.operands) and len(node.results) == 1:
            found.append(node)
        reach = max(reach, mine)
    return found


def _up_to(cost: int) -> Callable[[Node], bool]:
    return lambda node: node.op in CHEAP | SUMMED or (node.op == "contract" and multiply_adds(node) <= cost)


def _needed(graph: Graph, forward: frozenset[Node]) -> list[Value]:
    """Return the values of the forward part that the backward part reads, in order."""
    made = {value for node in forward for value in node.results}
    read = {value for node in graph.nodes if node not in forward for value in node.operands}
    return [value for node in graph.nodes for value in node.results if value in made and value in read]


def _cut(graph: Graph, forward: Sequence[Node], again: frozenset[Node]) -> list[Value]:
    """Return the values to keep, in the order of their nodes: the smallest cut nearest to the source.

    Each value is an edge from its node's number to a second one; inputs and outputs are in memory anyway.
    """
    values = [*graph.inputs, *(value for node in forward for value in node.results)]
    numbers = {value: 2 * place for place, value in enumerate(values)}
    source, sink = 2 * len(values), 2 * len(values) + 1
    free = {*graph.inputs, *graph.outputs}
    infinite = sum(value.type.bytes for value in values) + 1
    network = FlowNetwork(2 * len(values) + 2)
    for value, number in numbers.items():
        network.add_edge(number, number + 1, 0 if value in free else value.type.bytes)
    for value in graph.inputs:
        network.add_edge(source, numbers[value], infinite)
    for node in forward:
        for value in node.results:
            if node not in again:
                network.add_edge(source, numbers[value], infinite)
            for operand in node.operands:
                network.add_edge(numbers[operand] + 1, numbers[value], infinite)
    for value in _needed(graph, frozenset(forward)):
        network.add_edge(numbers[value] + 1, sink, infinite)
    side = network.source_side(source, sink)
    return [v for v, number in numbers.items() if number in side and number + 1 not in side and v not in free]


def _rebuilt(graph: Graph, forward: frozenset[Node], kept: Sequence[Value]) -> Graph:
    """Return the graph whose backward part reads `kept`, inputs, outputs, and what it computes again from them.

    A node that is computed again stands right before the first that reads it.
    """
    copies: dict[Value, Value] = {value: value for value in (*graph.inputs, *graph.outputs, *kept)}
    nodes: list[Node] = []
    ident = graph.next_ident

    def available(value: Value) -> Value:
        """Return the value that the backward part reads in place of `value`."""
        nonlocal ident
        node = graph.producers.get(value)
        if value in copies or node is None or node not in forward:
            return copies.get(value, value)
        stack = [node]
        while stack:
            last = stack[-1]
            missing = [graph.producers[v] for v in last.operands if v not in copies]
            if missing:
                stack += reversed(missing)
                continue
            stack.pop()
            if last.results[0] in copies:
                continue
            results = tuple(Value(v.type, v.name, v.span) for v in last.results)
            operands = tuple(copies[v] for v in last.operands)
            origin = Origin("recompute", (last.ident,), ("adjoint", *last.origin.composite))
            nodes.append(replace(last, operands=operands, results=results, ident=ident, origin=origin))
            copies.update(zip(last.results, results, strict=True))
            ident += 1
        return copies[value]

    for node in graph.nodes:
        if node not in forward:
            operands = tuple([available(value) for value in node.operands])
            node = replace(node, operands=operands) if operands != node.operands else node  # noqa: PLW2901
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes))
