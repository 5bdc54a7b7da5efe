"""Infer the layout of each tile: from operations that fix one, outwards to their neighbours.

Matrix products give their accumulators the layout of the tensor cores, reductions ask for one in which partial results
need no exchange of elements, loads and stores for one that reads whole lines.  The first layout a tile is given
stays: where another operation needs a different one, the tile is converted, or computed again if that is cheap.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from tessera.core.base.reductions import BLOCK, COLUMNS
from tessera.core.layouts import Layout, axis_bits, blocked, spread
from tessera.core.mlir import AnyOp, ir
from tessera.lowering.base.ir_walk import defining, element_of, is_tile, shape_of
from tessera.lowering.cuda.base.index_builder import width

Shape = tuple[int, ...]
Rule = Callable[[Layout], Layout]
Link = tuple[ir.Value, ir.Value, Rule]
"""A tile, one whose layout follows from its own, and how."""

_VECTOR_BYTES: Final = 16
_MOST_VALUES: Final = 64
"""32-bit words of a row that a lane holds, where there are lanes enough: the fastest of 32, 64 and 128 on an H200."""
_MOST_PAIRED_VALUES: Final = 128
"""The limit where `vector_width` is given: what lanes have registers for."""
_FULL: Final = 0.75
"""How full a tile padded to a power of two has to be for its halves to lie in different lanes."""
_LANE_BITS: Final = 5
_COLUMN_BITS: Final = (COLUMNS - 1).bit_length()
_BLOCK_BITS: Final = (BLOCK - 1).bit_length()

NOTHING: Final[Mapping[AnyOp, Sequence[int]]] = MappingProxyType({})
Padding = Callable[[Sequence[int]], Shape]
"""Extents rounded up to powers of two."""
Aligned = Callable[[AnyOp], int]
"""Bytes that an access (a load or store) may move at a time, as far as alignment goes: 1 to 16."""


def infer(
    operations: list[AnyOp], bits: int, padded: Padding, aligned: Aligned, accumulators: Mapping[AnyOp, Layout],
    parts: Mapping[AnyOp, Sequence[int]] = NOTHING, neighbours: int = 0,
) -> dict[ir.Value, Layout]:  # fmt: skip
    """Return a layout for every tile of `operations`, which run on 2 ** bits warps.

    accumulators: the layouts of the products' results
    parts: extents of what is in registers at a time, of the reductions of larger tiles
    neighbours: the most adjacent elements that a lane is given, a power of two; 0: no limit asked for
    """
    return _Inference(operations, bits, padded, aligned, parts, neighbours).run(accumulators)


def reduction_bits(
    operations: list[AnyOp], padded: Padding, aligned: Aligned,
    parts: Mapping[AnyOp, Sequence[int]] = NOTHING, neighbours: int = 0,
) -> int | None:  # fmt: skip
    """Return how many bits of warp numbers the reductions have work for; None without reductions."""
    inference = _Inference(operations, 0, padded, aligned, parts, neighbours)
    found = [inference.reduction_lanes(op) - _LANE_BITS for op in operations if op.name == "tessera.reduce"]
    return max(0, *found) if found else None


class _Inference:
    def __init__(
        self, operations: list[AnyOp], bits: int, padded: Padding, aligned: Aligned,
        parts: Mapping[AnyOp, Sequence[int]], neighbours: int,
    ) -> None:  # fmt: skip
        self.operations = operations
        self.parts = parts
        self.neighbours = neighbours
        self.bits = bits
        self.padded = padded
        self.aligned = aligned
        self.layouts: dict[ir.Value, Layout] = {}
        self.said: set[ir.Value] = set()
        self.links: dict[ir.Value, list[tuple[ir.Value, Rule]]] = {}
        self.carriers: dict[ir.Value, list[ir.Value]] = {}
        self._narrow = self._narrowest()

    def _narrowest(self) -> dict[int, int]:
        """Return the fewest elements that an access may move together, by the last extent of its tile."""
        found: dict[int, int] = {}
        for op in self.operations:
            for tile in _accessed(op):
                if shape_of(tile):
                    elements = self.aligned(op) * 8 // max(8, width(element_of(tile)))
                    last = shape_of(tile)[-1]
                    found[last] = min(elements, found.get(last, elements))
        return found

    def run(self, accumulators: Mapping[AnyOp, Layout]) -> dict[ir.Value, Layout]:
        """Return a layout for every tile."""
        for op in self.operations:
            for source, target, rule in self._links(op):
                self.links.setdefault(source, []).append((target, rule))
                if op.name in ("tessera.dot", "scf.for"):
                    self.carriers.setdefault(source, []).append(target)
        products = [op for op in self.operations if op in accumulators]
        for op in products:
            self._fix(op, accumulators[op])
        for op in products:
            self.say(op.results[0], accumulators[op])
        for op in self.operations:
            if op.name == "tessera.reduce":
                self.say(op.operands[0], self._reduction(op))
        for value in (
            *self._accessed("tessera.store"),
            *self._accessed("tessera.load"),
            *self._accessed("tessera.gather"),
            *self._all(),
        ):
            if value not in self.layouts:
                self.say(value, self._plain(value))
        return self.layouts

    def _accessed(self, name: str) -> list[ir.Value]:
        """Return the tiles that loads give or stores take."""
        return [value for op in self.operations if op.name == name for value in _accessed(op)]

    def _all(self) -> list[ir.Value]:
        return [value for op in self.operations for value in (*op.operands, *op.results) if is_tile(value.type)]

    def shape(self, value: ir.Value) -> Shape:
        """Return a tile's extents, padded."""
        return self.padded(shape_of(value))

    def say(self, value: ir.Value, layout: Layout) -> None:
        """Give `value` a layout and propagate it along the links; a value that has one keeps it."""
        waiting = [(value, layout)]
        while waiting:
            value, layout = waiting.pop()
            if value in self.said or self.layouts.get(value, layout) != layout:
                continue
            self.layouts[value] = layout
            self.said.add(value)
            waiting += [(target, rule(layout)) for target, rule in self.links.get(value, ())]

    def _fix(self, op: AnyOp, layout: Layout) -> None:
        """Give a product's result its layout, and what carries it to the next product, before others reach them.

        Another product's tiles may be linked with them by a value that both use.
        """
        waiting = list(op.results)
        while waiting:
            value = waiting.pop()
            if value in self.layouts:
                continue
            self.layouts[value] = layout
            waiting += self.carriers.get(value, ())

    # -- links between layouts --------------------------------------------------------------------------------------

    def _links(self, op: AnyOp) -> Iterator[Link]:
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

    def _same(self, ones: Sequence[ir.Value], others: Sequence[ir.Value]) -> Iterator[Link]:
        """Yield links for pairs that share one layout; a constant, which may serve several tiles, propagates none."""
        for one, other in zip(ones, others, strict=True):
            if is_tile(one.type) and not (_is_constant(one) or _is_constant(other)):
                yield one, other, _unchanged
                yield other, one, _unchanged

    def _loop(self, op: AnyOp) -> Iterator[Link]:
        inner = op.regions[0].blocks[0]
        carried = list(inner.arguments)[1:]
        yield from self._same(list(op.operands)[3:], carried)
        yield from self._same(list(list(inner.operations)[-1].operation.operands), carried)
        yield from self._same(carried, list(op.results))

    def broadcast(self, op: AnyOp) -> Iterator[Link]:
        """Link a broadcast: the repeated tile has every lane's part."""
        before, after = self.shape(op.operands[0]), self.shape(op.results[0])
        axes = [axis for axis, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
        yield op.results[0], op.operands[0], lambda layout: layout.sliced(axes)

    def reshape(self, op: AnyOp) -> Iterator[Link]:
        """Link both shapes of a tile, whose elements stay where they are."""
        before, after = self.shape(op.operands[0]), self.shape(op.results[0])
        yield op.operands[0], op.results[0], lambda layout: layout.reshaped(after)
        yield op.results[0], op.operands[0], lambda layout: layout.reshaped(before)

    def transpose(self, op: AnyOp) -> Iterator[Link]:
        """Link a tile to its transpose, but not that of a load, which would no longer read whole lines."""
        order = list(ir.DenseI64ArrayAttr(op.attributes["permutation"]))
        back = [order.index(axis) for axis in range(len(order))]
        if order[-1] != len(order) - 1 and _is_load(op.operands[0]):
            return
        yield op.operands[0], op.results[0], lambda layout: layout.transposed(order)
        yield op.results[0], op.operands[0], lambda layout: layout.transposed(back)

    def dot(self, op: AnyOp) -> Iterator[Link]:
        """Link the accumulator to the result, which stays where it is."""
        accumulators = list(op.operands)[2:]
        yield from self._same(accumulators, list(op.results)[: len(accumulators)])

    def masked_store(self, op: AnyOp) -> Iterator[Link]:
        """Link the mask to the tile: a lane has the flags of its elements."""
        yield from self._same([op.operands[1]], [op.operands[2]])

    def gather(self, op: AnyOp) -> Iterator[Link]:
        """Link the indices to the tile: a lane has those of its elements."""
        yield from self._same([op.operands[1]], [op.results[0]])

    def reduce(self, op: AnyOp) -> Iterator[Link]:
        """Link a reduction: every lane that had a part of a row has its result."""
        if is_tile(op.results[0].type) and "axis" in op.attributes:
            axis, after = ir.IntegerAttr(op.attributes["axis"]).value, self.shape(op.results[0])
            yield op.operands[0], op.results[0], lambda layout: layout.sliced([axis]).reshaped(after)

    # -- layouts asked for -------------------------------------------------------------------------------------

    def _reduced(self, op: AnyOp) -> Shape:
        """Return the extents of what a reduction has in registers at a time."""
        return self.padded(self.parts[op]) if op in self.parts else self.shape(op.operands[0])

    def _along(self, op: AnyOp) -> tuple[list[int], list[int], bool]:
        """Return the bits that a reduction adds, the others, and whether the last axis is among the first."""
        shape = self._reduced(op)
        bits = [b for a in reversed(range(len(shape))) for b in axis_bits(shape, a)]
        if "axis" not in op.attributes:
            return bits, [], True
        axis = int(ir.IntegerAttr(op.attributes["axis"]).value)
        along = axis_bits(shape, axis)
        return along, [b for b in bits if b not in along], axis == len(shape) - 1

    def _vector(self, value: ir.Value) -> int:
        """Return the log2 of how many elements of a tile loads and stores move together."""
        size = max(8, width(element_of(value)))
        last = shape_of(value)[-1] if shape_of(value) else 1
        narrow = [self._narrow[last]] if last in self._narrow else []
        wanted = [self.neighbours] if self.neighbours else []
        return max(0, min([_VECTOR_BYTES * 8 // size, *narrow, *wanted]).bit_length() - 1)

    def reduction_lanes(self, op: AnyOp) -> int:
        """Return the bits of the lanes that a reduction has work for, those of their warps included."""
        along, others, rows = self._along(op)
        return len(along) + len(others) - sum(self._held(op, along, others, rows))

    def _held(self, op: AnyOp, along: list[int], others: list[int], rows: bool) -> tuple[int, int, int]:
        """Bits of a lane's neighbouring elements, of the elements of each chain, and of the blocks in one lane.

        A chain is all in one lane.  So are the first and the second half of the blocks where the second one is mostly
        padding: otherwise half of the lanes would have little to do.
        """
        value = op.operands[0]
        chain = len(along[_COLUMN_BITS:_BLOCK_BITS])
        mostly = rows and len(along) > _BLOCK_BITS and shape_of(value)[-1] <= _FULL * (1 << len(along))
        halves = int(mostly and len(shape_of(value)) > 0 and op not in self.parts)
        words = max(1, width(element_of(value)) // 32)
        most = _MOST_PAIRED_VALUES if self.neighbours else _MOST_VALUES
        free = max(0, (most // words >> (chain + halves)).bit_length() - 1)
        neighbours = len(along[:_COLUMN_BITS]) if rows else len(others)
        # Every lane should have something to do.
        spare = max(0, len(along) + len(others) - chain - halves - self.bits - _LANE_BITS)
        return min(neighbours, free, spare, self._vector(value)), chain, halves

    def _reduction(self, op: AnyOp) -> Layout:
        """Put chains of a block of 4096 into registers and its 128 columns over the lanes, so that partials stay local.

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

    def _plain(self, value: ir.Value) -> Layout:
        return blocked(self.shape(value), 1 << self._vector(value), self.bits)


def _accessed(op: AnyOp) -> list[ir.Value]:
    """Return the tile that a load gives or a store takes."""
    if op.name in ("tessera.load", "tessera.gather"):
        return [op.results[0]]
    return [op.operands[1]] if op.name == "tessera.store" else []


def _maker(value: ir.Value) -> str:
    """Return the name of the operation that makes a value; "" for a block argument."""
    op = defining(value)
    return "" if op is None else op.name


def _is_constant(value: ir.Value) -> bool:
    return _maker(value) == "arith.constant"


def _is_load(value: ir.Value) -> bool:
    return _maker(value) == "tessera.load"


def _unchanged(layout: Layout) -> Layout:
    return layout


_RULES: Final[dict[str, Callable[[_Inference, AnyOp], Iterator[Link]]]] = {
    "tessera.broadcast": _Inference.broadcast,
    "tessera.reshape": _Inference.reshape,
    "tessera.transpose": _Inference.transpose,
    "tessera.gather": _Inference.gather,
    "tessera.reduce": _Inference.reduce,
    "tessera.dot": _Inference.dot,
    "tessera.masked_store": _Inference.masked_store,
}
