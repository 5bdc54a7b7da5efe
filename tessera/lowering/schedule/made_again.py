"""Find what readers of a kernel compute again because that moves fewer bytes than reading it.

    before: kernel 0 writes bf16(s), f32 erf(s), f32 exp(-s * s), which the derivative of gelu is made of
    after:  kernel 0 writes bf16(s), and the kernel of the derivative computes the rest from it

What is written instead is a smallest cut, in bytes written and read, between what is in memory or summed and what is
wanted.  The values are the same: they are made by the same operations of the same numbers.
"""

from collections.abc import Collection, Sequence

from tessera.core.base.min_cut import FlowNetwork
from tessera.core.graph.graph import Node, Value
from tessera.lowering.schedule.form import Members


def made_again(members: Members, owned: Collection[Node], wanted: Sequence[Value]) -> set[Node]:
    """Return the maps of a kernel that its readers compute for themselves; empty where that saves nothing.

    members: the kernel; owned: its nodes but for those that every user has anyway; wanted: outputs that may be made
    again.  Its other outputs are in memory in any case.
    """
    if not wanted:
        return set()
    makers = {value: node for node in members.nodes for value in node.results}
    kept = set(members.outputs).difference(wanted)
    values = _behind(wanted, makers, kept)
    numbers = {value: place for place, value in enumerate(values)}
    source, sink = 2 * len(values), 2 * len(values) + 1
    network = FlowNetwork(sink + 1)
    whole = 1 + sum(2 * value.type.bytes for value in values)
    for value, place in numbers.items():
        maker = makers.get(value)
        there = maker is None or value in kept
        free = maker is not None and maker not in owned
        network.add_edge(2 * place, 2 * place + 1, whole if free else value.type.bytes * (1 if there else 2))
        if there or maker is None or maker.op not in ("map", "view", "iota"):
            network.add_edge(source, 2 * place, whole)
            continue
        for operand in maker.operands:
            network.add_edge(2 * numbers[operand] + 1, 2 * place, whole)
    for value in wanted:
        network.add_edge(2 * numbers[value] + 1, sink, whole)
    side = network.source_side(source, sink)
    cut = {value for value, place in numbers.items() if 2 * place in side and 2 * place + 1 not in side}
    before = sum(2 * value.type.bytes for value in wanted)
    after = sum(value.type.bytes * (1 if value in kept or value not in makers else 2) for value in cut)
    return _between(cut, wanted, makers, owned) if after < before else set()


def _behind(wanted: Sequence[Value], makers: "dict[Value, Node]", kept: Collection[Value]) -> list[Value]:
    """Return the values that the wanted ones are made of by maps, down to what is in memory or summed."""
    found: dict[Value, None] = {}
    stack = list(wanted)
    while stack:
        value = stack.pop()
        if value in found:
            continue
        found[value] = None
        maker = makers.get(value)
        if maker is not None and value not in kept and maker.op in ("map", "view", "iota"):
            stack += maker.operands
    return list(found)


def _between(
    cut: Collection[Value], wanted: Sequence[Value], makers: "dict[Value, Node]", owned: Collection[Node]
) -> set[Node]:
    """Return the owned maps that lead from the cut to what is wanted."""
    found: set[Node] = set()
    stack = [value for value in wanted if value not in cut]
    while stack:
        maker = makers[stack.pop()]
        if maker in owned:
            found.add(maker)
        stack += [value for value in maker.operands if value not in cut and value in makers]
    return found


def is_cheap_again(nodes: Sequence[Node], readers: Sequence[Node]) -> bool:
    """Return whether readers may compute nodes where they read them: no small gathered tensor for many elements."""
    size = max(node.result.type.size for node in nodes)
    elements = max(value.type.size for node in readers for value in node.results)
    return elements <= size or not any(node.op in ("gather", "concat", "random") for node in nodes)
