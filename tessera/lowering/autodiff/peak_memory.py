"""The memory that a graph needs while it runs node by node, as its values lie in memory without fusion."""

from tessera.core.graph.graph import Graph, Value


def peak_memory(graph: Graph) -> int:
    """Return the greatest number of bytes that are alive at once.

    Inputs and outputs belong to the caller, so inputs are alive from the start to the end, and outputs from where they
    are made.  A view is no memory of its own: it keeps alive what it reads, unless it is an output.  What a node reads
    and what it makes are alive together.
    """
    places = _places(graph)
    last: dict[Value, int] = {}
    for position, node in enumerate(graph.nodes):
        for value in node.operands:
            last[places[value]] = position
    forever = {*graph.inputs, *graph.outputs, *(places[value] for value in graph.outputs)}
    ends: dict[int, list[Value]] = {}
    for value, position in last.items():
        ends.setdefault(position, []).append(value)
    alive = sum(value.type.bytes for value in graph.inputs)
    peak = alive
    for position, node in enumerate(graph.nodes):
        made = [value for value in node.results if places[value] is value]
        alive += sum(value.type.bytes for value in made)
        peak = max(peak, alive)
        dead = [value for value in made if value not in last]
        alive -= sum(v.type.bytes for v in (*dead, *ends.get(position, ())) if v not in forever)
    return peak


def _places(graph: Graph) -> dict[Value, Value]:
    """Return the value in whose memory each value lies."""
    outputs = frozenset(graph.outputs)
    places: dict[Value, Value] = {value: value for value in graph.inputs}
    for node in graph.nodes:
        for value in node.results:
            aliased = node.op == "view" and value not in outputs
            places[value] = places[node.operands[0]] if aliased else value
    return places
