"""A builder for derived nodes: equal nodes are one, numbers go into the expressions that use them."""

from collections.abc import Mapping, Sequence
from typing import Final

from tessera.core.base.dtypes import DType
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Argument, Expr, Literal, arguments
from tessera.core.graph.expr import cast as cast_expr
from tessera.core.graph.graph import Body, Graph, Node, Value
from tessera.core.graph.index_maps import IndexMap
from tessera.core.graph.infer import infer
from tessera.core.program.program import Attribute
from tessera.lowering.autodiff.algebra import add, convert, replaced, wide

MOST_ADDENDS: Final = 32
"""Addends of one map."""


class DerivedBuilder(GraphBuilder):
    """Appends to the nodes of a graph, which stay as they are.

    A node that equals an earlier one is that one; nodes are pure.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph.next_ident)
        self._known: dict[object, Value] = {}
        self._numbers: dict[Value, Literal] = {}
        self.nodes.extend(graph.nodes)
        for node in graph.nodes:
            self._note(node)

    def _note(self, node: Node) -> None:
        if len(node.results) != 1 or node.graphs:
            return
        self._known.setdefault(_key(node.op, node.operands, node.body, node.attributes), node.result)
        if node.op == "map" and isinstance(node.body, Literal):
            self._numbers[node.result] = node.body

    def append(self, node: Node) -> None:
        """Append a node that is ready."""
        super().append(node)
        self._note(self.nodes[-1])

    def add(
        self, op: str, operands: Sequence[Value], body: Body = None, name: str = "", **attributes: Attribute
    ) -> Value:
        """Append one node and return its result, or that of an equal node."""
        if isinstance(body, IndexMap) and not body.padded and operands[0] in self._numbers:
            number = self._numbers[operands[0]]
            return self.full(number.value, number.dtype, body.shape)
        known = self._known.get(_key(op, operands, body, attributes))
        return super().add(op, operands, body, name, **attributes) if known is None else known

    def like(self, node: Node, operands: Sequence[Value]) -> Value:
        """Append a node of other operands that is like `node` otherwise."""
        known = self._known.get(_key(node.op, operands, node.body, node.attributes))
        if known is not None:
            return known
        kind = infer(node.op, [value.type for value in operands], node.attributes, node.body)
        result = Value(kind, "", self.span)
        attributes, origin = dict(node.attributes), self.origin
        self.append(Node(node.op, tuple(operands), (result,), attributes, node.body, origin=origin, span=self.span))
        return result

    def expression(
        self, body: Expr, operands: Sequence[Value], axes: Sequence[Sequence[int]], shape: Sequence[int]
    ) -> Value:
        """Apply `body`, simplified: operands that it does not need are none, and each is there once."""
        table: dict[Expr, Expr] = {}
        kept: dict[tuple[Value, tuple[int, ...]], int] = {}
        numbers = {
            Argument(number, value.type.dtype): self._numbers[value]
            for number, value in enumerate(operands)
            if value in self._numbers
        }
        body = replaced(body, {**numbers})
        for number in arguments(body):
            place = kept.setdefault((operands[number], tuple(axes[number])), len(kept))
            dtype = operands[number].type.dtype
            table[Argument(number, dtype)] = Argument(place, dtype)
        body = replaced(body, table)
        if isinstance(body, Argument):
            ((value, places),) = kept
            if places == tuple(range(len(shape))):
                return value
        return self.map(body, [value for value, _ in kept], [places for _, places in kept], shape)

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """Return the same elements in row-major order in another shape."""
        return value if tuple(shape) == value.type.shape else super().reshape(value, shape)

    def total(self, values: Sequence[Value], dtype: DType) -> Value:
        """Add values of one shape, the first two first, in f32 or f64, rounded once to `dtype`.

        Long sums are several maps, each going on from the one before: the same bits.
        """
        if len(values) == 1 and values[0].type.dtype == dtype:
            return values[0]
        while len(values) > MOST_ADDENDS:
            values = [self.total(values[:MOST_ADDENDS], wide(dtype)), *values[MOST_ADDENDS:]]
        shape = values[0].type.shape
        body, *rest = (convert(Argument(n, v.type.dtype), wide(dtype)) for n, v in enumerate(values))
        for each in rest:
            body = add(body, each)
        everywhere = tuple(range(len(shape)))
        return self.expression(cast_expr(body, dtype), values, [everywhere] * len(values), shape)

    def widened(self, value: Value) -> Value:
        """Return `value` in the dtype in which sums of it are made: f32 for shorter floats."""
        return self.cast(value, wide(value.type.dtype))


def _key(op: str, operands: Sequence[Value], body: Body, attributes: Mapping[str, Attribute]) -> object:
    return op, tuple(operands), body, tuple(sorted(attributes.items()))
