"""Arrays in memory: single elements, and windows of them as tiles.

A window whose start is a multiple of its extents, and certainly not outside the array, is a tile of a partition view,
which the machine may load by its bulk copies.  Any other is addressed element by element: outside the array a load
gives 0 and a store does nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from tessera.core.mlir import AnyOp, ir
from tessera.lowering.analysis.divisibility import multiple_of
from tessera.lowering.base.attributes import dropped_axes, proven_axes
from tessera.lowering.base.emit import required
from tessera.lowering.cuda_tile.access_bounds import AccessBounds
from tessera.lowering.cuda_tile.builder import BOOL, INDEX, SHORT, TileBuilder
from tessera.lowering.cuda_tile.instructions import Value, padded
from tessera.lowering.cuda_tile.memory_tokens import MemoryTokens

_BYTE: Final = "i8"


@dataclass(frozen=True, slots=True)
class TileMemory:
    """An array: its address, and along each axis its extent and stride in elements.

    names: the extents as the user wrote them: numbers, or names of symbols
    """

    pointer: Value
    extents: tuple[int | Value, ...]
    strides: tuple[int | Value, ...]
    names: tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class TileWindow:
    """The part of an array that a `tessera.load` or `tessera.store` touches; `kept` are the axes that the tile has."""

    memory: TileMemory
    starts: tuple[Value, ...]
    extents: tuple[int, ...]
    kept: tuple[int, ...]
    inside: tuple[bool, ...]
    least: tuple[int | None, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """Return the shape of the tile that holds the window."""
        return padded([self.extents[axis] for axis in self.kept])


class TileAccess:
    """Loads and stores of one kernel."""

    def __init__(self, build: TileBuilder, order: MemoryTokens, positions: AccessBounds) -> None:
        self.build = build
        self.order = order
        self.positions = positions
        self._partitions: dict[tuple[Value, tuple[int, ...]], Value] = {}

    # -- tiles -------------------------------------------------------------------------------------------------

    def load(self, op: AnyOp, memory: TileMemory, starts: Sequence[Value]) -> Value:
        """`tessera.load`."""
        build, name = self.build, op.operands[0]
        window = self._window(op, memory, starts, first=1)
        token = self.order.before_read(name)
        numbers = self._tile_numbers(op, window, first=1)
        if numbers is not None:
            value, done = build.load_view(self._partition(window), numbers, token)
            value = build.reshape(value, window.shape)
        else:
            pointers, mask = self._pointers(window)
            value, done = build.load(pointers, mask, token)
        self.order.has_read(name, done)
        return self._from_memory(value, str(ir.ShapedType(op.results[0].type).element_type))

    def gather(self, op: AnyOp, memory: TileMemory, index: Value, starts: Sequence[Value]) -> Value:
        """`tessera.gather`."""
        build, name = self.build, op.operands[0]
        axis = int(ir.IntegerAttr(op.attributes["axis"]).value)
        window = self._window(op, memory, starts, first=2)
        # Along the axis of the indices the window is the array's first element, which counts as being inside.
        inside = tuple(a == axis or sure for a, sure in enumerate(window.inside))
        extents = tuple(1 if a == axis else extent for a, extent in enumerate(window.extents))
        pointers, mask = self._pointers(replace(window, extents=extents, inside=inside))
        stride = self._number(memory.strides[axis])
        distance = build.mul(index, build.splat(stride, index.shape))
        pointers = build.offset(build.broadcast(pointers, index.shape), distance)
        size = build.splat(self._number(memory.extents[axis]), index.shape)
        below = build.compare("less_than", index, size)
        known = build.bitwise("andi", below, build.compare("greater_than_or_equal", index, build.like(0, index)))
        masks = [known, None if mask is None else build.broadcast(mask, index.shape)]
        value, done = build.load(pointers, build.all_of(masks), self.order.before_read(name))
        self.order.has_read(name, done)
        return self._from_memory(value, str(ir.ShapedType(op.results[0].type).element_type))

    def store(self, op: AnyOp, memory: TileMemory, value: Value, starts: Sequence[Value]) -> None:
        """`tessera.store`."""
        build, name = self.build, op.operands[0]
        window = self._window(op, memory, starts, first=2)
        token = self.order.before_write(name)
        value = self._to_memory(value)
        numbers = self._tile_numbers(op, window, first=2)
        if numbers is not None:
            view = self._partition(window)
            done = build.store_view(view, build.reshape(value, required(view.view_type.tile)), numbers, token)
        else:
            pointers, mask = self._pointers(window)
            done = build.store(pointers, value, mask, token)
        self.order.has_written(name, done)

    def masked_store(self, op: AnyOp, memory: TileMemory, value: Value, flags: Value, starts: Sequence[Value]) -> None:
        """`tessera.masked_store`."""
        name = op.operands[0]
        pointers, mask = self._pointers(self._window(op, memory, starts, first=3))
        both = flags if mask is None else self.build.bitwise("andi", mask, flags)
        done = self.build.store(pointers, self._to_memory(value), both, self.order.before_write(name))
        self.order.has_written(name, done)

    def _window(self, op: AnyOp, memory: TileMemory, starts: Sequence[Value], first: int) -> TileWindow:
        extents = tuple(ir.DenseI64ArrayAttr(op.attributes["extents"]))
        dropped = dropped_axes(op)
        kept = tuple(axis for axis in range(len(extents)) if axis not in dropped)
        least = tuple(self.positions.least(op, v) for v in list(op.operands)[first:])
        return TileWindow(memory, tuple(starts), extents, kept, tuple(inside_flags(op)), least)

    # -- windows that are tiles of a partition -------------------------------------------------------------------

    def _tile_numbers(self, op: AnyOp, window: TileWindow, first: int) -> list[Value] | None:
        """Return the window's number along each axis among windows of its size; None where it may be none of them."""
        sources = list(op.operands)[first:]
        if not sources:
            return None
        numbers: list[Value] = []
        for axis, (source, start, extent) in enumerate(zip(sources, window.starts, window.extents, strict=True)):
            aligned = multiple_of(source) % extent == 0 and extent & (extent - 1) == 0
            if not aligned or not self.positions.begins_inside(op, source, window.memory.names[axis]):
                return None
            number = self.build.known(start)
            if number is not None:
                numbers.append(self.build.constant(int(number) // extent, INDEX))
            else:
                numbers.append(start if extent == 1 else self.build.shift_right(start, extent.bit_length() - 1))
        return numbers

    def _partition(self, window: TileWindow) -> Value:
        """Return the array cut into such windows, made once at the kernel's beginning to be a descriptor."""
        key = (window.memory.pointer, window.extents)
        if key not in self._partitions:
            memory = window.memory
            with self.build.at_beginning():
                view = self.build.view(memory.pointer, memory.extents, memory.strides)
                self._partitions[key] = self.build.partition(view, window.extents)
        return self._partitions[key]

    # -- windows anywhere --------------------------------------------------------------------------------------

    def _pointers(self, window: TileWindow) -> tuple[Value, Value | None]:
        """Return the addresses of a window's elements, and which of them are inside the array (None: all)."""
        build, shape, rank = self.build, window.shape, len(window.shape)
        pointers: Value = window.memory.pointer
        masks: list[Value | None] = []
        for axis in range(len(window.extents)):
            stride = self._number(window.memory.strides[axis])
            pointers = build.offset(pointers, build.mul(window.starts[axis], stride))
            if axis not in window.kept:
                masks.append(self._inside(window, axis))
        pointers = build.reshape(pointers, [1] * rank)
        spread = [1] * rank
        for place, axis in enumerate(window.kept):
            extent = shape[place]
            mask = self._inside_along(window, axis, extent)
            masks.append(None if mask is None else build.along(mask, place, rank))
            if extent == 1:
                continue
            spread[place] = extent
            distance = build.along(self._distances(window.memory.strides[axis], extent), place, rank)
            pointers = build.offset(build.broadcast(pointers, spread), build.broadcast(distance, spread))
        masks = [None if m is None else self._spread(m, shape) for m in masks]
        return pointers, build.all_of(masks)

    def _spread(self, mask: Value, shape: tuple[int, ...]) -> Value:
        return self.build.broadcast(mask, shape) if mask.shape else self.build.splat(mask, shape)

    def _distances(self, stride: int | Value, extent: int) -> Value:
        """How many elements of memory lie between a window's first element and each along an axis."""
        build = self.build
        if stride == 1:
            return build.iota(extent)
        steps = build.iota(extent, INDEX)
        return build.mul(steps, build.splat(self._number(stride), (extent,)))

    def _inside(self, window: TileWindow, axis: int) -> Value | None:
        """Return whether a window of extent 1 along `axis` is inside the array (an i1); None where that is proven."""
        if window.inside[axis]:
            return None
        return self._valid(window.starts[axis], window.memory.extents[axis], window.least[axis])

    def _valid(self, index: Value, extent: int | Value, least: int | None) -> Value:
        build = self.build
        below = build.compare("less_than", index, self._number(extent))
        if least is not None and least >= 0:
            return below
        return build.bitwise("andi", below, build.compare("greater_than_or_equal", index, build.constant(0, INDEX)))

    def _inside_along(self, window: TileWindow, axis: int, extent: int) -> Value | None:
        """Return which elements along an axis are inside both the window and the array (a mask); None: all."""
        build, wanted = self.build, window.extents[axis]
        if window.inside[axis]:
            if wanted == extent:
                return None
            return build.compare("less_than", build.iota(extent), build.constant(wanted, SHORT, (extent,)))
        start, least = window.starts[axis], window.least[axis]
        zero, most = build.constant(0, INDEX), build.constant(wanted, INDEX)
        left = build.sub(self._number(window.memory.extents[axis]), start)
        end = build.resize(build.smaller(build.smaller(left, zero, "maxi"), most), SHORT)
        steps = build.iota(extent)
        mask = build.compare("less_than", steps, build.splat(end, (extent,)))
        if least is not None and least >= 0:
            return mask
        first = build.smaller(build.smaller(build.sub(zero, start), zero, "maxi"), most)
        after = build.splat(build.resize(first, SHORT), (extent,))
        return build.bitwise("andi", mask, build.compare("greater_than_or_equal", steps, after))

    def _number(self, number: int | Value) -> Value:
        return self.build.constant(number, INDEX) if isinstance(number, int) else number

    # -- single elements ---------------------------------------------------------------------------------------

    def read(self, op: AnyOp, memory: TileMemory, indices: Sequence[Value]) -> Value:
        """`tessera.read`."""
        pointer, mask = self._element(op, memory, indices, first=1)
        value, done = self.build.load(pointer, mask, self.order.before_read(op.operands[0]))
        self.order.has_read(op.operands[0], done)
        return self._from_memory(value, str(op.results[0].type))

    def write(self, op: AnyOp, memory: TileMemory, value: Value, indices: Sequence[Value]) -> None:
        """`tessera.write`: once a group."""
        pointer, mask = self._element(op, memory, indices, first=2)
        token = self.order.before_write(op.operands[0])
        self.order.has_written(op.operands[0], self.build.store(pointer, self._to_memory(value), mask, token))

    def _element(
        self, op: AnyOp, memory: TileMemory, indices: Sequence[Value], first: int
    ) -> tuple[Value, Value | None]:
        build, pointer = self.build, memory.pointer
        masks: list[Value | None] = []
        sources = list(op.operands)[first:]
        proven = inside_flags(op)
        for axis, index in enumerate(indices):
            pointer = build.offset(pointer, build.mul(index, self._number(memory.strides[axis])))
            if not proven[axis]:
                masks.append(self._valid(index, memory.extents[axis], self.positions.least(op, sources[axis])))
        return pointer, build.all_of(masks)

    def _from_memory(self, value: Value, element: str) -> Value:
        """Return a bool is a byte in memory."""
        return self.build.compare("not_equal", value, self.build.like(0, value)) if element == BOOL else value

    def _to_memory(self, value: Value) -> Value:
        return self.build.resize(value, _BYTE, signed=False) if value.element == BOOL else value


def inside_flags(op: AnyOp) -> list[bool]:
    """For each axis of an access, whether it is proven to stay inside the array."""
    return proven_axes(op)
