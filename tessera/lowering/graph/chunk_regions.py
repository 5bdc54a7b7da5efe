"""Find what is linear in chunks of one axis: nodes along which an axis is independent, but for sums over it at the end.

    before: %s = contract(%x, %w) [n, v]; %p = softmax of %s; %g = contract(%p, %x) over n; %h = contract(%p, %w) [n, d]
    after:  axis n of %s: %x is taken in slices, %g is a sum of those of the slices, %h is put together of slices

Rows are wide inside of the region and narrow at its border: so a loop over slices needs memory for one of them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from tessera.core.graph.graph import Graph, Node, Value
from tessera.core.graph.infer import labels_of, numbers

WIDER: Final = 4
"""How many times wider than what enters and leaves it a region has to be."""
SUMS: Final = ("reduce", "contract")

Axis = tuple[Value, int]


@dataclass(frozen=True, slots=True)
class ChunkRegion:
    """A region of a graph that can be computed slice by slice along an axis.

    nodes: in order; along: which axis of each value that is; extent: of it
    sums: those of the nodes that sum over the axis; indices: those that are made of indices alone, for each user anew
    stacked, constants: what the nodes read from outside, with and without the axis; returned: what others read of them
    """

    nodes: tuple[Node, ...]
    along: Mapping[Value, int]
    extent: int
    sums: tuple[Node, ...]
    indices: frozenset[Node]
    stacked: tuple[Value, ...]
    constants: tuple[Value, ...]
    returned: tuple[Value, ...]


def find_region(graph: Graph, seed: Value) -> ChunkRegion | None:
    """Return the region around a value that is too large to be kept, along the first of its axes where there is one."""
    for axis in range(len(seed.type.shape)):
        region = _Finder(graph, seed, axis).run()
        if region is not None:
            return region
    return None


class _Finder:
    """Looks along one axis.  along: which axis of each value that is; torn: values of which it would be two."""

    def __init__(self, graph: Graph, seed: Value, axis: int) -> None:
        self.graph, self.seed = graph, seed
        self.extent = seed.type.shape[axis]
        self.along: dict[Value, int] = {}
        self.torn: set[Value] = set()
        self._spread((seed, axis))

    def _spread(self, start: Axis) -> None:
        """Follow the axis from node to node."""
        touching: dict[Value, list[Node]] = {}
        for node in self.graph.nodes:
            for value in dict.fromkeys((*node.operands, *node.results)):
                touching.setdefault(value, []).append(node)
        self.along[start[0]] = start[1]
        stack = [start]
        while stack:
            here = stack.pop()
            for node in touching.get(here[0], ()):
                for one, other in ties(node):
                    for there in (other,) if one == here else (one,) if other == here else ():
                        if there[0] not in self.along:
                            self.along[there[0]] = there[1]
                            stack.append(there)
                        elif self.along[there[0]] != there[1]:
                            self.torn.add(there[0])

    def run(self) -> ChunkRegion | None:
        """Return the region, or None where the axis allows of none."""
        if self.extent < 2 or not self._wide(self.seed):
            return None
        core = {n for n in self.graph.nodes if any(map(self._wide, (*n.operands, *n.results)))}
        inside = self._closed(core)
        if not all(map(self._fits, inside)) or self._reads_sums(inside):
            return None
        return self._region(self._grown(inside))

    def _region(self, inside: set[Node]) -> ChunkRegion | None:
        """Return the region of these nodes, or None where something wide would leave it, or slices are not rows."""
        read = dict.fromkeys(v for node in self.graph.nodes if node in inside for v in node.operands)
        indices = self._of_indices(value for value in read if self._maker(value) not in inside)
        nodes = tuple(node for node in self.graph.nodes if node in inside or node in indices)
        made = {value for node in nodes for value in node.results}
        outputs = set(self.graph.outputs)
        returned = tuple(
            value for node in nodes if node in inside for value in node.results
            if value in outputs or any(user not in inside for user in self.graph.users.get(value, ()))
        )  # fmt: skip
        entering = [value for value in read if value not in made]
        stacked = tuple(value for value in entering if value in self.along)
        constants = tuple(value for value in entering if value not in self.along)
        leaving = [value for value in returned if value in self.along]
        if any(self.along[value] for value in (*stacked, *leaving)) or any(map(self._wide, leaving)):
            return None
        sums = tuple(node for node in nodes if self._is_sum(node))
        return ChunkRegion(nodes, self.along, self.extent, sums, frozenset(indices), stacked, constants, returned)

    def _wide(self, value: Value) -> bool:
        """Return whether a slice of a value is about as large as one of the seed."""
        return value in self.along and value.type.size * WIDER > self.seed.type.size

    def _closed(self, core: set[Node]) -> set[Node]:
        """Return the nodes with those that stand between them."""
        behind, before = self._reached(core), self._reaching(core)
        return {node for node in self.graph.nodes if node in core or (node in behind and node in before)}

    def _reached(self, core: Iterable[Node]) -> set[Node]:
        values = {value for node in core for value in node.results}
        found: set[Node] = set()
        for node in self.graph.nodes:
            if not values.isdisjoint(node.operands):
                found.add(node)
                values.update(node.results)
        return found

    def _reaching(self, core: Iterable[Node]) -> set[Node]:
        values = {value for node in core for value in node.operands}
        found: set[Node] = set()
        for node in reversed(self.graph.nodes):
            if not values.isdisjoint(node.results):
                found.add(node)
                values.update(node.operands)
        return found

    def _is_sum(self, node: Node) -> bool:
        return node.op in SUMS and node.result not in self.along and any(v in self.along for v in node.operands)

    def _fits(self, node: Node) -> bool:
        """Return whether a slice of a node's result is made of slices of its operands, or it is a sum of slices."""
        if not self.torn.isdisjoint((*node.operands, *node.results)) or len(node.results) != 1:
            return False
        mine = [value for value in node.operands if value in self.along]
        if self._is_sum(node):
            # A product of what has the axis and of what has not would be the sum of one factor alone.
            summed = node.op == "contract" or node.attributes["kind"] == "sum"
            return summed and len(mine) == len(node.operands)
        tied = {pair for one, other in ties(node) for pair in ((one, other), (other, one))}
        here = (node.result, self.along.get(node.result, -1))
        together = all((here, (value, self.along[value])) in tied for value in mine)
        return node.op in _SLICED and here[1] >= 0 and bool(mine) and together

    def _reads_sums(self, inside: Iterable[Node]) -> bool:
        """Return whether a sum over all slices is needed inside: then one loop is not enough."""
        sums = {node for node in inside if self._is_sum(node)}
        return not self._reached(sums).isdisjoint(inside)

    def _grown(self, inside: set[Node]) -> set[Node]:
        """Take in what makes that enters, and what leaves, smaller: conversions to shorter types, most of all."""
        behind = self._reached(inside)
        users = self.graph.users
        for node in self.graph.nodes:
            operands = [value for value in node.operands if value in self.along]
            alone = all(set(users[value]) <= inside | {node} and value not in self.graph.outputs for value in operands)
            if node in inside or node not in behind or node.op not in ("map", "view") or not self._fits(node):
                continue
            ready = all(self._maker(v) in inside or self._maker(v) not in behind for v in node.operands)
            if alone and ready and node.result.type.bytes <= max(value.type.bytes for value in operands):
                inside = inside | {node}
        for node in reversed(self.graph.nodes):
            if node in inside or node.op != "map" or node in behind or not self._fits(node):
                continue
            read = set(users.get(node.result, ()))
            less = sum(value.type.bytes for value in node.operands) <= node.result.type.bytes
            if read and read <= inside and node.result not in self.graph.outputs and less:
                inside = inside | {node}
        return inside

    def _maker(self, value: Value) -> Node | None:
        return self.graph.producers.get(value)

    def _of_indices(self, read: Iterable[Value]) -> set[Node]:
        """Return the nodes that make values of indices and numbers alone: each slice makes its own."""
        chains = [_index_chain(self.graph, value) for value in read if value not in self.along]
        return {node for chain in chains for node in chain or ()}


_SLICED: Final = ("map", "reduce", "contract", "view", "gather", "concat")


def _index_chain(graph: Graph, value: Value) -> list[Node] | None:
    """Return the nodes that make a value of indices and numbers; None where it is made of anything else."""
    node = graph.producers.get(value)
    if node is None or node.op not in ("iota", "map"):
        return None
    found = [node]
    for operand in node.operands:
        inner = _index_chain(graph, operand)
        if inner is None:
            return None
        found += inner
    return found


def ties(node: Node) -> Iterator[tuple[Axis, Axis]]:
    """Yield the pairs of axes of a node's values that go through the same elements."""
    if node.op in ("map", "reduce", "contract"):
        yield from _labelled(node)
    elif node.op == "view":
        shape, result = node.operands[0].type.shape, node.result
        terms = [term.axis for affine in node.index_map.axes for term in affine.terms]
        for axis, affine in enumerate(node.index_map.axes):
            place = affine.axis
            if place is not None and terms.count(place) == 1 and result.type.shape[place] == shape[axis]:
                yield (result, place), (node.operands[0], axis)
    elif node.op == "gather":
        (table, index), axis = node.operands, int(str(node.attributes["axis"]))
        rank = len(index.type.shape)
        yield from (((node.result, axis + place), (index, place)) for place in range(rank))
        for place in range(len(table.type.shape)):
            if place != axis:
                yield (node.result, place if place < axis else place + rank - 1), (table, place)
    elif node.op == "concat":
        joined = int(str(node.attributes["axis"]))
        for operand in node.operands:
            places = range(len(operand.type.shape))
            yield from (((node.result, place), (operand, place)) for place in places if place != joined)


def _labelled(node: Node) -> Iterator[tuple[Axis, Axis]]:
    """Yield the pairs of axes of maps, sums and contractions."""
    result = node.result
    if node.op == "map":
        for operand, places in zip(node.operands, labels_of(node.attributes["axes"]), strict=True):
            yield from (((result, place), (operand, axis)) for axis, place in enumerate(places))
    elif node.op == "reduce":
        removed = numbers(node.attributes["axes"])
        kept = [axis for axis in range(len(node.operands[0].type.shape)) if axis not in removed]
        yield from (((result, place), (node.operands[0], axis)) for place, axis in enumerate(kept))
    else:
        first: dict[int, Axis] = {}
        for operand, labels in zip(node.operands, labels_of(node.attributes["labels"]), strict=True):
            for axis, label in enumerate(labels):
                if label in first:
                    yield first[label], (operand, axis)
                first.setdefault(label, (operand, axis))
        made = numbers(node.attributes["result"])
        yield from (((result, place), first[label]) for place, label in enumerate(made))
