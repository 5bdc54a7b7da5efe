"""Compute a region of a graph slice by slice along an axis, so that what is wide in it needs memory for one slice.

    before: %s = contract(%x, %w); %d = f(%s); %g = contract(%d, %x) over n; %h = contract(%d, %w)
    after:  %g, %h = loop(%w, 0, slices of %x) {%s = ...; %d = f(%s); %g + contract(%d, %x); contract(%d, %w)}

A cross entropy behind a product is such a region, and so is its gradient, as all of it is linear in one number, the
loss's cotangent: the logits of all rows are never in memory.  Sums over the axis are those of the slices, added in
order to what is carried: in the type that they have, or where the program permits it (`fold`) in that of the result.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Apply, Argument, apply, cast
from tessera.core.graph.graph import Graph, Node, Origin, Tensor, Value
from tessera.core.graph.infer import infer, labels_of, numbers
from tessera.core.graph.rewrite import own_outputs, without_dead_code
from tessera.lowering.graph.chunk_regions import ChunkRegion, find_region

RULE: Final = "chunk"
LARGE: Final = 256 * 2**20
"""Bytes of a value in memory from which on it is not kept, where slices do."""
SLICES: Final = 64 * 2**20
"""Bytes of the widest value of a slice, about."""
TRIPS: Final = 16
"""Most slices, about: sums are read and written once a slice."""


def chunk(graph: Graph, stored: Mapping[Value, int], *, shorter: bool = False) -> Graph:
    """Return the graph with a loop over slices in the place of what is large; itself where nothing is.

    stored: bytes of values that lie in memory, as the graph is: where they are rounded first, those are fewer
    shorter: whether sums may be carried in a shorter type, if that is the one that they are rounded to in the end
    """
    for seed, size in stored.items():
        if not is_large(size) or seed not in graph.producers:
            continue
        region = find_region(graph, seed)
        count = 0 if region is None else slice_of(region.extent, size)
        if region is not None and count:
            return chunk(_Chunked(graph, region, count, shorter=shorter).run(), stored, shorter=shorter)
    return graph


def is_large(size: int) -> bool:
    """Return whether a value of so many bytes is not kept in memory."""
    return size >= LARGE


def slice_of(extent: int, size: int) -> int:
    """Return how many elements of an axis a slice has: a divisor, of 128 elements if there is one; 0: none fits.

    size: bytes of the widest value
    """
    most = max(SLICES * extent // size, -(-extent // TRIPS), 1)
    divisors = [each for each in range(1, min(most, extent // 2) + 1) if extent % each == 0]
    best = max([each for each in divisors if each % 128 == 0] or divisors, default=0)
    return best if best * 4 >= min(most, extent) else 0


class _Chunked:
    """Builds the graph.

    readers: of sums, the maps that alone read them, and round or turn them: sums are carried in the order of their axes
    rounded: the sums that are carried as they are rounded; sums: what is carried for each
    """

    def __init__(self, graph: Graph, region: ChunkRegion, count: int, *, shorter: bool) -> None:
        self.graph, self.region, self.count = graph, region, count
        readers = {node: self._reader(node) for node in region.sums}
        self.readers: dict[Node, Node] = {node: user for node, user in readers.items() if user is not None}
        self.rounded = {node for node, user in self.readers.items() if shorter and _rounds(user)}
        self.sums = [self._carried(node) for node in region.sums]
        self.slices = [value for value in region.returned if value in region.along]

    def _reader(self, node: Node) -> Node | None:
        """Return the map that alone reads a sum, and nothing else."""
        users = self.graph.users.get(node.result, ())
        if len(users) != 1 or node.result in self.graph.outputs:
            return None
        (user,) = users
        alone = user.op == "map" and len(user.operands) == 1
        return user if alone and user.result.type.size == node.result.type.size else None

    def _carried(self, node: Node) -> Value:
        """Return what is carried for a sum: the sum in the order of its reader's axes, or what that makes of it."""
        if node in self.rounded:
            return self.readers[node].result
        shape = [node.result.type.shape[axis] for axis in self._order(node)]
        return replace(node.result, type=Tensor(node.result.type.dtype, tuple(shape)))

    def _order(self, node: Node) -> list[int]:
        """Return which axis of a sum each axis of what is carried is."""
        places = range(len(node.result.type.shape))
        if node not in self.readers:
            return list(places)
        (axes,) = labels_of(self.readers[node].attributes["axes"])
        return [axes.index(place) for place in places]

    def run(self) -> Graph:
        """Return the graph with the loop in the place of the region."""
        region = self.region
        body = self._body()
        builder = GraphBuilder(max(self.graph.next_ident, body.next_ident))
        rounding = [self.readers[node] for node in region.sums if node in self.rounded]
        gone = {node for node in (*region.nodes, *rounding) if node not in region.indices}
        behind = self._behind(gone)
        builder.nodes += [node for node in self.graph.nodes if node not in gone and node not in behind]
        values = self._loop(builder, body)
        for node in self.graph.nodes:
            if node in behind and node not in gone:
                builder.nodes.append(replace(node, operands=tuple(values.get(value, value) for value in node.operands)))
        outputs = tuple(values.get(value, value) for value in self.graph.outputs)
        return without_dead_code(replace(self.graph, nodes=tuple(builder.nodes), outputs=outputs))

    def _behind(self, gone: set[Node]) -> set[Node]:
        """Return the nodes that need a result of the region."""
        made = {value for node in gone for value in node.results}
        found: set[Node] = set()
        for node in self.graph.nodes:
            if not made.isdisjoint(node.operands):
                found.add(node)
                made.update(node.results)
        return found

    def _loop(self, builder: GraphBuilder, body: Graph) -> Mapping[Value, Value]:
        """Append the loop; return what stands for the values that the region returns."""
        region, trips = self.region, self.region.extent // self.count
        first = region.nodes[0]
        with builder.within(Origin(RULE, tuple(n.ident for n in region.nodes), _common(region.nodes)), first.span):
            begin = [builder.full(0.0 if v.type.dtype.is_float else 0, v.type.dtype, v.type.shape) for v in self.sums]
            stacked = [builder.reshape(v, (trips, self.count, *v.type.shape[1:])) for v in region.stacked]
            results = builder.add_all(
                "loop", (*region.constants, *begin, *stacked), (body,), trips=trips, constants=len(region.constants),
                carried=len(begin), reverse=False, recompute=False,
            )  # fmt: skip
            made = dict(zip(self.slices, results[len(begin) :], strict=True))
            values = {old: builder.reshape(new, old.type.shape) for old, new in made.items()}
            for node, carried, new in zip(region.sums, self.sums, results[: len(begin)], strict=True):
                if node in self.rounded:
                    values[carried] = new
                else:
                    order = self._order(node)
                    values[node.result] = builder.transpose(new, [order.index(axis) for axis in range(len(order))])
        return values

    # The body

    def _body(self) -> Graph:
        """Return the graph of one slice."""
        region, builder = self.region, GraphBuilder(self.graph.next_ident)
        values = {value: replace(value) for value in region.constants}
        values |= {value: replace(value, type=self._sliced(value)) for value in region.stacked}
        carried = [replace(value) for value in self.sums]
        for node in region.nodes:
            made = self._node(node, [values[operand] for operand in node.operands])
            if node in region.indices:
                builder.append(made)  # a number of its own: the node itself may stay where it is
            else:
                builder.nodes.append(made)
            values[node.result] = made.result
        sums = [self._added(builder, node, values[node.result], into)
                for node, into in zip(region.sums, carried, strict=True)]  # fmt: skip
        inputs = [*(values[v] for v in region.constants), *carried, *(values[v] for v in region.stacked)]
        outputs = [*sums, *(values[v] for v in self.slices)]
        return own_outputs(builder.finish("slice", inputs, outputs, self.graph.source, self.graph.span))

    def _sliced(self, value: Value) -> Tensor:
        """Return the type of a slice of a value."""
        if value not in self.region.along:
            return value.type
        shape = list(value.type.shape)
        shape[self.region.along[value]] = self.count
        return Tensor(value.type.dtype, tuple(shape))

    def _node(self, node: Node, operands: Sequence[Value]) -> Node:
        """Return a node of the body."""
        kind, attributes, body = self._sliced(node.result), dict(node.attributes), node.body
        if node.op == "map":
            attributes["shape"] = kind.shape
        elif node.op == "view":
            body = replace(node.index_map, shape=kind.shape)
        elif node.op == "contract" and node in self.region.sums:
            mine = numbers(attributes["result"])
            attributes["result"] = tuple(mine[axis] for axis in self._order(node))
        kind = infer(node.op, [value.type for value in operands], attributes, body)
        return replace(
            node, operands=tuple(operands), results=(replace(node.result, type=kind),), attributes=attributes, body=body
        )

    def _added(self, builder: GraphBuilder, node: Node, part: Value, carried: Value) -> Value:
        """Add the sum of a slice to what is carried."""
        with builder.within(Origin(RULE, (node.ident,), node.origin.composite), node.span):
            wide, kind = part.type.dtype, carried.type.dtype
            total = apply("add", cast(Argument(0, kind), wide), Argument(1, wide))
            axes = [tuple(range(len(carried.type.shape)))] * 2
            if node.op != "contract":
                order = self._order(node)
                axes[1] = tuple(order.index(axis) for axis in range(len(order)))
            return builder.map(cast(total, kind), (carried, part), axes, carried.type.shape, carried.name)


def _rounds(node: Node) -> bool:
    """Return whether a node only converts floats to a shorter type."""
    if node.op != "map" or not isinstance(node.expr, Apply) or node.expr.opcode != "cast":
        return False
    (operand,) = node.expr.operands
    kinds = operand.dtype, node.expr.dtype
    return isinstance(operand, Argument) and all(each.is_float for each in kinds) and kinds[1].bits < kinds[0].bits


def _common(nodes: Sequence[Node]) -> tuple[str, ...]:
    """Return the names that the composites of all nodes begin with."""
    first, *others = (node.origin.composite for node in nodes)
    count = 0
    while count < len(first) and all(each[: count + 1] == first[: count + 1] for each in others):
        count += 1
    return first[:count]
