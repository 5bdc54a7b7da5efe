"""Which layout each tile of a kernel has: given by what is hard to change, and passed on to what is near.

Products give their sums the layout of the tensor cores, reductions ask for one in which sums need no exchange of
elements, loads and stores for one that reads whole lines.  What one says first, the others follow: a tile that
somebody wants otherwise is moved, or computed again where that is cheap.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from tessera.core.base.reductions import BLOCK, COLUMNS
from tessera.core.layouts import Layout, axis_bits, blocked, spread
from tessera.core.mlir import ir
from tessera.lowering.analysis.uniformity import is_tile
from tessera.lowering.cuda.base.index_builder import width

Shape = tuple[int, ...]
Rule = Callable[[Layout], Layout]

_VECTOR_BYTES: Final = 16
_MOST_VALUES: Final = 64
"""32-bit words of a row that a lane holds, where there are lanes enough: the fastest of 32, 64 and 128 on an H200."""
_ROOM: Final = 128
"""The same where somebody says how many of them are neighbours: what lanes have registers for."""
_FULL: Final = 0.75
"""How full a tile padded to a power of two has to be for its halves to lie in different lanes."""
_LANE_BITS: Final = 5
_COLUMN_BITS: Final = (COLUMNS - 1).bit_length()
_BLOCK_BITS: Final = (BLOCK - 1).bit_length()

NOTHING: Final[Mapping[Any, Sequence[int]]] = MappingProxyType({})
Aligned = Callable[[Any], int]
"""Bytes that an access (a load or store) may move at a time, as far as alignment goes: 1 to 16."""


def infer(
    operations: list[Any], bits: int, padded: Callable[[Any], Shape], aligned: Aligned, sums: Mapping[Any, Layout],
    parts: Mapping[Any, Sequence[int]] = NOTHING, neighbours: int = 0,
) -> dict[Any, Layout]:  # fmt: skip
    """A layout for every tile in `operations`, which run on 2 ** bits warps; `sums` gives those of products.

    parts: extents of what is in registers at a time, of the reductions of larger tiles
    neighbours: the most elements side by side that a lane is given, a power of two; 0: nobody says
    """
    return _Inference(operations, bits, padded, aligned, parts, neighbours).run(sums)


def reduction_bits(
    operations: list[Any], padded: Callable[[Any], Shape], aligned: Aligned,
    parts: Mapping[Any, Sequence[int]] = NOTHING, neighbours: int = 0,
) -> int | None:  # fmt: skip
    """The bits of the warp numbers that the reductions have work for; None where there is none."""
    inference = _Inference(operations, 0, padded, aligned, parts, neighbours)
    found = [inference.reduction_lanes(op) - _LANE_BITS for op in operations if op.name == "tessera.reduce"]
    return max(0, *found) if found else None


class _Inference:
    def __init__(
        self, operations: list[Any], bits: int, padded: Callable[[Any], Shape], aligned: Aligned,
        parts: Mapping[Any, Sequence[int]], neighbours: int,
    ) -> None:  # fmt: skip
        self.operations = operations
        self.parts = parts
        self.neighbours = neighbours
        self.bits = bits
        self.padded = padded
        self.aligned = aligned
        self.layouts: dict[Any, Layout] = {}
        self.links: dict[Any, list[tuple[Any, Rule]]] = {}
        self._narrow = self._narrowest()

    def _narrowest(self) -> dict[int, int]:
        """The fewest elements that an access may move together, by the last extent of its tile."""
        found: dict[int, int] = {}
        for op in self.operations:
            for tile in _accessed(op):
                if tile.type.shape:
                    elements = self.aligned(op) * 8 // max(8, width(str(tile.type.element_type)))
                    last = tile.type.shape[-1]
                    found[last] = min(elements, found.get(last, elements))
        return found

    def run(self, sums: Mapping[Any, Layout]) -> dict[Any, Layout]:
        """A layout for every tile."""
        for op in self.operations:
            for source, target, rule in self._links(op):
                self.links.setdefault(source, []).append((target, rule))
        for op in self.operations:
            if op in sums:
                self.say(op.results[0], sums[op])
        for op in self.operations:
            if op.name == "tessera.reduce":
                self.say(op.operands[0], self._reduction(op))
        for value in (*self._accessed("tessera.store"), *self._accessed("tessera.load"), *self._all()):
            if value not in self.layouts:
                self.say(value, self._plain(value))
        return self.layouts

    def _accessed(self, name: str) -> list[Any]:
        """The tiles that loads give or stores take."""
        return [value for op in self.operations if op.name == name for value in _accessed(op)]

    def _all(self) -> list[Any]:
        return [value for op in self.operations for value in (*op.operands, *op.results) if is_tile(value.type)]

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
        elif name.startswith(("arith.", "math.")) and op.results and is_tile(op.results[0].type):
            for operand in op.operands:
                if is_tile(operand.type):
                    yield from self._same([operand], [op.results[0]])
        elif name in _RULES:
            yield from _RULES[name](self, op)

    def _same(self, ones: list[Any], others: list[Any]) -> Iterator[tuple[Any, Any, Rule]]:
        """Each pair has one layout; a constant, which may serve several tiles, has any and hands none on."""
        for one, other in zip(ones, others, strict=True):
            if is_tile(one.type) and not (_is_constant(one) or _is_constant(other)):
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
        """Elements stay where they are, with other names; not a load's, which would no longer read whole lines."""
        order = list(ir.DenseI64ArrayAttr(op.attributes["permutation"]))
        back = [order.index(axis) for axis in range(len(order))]
        if order[-1] != len(order) - 1 and _is_load(op.operands[0]):
            return
        yield op.operands[0], op.results[0], lambda layout: layout.transposed(order)
        yield op.results[0], op.operands[0], lambda layout: layout.transposed(back)

    def dot(self, op: Any) -> Iterator[tuple[Any, Any, Rule]]:
        """Sums stay where they are."""
        sums = list(op.operands)[2:]
        yield from self._same(sums, list(op.results)[: len(sums)])

    def masked_store(self, op: Any) -> Iterator[tuple[Any, Any, Rule]]:
        """A lane has the flags of its elements."""
        yield from self._same([op.operands[1]], [op.operands[2]])

    def reduce(self, op: Any) -> Iterator[tuple[Any, Any, Rule]]:
        """Every lane that had a part of a row has its sum."""
        if is_tile(op.results[0].type) and "axis" in op.attributes:
            axis, after = ir.IntegerAttr(op.attributes["axis"]).value, self.shape(op.results[0])
            yield op.operands[0], op.results[0], lambda layout: layout.sliced([axis]).reshaped(after)

    # -- what is asked for -------------------------------------------------------------------------------------

    def _reduced(self, op: Any) -> Shape:
        """Extents of what a reduction has in registers at a time."""
        return self.padded(self.parts[op]) if op in self.parts else self.shape(op.operands[0])

    def _along(self, op: Any) -> tuple[list[int], list[int], bool]:
        """The bits that a reduction adds, the others, and whether the last axis is among the first."""
        shape = self._reduced(op)
        bits = [b for a in reversed(range(len(shape))) for b in axis_bits(shape, a)]
        if "axis" not in op.attributes:
            return bits, [], True
        axis = int(ir.IntegerAttr(op.attributes["axis"]).value)
        along = axis_bits(shape, axis)
        return along, [b for b in bits if b not in along], axis == len(shape) - 1

    def _vector(self, value: Any) -> int:
        """Bits of the number of elements of a tile that loads and stores move together."""
        size = max(8, width(str(value.type.element_type)))
        last = value.type.shape[-1] if value.type.shape else 1
        narrow = [self._narrow[last]] if last in self._narrow else []
        wanted = [self.neighbours] if self.neighbours else []
        return max(0, min([_VECTOR_BYTES * 8 // size, *narrow, *wanted]).bit_length() - 1)

    def reduction_lanes(self, op: Any) -> int:
        """The bits of the lanes that a reduction has work for, those of their warps included."""
        along, others, rows = self._along(op)
        return len(along) + len(others) - sum(self._held(op, along, others, rows))

    def _held(self, op: Any, along: list[int], others: list[int], rows: bool) -> tuple[int, int, int]:
        """Bits of a lane's neighbouring elements, of the elements of each chain, and of the blocks in one lane.

        A chain is all in one lane.  So are the first and the second half of the blocks where the second one is mostly
        padding: otherwise half of the lanes would have little to do.
        """
        value = op.operands[0]
        chain = len(along[_COLUMN_BITS:_BLOCK_BITS])
        mostly = rows and len(along) > _BLOCK_BITS and value.type.shape[-1] <= _FULL * (1 << len(along))
        halves = int(mostly and len(value.type.shape) > 0 and op not in self.parts)
        words = max(1, width(str(value.type.element_type)) // 32)
        most = _ROOM if self.neighbours else _MOST_VALUES
        room = max(0, (most // words >> (chain + halves)).bit_length() - 1)
        neighbours = len(along[:_COLUMN_BITS]) if rows else len(others)
        # Every lane of the team should have something to do.
        spare = max(0, len(along) + len(others) - chain - halves - self.bits - _LANE_BITS)
        return min(neighbours, room, spare, self._vector(value)), chain, halves

    def _reduction(self, op: Any) -> Layout:
        """Chains of a block of 4096 in registers, its 128 columns over the lanes, so that sums are local.

        Along the last axis, lanes have neighbouring columns; along another, whole lines of the last axis, and what is
        added last of a chain's rows lies in other warps.
        """
        shape = self._reduced(op)
        along, others, rows = self._along(op)
        vector, _, halves = self._held(op, along, others, rows)
        columns, chain, blocks = along[:_COLUMN_BITS], along[_COLUMN_BITS:_BLOCK_BITS], along[_BLOCK_BITS:]
        near = columns if rows else others
        upper = [blocks.pop()] if halves else []
        order = [("registers", b) for b in (*near[:vector], *chain, *upper)]
        far = [*others, *blocks] if rows else [*columns, *blocks]
        order += [("lanes", b) for b in (*near[vector:], *far)]
        return spread(shape, order, self.bits)

    def _plain(self, value: Any) -> Layout:
        return blocked(self.shape(value), 1 << self._vector(value), self.bits)


def _accessed(op: Any) -> list[Any]:
    """The tile that a load gives or a store takes."""
    if op.name == "tessera.load":
        return [op.results[0]]
    return [op.operands[1]] if op.name == "tessera.store" else []


def _is_constant(value: Any) -> bool:
    return not isinstance(value.owner, ir.Block) and value.owner.name == "arith.constant"


def _is_load(value: Any) -> bool:
    return not isinstance(value.owner, ir.Block) and value.owner.operation.name == "tessera.load"


def _unchanged(layout: Layout) -> Layout:
    return layout


_RULES: Final[dict[str, Callable[[_Inference, Any], Iterator[tuple[Any, Any, Rule]]]]] = {
    "tessera.broadcast": _Inference.broadcast,
    "tessera.reshape": _Inference.reshape,
    "tessera.transpose": _Inference.transpose,
    "tessera.reduce": _Inference.reduce,
    "tessera.dot": _Inference.dot,
    "tessera.masked_store": _Inference.masked_store,
}
