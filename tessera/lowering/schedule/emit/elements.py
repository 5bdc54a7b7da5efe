"""Emit a group of elements: one lane an element, which reads wherever its index maps say.

before: ELEMENTS [view (windows), gather, map]
after:  i = launch.thread_id(); if i < n: out[i] = f(x[i // 7 * 2 + i % 7], ...)
"""

from collections.abc import Sequence
from math import prod
from typing import cast

from tessera.core.base.dtypes import DType, boolean, i64
from tessera.core.graph.expr import Apply, Argument, Expr, Literal, fold
from tessera.core.graph.graph import Node
from tessera.core.graph.graph import Value as Tensor
from tessera.core.graph.index_maps import Affine
from tessera.core.graph.infer import labels_of
from tessera.core.program.build import ProgramBuilder, dtype_of
from tessera.core.program.program import Value
from tessera.core.program.types import Scalar, Type
from tessera.core.schedule.plan import Group
from tessera.lowering.schedule.emit.tiles import Arrays, unravelled

Index = tuple[Value, ...]


class ElementEmitter:
    """Emits one group.  arrays: parameters of what is read and of what is written."""

    def __init__(self, builder: ProgramBuilder, group: Group, arrays: Arrays) -> None:
        self.builder, self.group, self.arrays = builder, group, arrays
        self.makers: dict[Tensor, Node] = {value: node for node in group.members for value in node.results}
        self.done: dict[tuple[Tensor, Index], Value] = {}

    def emit(self) -> None:
        """Emit the whole kernel."""
        build, shape = self.builder, self.group.extents
        lane = build.value("id", (), Scalar(i64), of="thread", axis=None)
        inside = build.compare("lt", lane, build.index(prod(shape)))

        def then() -> Sequence[Value]:
            index = unravelled(build, lane, shape, self._number)
            values = [self.element(value, index) for value in self.group.outputs]
            for value, made in zip(self.group.outputs, values, strict=True):
                build.write(self.arrays.written[value], made, index or (build.index(0),))
            return ()

        build.branch(inside, then, lambda: ())

    def element(self, value: Tensor, index: Index) -> Value:
        """Return the element of a value at `index`; computed once for one index."""
        key = (value, index)
        found = self.done.get(key)
        if found is None:
            node = self.makers.get(value)
            if node is None:
                found = self._read(value, index)
            else:
                with self.builder.at(node.span):
                    found = self._compute(node, index)
            self.done[key] = found
        return found

    # What is another thing for tiles of elements

    def _read(self, value: Tensor, index: Index) -> Value:
        """Read an element of an array; outside of it there is 0."""
        return self.builder.read(self.arrays.read[value], index or (self._number(0),))

    def _number(self, number: int) -> Value:
        """Return an index that is a number."""
        return self.builder.index(number)

    def _literal(self, number: float | bool, dtype: DType) -> Value:
        """Return a number."""
        return self.builder.constant(number, dtype)

    def _kind(self, dtype: DType) -> Type:
        """Return the type of an element."""
        return Scalar(dtype)

    # Nodes

    def _compute(self, node: Node, index: Index) -> Value:
        match node.op:
            case "map":
                axes = labels_of(node.attributes["axes"])
                operands = [
                    self.element(operand, tuple(index[place] for place in places))
                    for operand, places in zip(node.operands, axes, strict=True)
                ]
                return self._expression(node.expr, operands)
            case "view":
                return self._view(node, index)
            case "iota":
                return index[0]
            case "gather":
                return self._gather(node, index)
            case "concat":
                return self._concat(node, index)
            case other:
                raise AssertionError(other)

    def _expression(self, body: Expr, operands: Sequence[Value]) -> Value:
        build = self.builder

        def leaf(each: Argument | Literal) -> Value:
            return operands[each.number] if isinstance(each, Argument) else self._literal(each.value, each.dtype)

        def node(each: Apply, *parts: Value) -> Value:
            more = {"predicate": each.predicate} if each.predicate else {}
            return build.value(each.opcode, parts, self._kind(each.dtype), **more)

        return cast("Value", fold(body, leaf, node))

    def _view(self, node: Node, index: Index) -> Value:
        index_map, operand = node.index_map, node.operands[0]
        places = self._places(node, index)
        value = self.element(operand, places)
        if not index_map.padded or operand not in self.makers:
            return value  # outside an array there is 0
        inside = self._inside(places, operand.type.shape)
        return value if inside is None else self._or_zero(inside, value)

    def _places(self, node: Node, index: Index) -> Index:
        """Return the element of its operand that a view shows at `index`."""
        return tuple(self._place(affine, index) for affine in node.index_map.axes)

    def _place(self, affine: Affine, index: Index) -> Value:
        build = self.builder
        total: Value | None = None
        for term in affine.terms:
            part = index[term.axis]
            for opcode, number in (("floordiv", term.divisor), ("mod", term.modulus or 1), ("mul", term.scale)):
                if number != 1:
                    part = build.arithmetic(opcode, part, self._number(number))
            total = part if total is None else build.arithmetic("add", total, part)
        if total is None:
            return self._number(affine.constant)
        return total if not affine.constant else build.arithmetic("add", total, self._number(affine.constant))

    def _inside(self, places: Sequence[Value], shape: Sequence[int]) -> Value | None:
        """Return whether an index lies inside of `shape`; None for a number, which has no index."""
        build, total = self.builder, None
        for place, size in zip(places, shape, strict=True):
            for test in (
                build.compare("ge", place, self._number(0)),
                build.compare("lt", place, self._number(size)),
            ):
                total = test if total is None else build.value("and", (total, test), self._kind(boolean))
        return total

    def _or_zero(self, condition: Value, value: Value) -> Value:
        dtype = dtype_of(value)
        zero = self._literal(0.0 if dtype.is_float else 0, dtype)
        return self.builder.value("select", (condition, value, zero), self._kind(dtype))

    def _gather(self, node: Node, index: Index) -> Value:
        table, picked = node.operands
        axis, rank = cast("int", node.attributes["axis"]), len(picked.type.shape)
        place = self.builder.cast(self.element(picked, index[axis : axis + rank]), i64)
        value = self.element(table, (*index[:axis], place, *index[axis + rank :]))
        inside = self._inside([place], [table.type.shape[axis]])
        return value if inside is None or table not in self.makers else self._or_zero(inside, value)

    def _concat(self, node: Node, index: Index) -> Value:
        build, axis = self.builder, cast("int", node.attributes["axis"])
        first, total = 0, None
        for operand in node.operands:
            place = index[axis] if not first else build.arithmetic("sub", index[axis], self._number(first))
            value = self.element(operand, (*index[:axis], place, *index[axis + 1 :]))
            if total is None:
                total = value
            else:
                here = build.compare("ge", index[axis], self._number(first))
                total = build.value("select", (here, value, total), value.type)
            first += operand.type.shape[axis]
        assert total is not None
        return total
