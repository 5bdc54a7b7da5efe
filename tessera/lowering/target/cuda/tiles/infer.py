"""Which layout each tile of a kernel has: given by what is hard to change, and passed on to what is near.

Products give their sums the layout of the tensor cores, reductions ask for one in which sums need no exchange of
elements, loads and stores for one that reads whole lines.  What one says first, the others follow: a tile that
somebody wants otherwise is moved, or computed again where that is cheap.
"""

from collections.abc import Callable, Iterator
from typing import Any, Final

from tessera.core.layouts import Layout, accumulator, axis_bits, blocked, spread
from tessera.core.mlir import ir
from tessera.core.reductions import BLOCK, COLUMNS
from tessera.lowering.target.cuda.build import width
from tessera.lowering.target.cuda.uniformity import is_tile

Shape = tuple[int, ...]
Rule = Callable[[Layout], Layout]

_VECTOR_BYTES: Final = 16
_MOST_VALUES: Final = 64
_LANE_BITS: Final = 5


def infer(block: Any, operations: list[Any], bits: int, padded: Callable[[Any], Shape]) -> dict[Any, Layout]:
    """A layout for every tile in `operations`, which run on 2 ** bits warps."""
    return _Inference(operations, bits, padded).run(block)


class _Inference:
    def __init__(self, operations: list[Any], bits: int, padded: Callable[[Any], Shape]) -> None:
        self.operations = operations
        self.bits = bits
        self.padded = padded
        self.layouts: dict[Any, Layout] = {}
        self.links: dict[Any, list[tuple[Any, Rule]]] = {}

    def run(self, block: Any) -> dict[Any, Layout]:
        del block
        for op in self.operations:
            for source, target, rule in self._links(op):
                self.links.setdefault(source, []).append((target, rule))
        for op in self.operations:
            if op.name == "tessera.dot":
                shape = self.shape(op.results[0])
                self.say(op.results[0], accumulator((shape[0], shape[1]), self.bits))
        for op in self.operations:
            if op.name == "tessera.reduce":
                self.say(op.operands[0], self._reduction(op))
        for name, number in (("tessera.store", 1), ("tessera.load", None)):
            for op in self.operations:
                if op.name == name:
                    self.say(op.results[0] if number is None else op.operands[number], self._blocked(op, number))
        for op in self.operations:
            for value in (*op.operands, *op.results):
                if is_tile(value.type):
                    self.say(value, self._plain(value))
        return self.layouts

    def shape(self, value: Any) -> Shape:
        """A tile's extents, padded."""
        return self.padded(value.type.shape)

    def say(self, value: Any, layout: Layout) -> None:
        """Give `value` a layout, and what is linked to it one that follows; what has one keeps it."""
        waiting = [(value, layout)]
        while waiting:
            value, layout = waiting.pop()
            if value in self.layouts:
                continue
            self.layouts[value] = layout
            waiting += [(target, rule(layout)) for target, rule in self.links.get(value, ())]

    # -- who follows whom --------------------------------------------------------------------------------------

    def _links(self, op: Any) -> Iterator[tuple[Any, Any, Rule]]:
        name = str(op.name)
        if name == "scf.for":
            yield from self._loop(op)
        elif name == "scf.if":
            for region in op.regions:
                for inner in region.blocks:
                    yield from self._same(list(list(inner.operations)[-1].operation.operands), list(op.results))
        elif name == "tessera.dot":
            sums = list(op.operands)[2:]
            yield from self._same(sums, list(op.results)[: len(sums)])
        elif name.startswith(("arith.", "math.")) and op.results and is_tile(op.results[0].type):
            for operand in op.operands:
                if is_tile(operand.type):
                    yield from self._same([operand], [op.results[0]])
        elif name in _MOVES:
            yield from _MOVES[name](self, op)

    def _same(self, ones: list[Any], others: list[Any]) -> Iterator[tuple[Any, Any, Rule]]:
        for one, other in zip(ones, others, strict=True):
            if is_tile(one.type):
                yield one, other, _unchanged
                yield other, one, _unchanged

    def _loop(self, op: Any) -> Iterator[tuple[Any, Any, Rule]]:
        inner = op.regions[0].blocks[0]
        carried = list(inner.arguments)[1:]
        yield from self._same(list(op.operands)[3:], carried)
        yield from self._same(list(list(inner.operations)[-1].operation.operands), carried)
        yield from self._same(carried, list(op.results))

    def broadcast(self, op: Any) -> Iterator[tuple[Any, Any, Rule]]:
        """The repeated tile has every lane's part."""
        before, after = self.shape(op.operands[0]), self.shape(op.results[0])
        axes = [axis for axis, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
        yield op.results[0], op.operands[0], lambda layout: layout.sliced(axes)

    def reshape(self, op: Any) -> Iterator[tuple[Any, Any, Rule]]:
        """Elements stay where they are."""
        before, after = self.shape(op.operands[0]), self.shape(op.results[0])
        yield op.operands[0], op.results[0], lambda layout: layout.reshaped(after)
        yield op.results[0], op.operands[0], lambda layout: layout.reshaped(before)

    def transpose(self, op: Any) -> Iterator[tuple[Any, Any, Rule]]:
        """Elements stay where they are, with other names."""
        order = list(ir.DenseI64ArrayAttr(op.attributes["permutation"]))
        back = [order.index(axis) for axis in range(len(order))]
        yield op.operands[0], op.results[0], lambda layout: layout.transposed(order)
        yield op.results[0], op.operands[0], lambda layout: layout.transposed(back)

    def reduce(self, op: Any) -> Iterator[tuple[Any, Any, Rule]]:
        """Every lane that had a part of a row has its sum."""
        if is_tile(op.results[0].type) and "axis" in op.attributes:
            axis, after = ir.IntegerAttr(op.attributes["axis"]).value, self.shape(op.results[0])
            yield op.operands[0], op.results[0], lambda layout: layout.sliced([axis]).reshaped(after)

    # -- what is asked for -------------------------------------------------------------------------------------

    def _reduction(self, op: Any) -> Layout:
        """Chains of a block of 4096 in registers, its 128 columns over the lanes, so that sums are local."""
        value = op.operands[0]
        shape = self.shape(value)
        if "axis" in op.attributes:
            axis = int(ir.IntegerAttr(op.attributes["axis"]).value)
            along = axis_bits(shape, axis)
        else:
            axis, along = len(shape) - 1, [b for a in reversed(range(len(shape))) for b in axis_bits(shape, a)]
        others = [b for a in reversed(range(len(shape))) for b in axis_bits(shape, a) if b not in along]
        if axis != len(shape) - 1:
            return self._column_reduction(shape, along, others, value)
        columns = (COLUMNS - 1).bit_length()
        chain = along[columns : (BLOCK - 1).bit_length()]
        size = width(str(value.type.element_type))
        room = max(0, (_MOST_VALUES >> len(chain)).bit_length() - 1)
        vector = min(len(along), room, (_VECTOR_BYTES * 8 // size).bit_length() - 1)
        order = [("registers", b) for b in along[:vector]]
        order += [("lanes", b) for b in along[vector:columns]]
        order += [("registers", b) for b in chain]
        order += [("warps", b) for b in (*along[(BLOCK - 1).bit_length() :], *others)]
        return spread(shape, order, self.bits)

    def _column_reduction(self, shape: Shape, along: list[int], others: list[int], value: Any) -> Layout:
        """Lanes side by side along the last axis; what is added, in registers and over warps."""
        size = width(str(value.type.element_type))
        vector = min(len(others), (_VECTOR_BYTES * 8 // size).bit_length() - 1, 2)
        order = [("registers", b) for b in others[:vector]] + [("lanes", b) for b in others[vector : vector + 5]]
        order += [("warps", b) for b in others[vector + 5 :]] + [("registers", b) for b in along]
        return spread(shape, order, self.bits)

    def _blocked(self, op: Any, number: int | None) -> Layout:
        value = op.results[0] if number is None else op.operands[number]
        return self._plain(value)

    def _plain(self, value: Any) -> Layout:
        shape = self.shape(value)
        return blocked(shape, max(1, _VECTOR_BYTES * 8 // max(8, width(str(value.type.element_type)))), self.bits)


def _unchanged(layout: Layout) -> Layout:
    return layout


_MOVES: Final[dict[str, Callable[[_Inference, Any], Iterator[tuple[Any, Any, Rule]]]]] = {
    "tessera.broadcast": _Inference.broadcast,
    "tessera.reshape": _Inference.reshape,
    "tessera.transpose": _Inference.transpose,
    "tessera.reduce": _Inference.reduce,
}
