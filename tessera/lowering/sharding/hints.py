"""Say how sums by index are wanted, which their operands cannot say: nothing is cut along the rows that are added to.

    d = scatter_add(i, g) -> f32[1000, 64];  w1[1000@tp, 64] = w[1000@tp, 64] - d    d: [1000@tp, 64]

Backwards from outputs and from what is given, through what works element by element.
"""

from collections.abc import Mapping, Sequence

from tessera.core.graph.graph import Graph, Node, Value
from tessera.core.graph.infer import labels_of
from tessera.core.placement.placement import Placement
from tessera.lowering.sharding.placements import Axes, dims_of, placed


def hints_of(
    graph: Graph, given: Mapping[Value, Placement], outputs: Sequence[Placement | None]
) -> Mapping[Value, Placement]:
    """Return the placements that users of values suggest for them; the last user's, where several do."""
    found = {value: each for value, each in zip(graph.outputs, outputs, strict=False) if each is not None}
    found.update(given)
    for node in reversed(graph.nodes):
        if node.op == "map":
            _through(node, found)
    return found


def _through(node: Node, found: dict[Value, Placement]) -> None:
    """Let a map's result, or else an operand that covers it, say how the operands lie."""
    dims: tuple[Axes, ...] | None = None
    labels = labels_of(node.attributes["axes"])
    if node.result in found:
        dims = dims_of(found[node.result])
    for axes, value in zip(labels, node.operands, strict=True):
        if dims is None and value in found and len(axes) == len(node.result.type.shape):
            mine = dims_of(found[value])
            dims = tuple(mine[axes.index(axis)] for axis in range(len(axes)))
    if dims is None:
        return
    for axes, value in zip(labels, node.operands, strict=True):
        found.setdefault(value, placed(tuple(dims[axis] for axis in axes)))
