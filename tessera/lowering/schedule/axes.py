"""Axes of a group: which axes of its values are one, found by union-find over the labels of its members."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tessera.core.graph.graph import Node, Value
from tessera.core.graph.infer import labels_of, numbers

Axis = tuple[Value, int]
"""An axis of a value, by its place."""


@dataclass(slots=True)
class AxisClasses:
    """Union-find over axes of values: `find((value, 2))` is the class of the value's third axis."""

    parents: dict[Axis, Axis] = field(default_factory=dict[Axis, Axis])

    def find(self, axis: Axis) -> Axis:
        """Return what stands for the class of an axis."""
        root = axis
        while (parent := self.parents.get(root, root)) != root:
            root = parent
        while axis != root:
            self.parents[axis], axis = root, self.parents.get(axis, axis)
        return root

    def union(self, one: Axis, other: Axis) -> None:
        """Make two axes one."""
        a, b = self.find(one), self.find(other)
        if a != b:
            self.parents[b] = a


def pairs(node: Node) -> Iterable[tuple[Axis, Axis]]:
    """Yield the pairs of axes that a node makes one."""
    result = node.results[0]
    if node.op == "map":
        for operand, places in zip(node.operands, labels_of(node.attributes["axes"]), strict=True):
            yield from (((result, place), (operand, axis)) for axis, place in enumerate(places))
    elif node.op == "reduce":
        removed = numbers(node.attributes["axes"])
        kept = [axis for axis in range(len(node.operands[0].type.shape)) if axis not in removed]
        yield from (((result, place), (node.operands[0], axis)) for place, axis in enumerate(kept))
    elif node.op == "contract":
        (left, right), made = labels_of(node.attributes["labels"]), numbers(node.attributes["result"])
        places = {label: (node.operands[0], axis) for axis, label in enumerate(left)}
        for axis, label in enumerate(right):
            if label in places:
                yield places[label], (node.operands[1], axis)
            places.setdefault(label, (node.operands[1], axis))
        yield from (((result, place), places[label]) for place, label in enumerate(made))


@dataclass(frozen=True, slots=True)
class AxisSpace:
    """The axes of a set of nodes.  extents: of each; axes: of each value, its axes in order."""

    extents: tuple[int, ...]
    axes: Mapping[Value, tuple[int, ...]]


def axis_space(
    members: Sequence[Node], values: Sequence[Value], more: Iterable[tuple[Axis, Axis]] = ()
) -> AxisSpace | None:
    """Number the axes of `values`, in their order; None where two axes of one value are the same.

    Views do not tie their result to their operand: they are read through an index map.
    more: pairs of axes that are one for another reason, such as siblings'
    """
    classes = AxisClasses()
    for one, other in more:
        classes.union(one, other)
    for node in members:
        for one, other in pairs(node):
            classes.union(one, other)
    known: dict[Axis, int] = {}
    extents: list[int] = []
    axes: dict[Value, tuple[int, ...]] = {}
    for value in values:
        mine: list[int] = []
        for axis, extent in enumerate(value.type.shape):
            root = classes.find((value, axis))
            if root not in known:
                known[root] = len(extents)
                extents.append(extent)
            mine.append(known[root])
        if len(set(mine)) < len(mine):
            return None
        axes[value] = tuple(mine)
    return AxisSpace(tuple(extents), axes)
