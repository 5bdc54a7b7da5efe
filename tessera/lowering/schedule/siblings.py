"""Find sibling contractions: products of one array with several others, whose sums are one loop with several sums.

before: g = contract(x, w) over k; u = contract(x, v) over l; y = map(g, u)
after:  the axes k and l are one: a block of x is read once, and multiplied with a block of w and with one of v

Each of the sums is added in the order that it has alone, so no bit changes.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from tessera.core.graph.graph import Node, Value
from tessera.core.graph.index_maps import IndexMap
from tessera.core.schedule.refusals import refused
from tessera.lowering.schedule.axes import Axis, AxisClasses, pairs

MOST_SIBLINGS: Final = 4
"""The most products of one loop, whose sums share the registers that those of one product have."""

Place = tuple[Value, IndexMap | None]


def sibling_axes(nodes: Sequence[Node]) -> list[tuple[Axis, Axis]]:
    """Return the pairs of axes that become one when sibling contractions among `nodes` are summed in one loop.

    Contractions are siblings where their operands come from memory, and where they read one array at the same elements
    but for the axes that they sum over, make elements that meet, and compute in the same way.
    """
    places = _places(nodes)
    anchors = [node for node in nodes if node.op in ("contract", "reduce")]
    contracts = [node for node in anchors if node.op == "contract" and all(each in places for each in node.operands)]
    # Inside of a cascade the loop is that of another reduction, and several products leave its sums no registers.
    if len(contracts) < 2 or contracts != anchors:
        return []
    classes = AxisClasses()
    for node in nodes:
        if node.op != "view":
            for one, other in pairs(node):
                classes.union(one, other)
    families: dict[object, list[tuple[Node, Value]]] = {}
    for node in contracts:
        result = tuple(classes.find((node.result, axis)) for axis in range(len(node.result.type.shape)))
        alike = (result, tuple(value.type.dtype for value in node.operands), _manner(node))
        for side, value in enumerate(node.operands):
            mine = [classes.find((value, axis)) for axis in range(len(value.type.shape))]
            kept = tuple(each if each in result else None for each in mine)
            families.setdefault((side, places[value], kept, alike), []).append((node, value))
    found: list[tuple[Axis, Axis]] = []
    for family in families.values():
        if len(family) > MOST_SIBLINGS:
            refused("siblings", *(node for node, _ in family), detail=f"{len(family)}, and at most {MOST_SIBLINGS}")
        (_, first), *others = family[:MOST_SIBLINGS]
        found += (((first, axis), (other, axis)) for _, other in others for axis in range(len(first.type.shape)))
    return found


def _manner(node: Node) -> tuple[object, ...]:
    """Return how a contraction computes: in which types, and in which blocks where the user says so."""
    return tuple(node.attributes[name] for name in ("accumulate", "compute", "exact", "tile_shape"))


def _places(nodes: Sequence[Node]) -> Mapping[Value, Place]:
    """Return what is read from memory: the array of each value, and the view of it, if that is not all of it."""
    made = {value for node in nodes for value in node.results}
    found: dict[Value, Place] = {value: (value, None) for node in nodes for value in node.operands if value not in made}
    for node in nodes:
        if node.op == "view" and node.operands[0] not in made:
            whole = node.index_map.is_identity(node.operands[0].type.shape)
            found[node.result] = (node.operands[0], None if whole else node.index_map)
    return found
