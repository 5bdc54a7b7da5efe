"""Tile operations of Tile IR as loops over vectors: one class that the group's code asks for each of them.

A tile value is *virtual* (its elements are computed where they are used) or in *scratch* (kept in the thread's
arena), as the pass `tile-place-values` decided (attribute `tessera.place`; without it, values are kept).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from tessera.core.mlir import AnyOp, Index, ir
from tessera.lowering.base.emit import Emitter
from tessera.lowering.base.structured_control import LANES, padded
from tessera.lowering.cpu.base.cache_model import CacheModel
from tessera.lowering.cpu.base.emit_context import CpuTileContext
from tessera.lowering.cpu.tile.blocking import choose
from tessera.lowering.cpu.tile.combine import Combine
from tessera.lowering.cpu.tile.destinations import Gathered, MemoryBlock, Scratch
from tessera.lowering.cpu.tile.dot import Dot, accumulator_element, as_element, turned
from tessera.lowering.cpu.tile.elementwise import element_type, emit_elementwise, without_traps
from tessera.lowering.cpu.tile.loop_nests import copy
from tessera.lowering.cpu.tile.memory import Memory, bytes_of
from tessera.lowering.cpu.tile.operands import (
    Arange,
    Computed,
    Flat,
    Frame,
    Function,
    Moved,
    Source,
    Splat,
    vector_axis,
)
from tessera.lowering.cpu.tile.reduce import Reduction
from tessera.lowering.math.float_conversions import convert

UNSIGNED: Final = "tessera.unsigned"
"""Marks operations on integers that count from zero: Tile IR's types do not tell."""

_FEW_SETS: Final = 1024
"""Rows a multiple of so many bytes apart share few sets of the first-level cache: a column would evict itself."""

SLACK: Final = 64
"""Elements of room after every scratch tile, so that the last vector may stick out."""


@dataclass(slots=True, eq=False)
class TileLowering:
    """Lowers the tile operations of one kernel through `context`, in program order."""

    context: CpuTileContext
    machine: CacheModel = field(default_factory=CacheModel)
    values: dict[ir.Value, Source] = field(default_factory=dict[ir.Value, Source])
    _saved: dict[ir.Value, Source] = field(default_factory=dict[ir.Value, Source])
    _carried: list[ir.Value] = field(default_factory=list[ir.Value])
    _handlers: dict[str, Callable[[AnyOp], Source | None]] = field(init=False)

    def __post_init__(self) -> None:
        self._handlers = {
            "arith.constant": self._constant,
            "tensor.splat": self._splat,
            "tessera.load": self._load,
            "tessera.gather": self._gather,
            "tessera.store": self._store,
            "tessera.masked_store": self._masked_store,
            "tessera.arange": self._arange,
            "tessera.broadcast": self._broadcast,
            "tessera.reshape": self._reshape,
            "tessera.transpose": self._transpose,
            "tessera.dot": self._dot,
            "tessera.reduce": self._reduce,
        }

    @property
    def emitter(self) -> Emitter:
        """Return the emitter."""
        return self.context.emitter

    def lower(self, op: AnyOp) -> None:
        """Emit one operation that has a tile among its operands or results, and is not control flow."""
        result = self._handlers.get(op.name, self._elementwise)(op)
        if result is None:
            return
        if _place(op) == "scratch" and not isinstance(result, Scratch):
            place = self._home(op)
            copy(self.emitter, result, place, self.side(place.element))
            result = place
        elif not isinstance(result, Scratch) and result.location is None:
            result.location = op.location
        self.values[op.results[0]] = result

    # -- carried tiles -----------------------------------------------------------------------------------------

    def enter_loop(self, initial: ir.Value | None, carried: ir.Value) -> None:
        """Give `carried` (a block argument, or a result of `scf.if`) a place, filled from the tile `initial`."""
        place = self.allocate(*shape_and_element(carried.type))
        if initial is not None:
            copy(self.emitter, self.source(initial), place, self.side(place.element))
        self.values[carried] = place
        self._carried.append(place.pointer)

    def yield_to(self, carried: ir.Value, value: ir.Value) -> None:
        """Make `value` the next one of `carried`."""
        place, source = self.values[carried], self._saved.pop(value, None) or self.source(value)
        if isinstance(place, Scratch) and not same_place(place, source):
            self._save(carried, place)
            copy(self.emitter, source, place, self.side(place.element))

    def _save(self, carried: ir.Value, place: Scratch) -> None:
        """Keep what `place` holds, if something handed on later in the same loop is it (`a, b = b, a`)."""
        block = carried.owner
        if not isinstance(block, ir.Block) or block.owner.name != "scf.for":
            return
        yielded = list(block.operations)[-1].operation.operands
        for value in list(yielded)[ir.BlockArgument(carried).arg_number :]:
            if value in self.values and same_place(place, self.values[value]):
                self._saved[value] = self.materialize(place)

    def leave_loop(self, carried: ir.Value, result: ir.Value) -> None:
        """Name what `carried` last held as `result`."""
        self.values[result] = self.values[carried]

    # -- places ------------------------------------------------------------------------------------------------

    def source(self, value: ir.Value) -> Source:
        """Return the source of a tile; a scalar becomes a splat without a shape of its own."""
        return self.values[value]

    def allocate(self, shape: Sequence[int], element: str) -> Scratch:
        """Room for a tile: row-major, rows padded to whole vectors along the vector axis."""
        axis = vector_axis(shape)
        strides = [0] * len(shape)
        stride = 1
        for a in reversed(range(len(shape))):
            strides[a] = stride
            stride *= padded(shape[a]) if a == axis else shape[a]
            if a == axis and stride * bytes_of(element) % _FEW_SETS == 0 and max(shape[:a], default=1) > 1:
                stride += LANES
        pointer = self.context.scratch((stride + SLACK) * bytes_of(element), 64)
        return Scratch(shape, element, pointer, strides)

    def materialize(self, source: Source) -> Scratch:
        """Compute every element of `source` into scratch."""
        place = self.allocate(source.shape, source.element)
        copy(self.emitter, source, place, self.side(source.element))
        return place

    def side(self, element: str) -> int:
        """Rows of the squares that are turned in registers: as many as a register has elements."""
        return self.machine.vector_bytes // max(4, bytes_of(element))

    # -- operations --------------------------------------------------------------------------------------------

    def _elementwise(self, op: AnyOp) -> Source:
        shape, element = shape_and_element(op.results[0].type)

        def operand(value: ir.Value) -> Source:
            if isinstance(value.type, ir.RankedTensorType):
                return self.source(value)
            scalar = self.context.scalar(value)
            return Splat(shape, str(value.type), lambda _: scalar)

        emit = partial(_emit_function, op)
        return Computed(shape, Function(element, emit), [operand(v) for v in op.operands])

    def _constant(self, op: AnyOp) -> Source:
        shape, element = shape_and_element(op.results[0].type)
        value = ir.DenseElementsAttr(op.attributes["value"]).get_splat_value()
        return Splat(shape, element, lambda emitter: emitter.value("arith.constant", (), element, {"value": value}))

    def _splat(self, op: AnyOp) -> Source:
        shape, element = shape_and_element(op.results[0].type)
        scalar = self.context.scalar(op.operands[0])
        return Splat(shape, element, lambda _: scalar)

    def _arange(self, op: AnyOp) -> Source:
        shape, _ = shape_and_element(op.results[0].type)
        return Arange(shape[0], self.context.scalar(op.operands[0]))

    def _block(
        self, op: AnyOp, memory: ir.Value, tile: ir.Value, starts: Sequence[ir.Value], only: Source | None = None
    ) -> MemoryBlock:
        extents, dropped = (list(ir.DenseI64ArrayAttr(op.attributes[n])) for n in ("extents", "dropped"))
        axes = [axis for axis in range(len(extents)) if axis not in dropped]
        in_bounds = list(ir.DenseBoolArrayAttr(op.attributes["in_bounds"]))
        places = [self.context.scalar(v) for v in starts]
        shape, element = shape_and_element(tile.type)
        return MemoryBlock(self.emitter, shape, element, self.context.array(memory), places, axes, in_bounds, only)

    def _load(self, op: AnyOp) -> Source:
        memory, *starts = op.operands
        return self._block(op, memory, op.results[0], starts)

    def _gather(self, op: AnyOp) -> Source:
        memory, index, *starts = op.operands
        axis = int(ir.IntegerAttr(op.attributes["axis"]).value)
        extents, dropped = (list(ir.DenseI64ArrayAttr(op.attributes[n])) for n in ("extents", "dropped"))
        axes = [a for a in range(len(extents)) if a not in dropped]
        in_bounds = list(ir.DenseBoolArrayAttr(op.attributes["in_bounds"]))
        places, array = [self.context.scalar(v) for v in starts], self.context.array(memory)
        shape, element = shape_and_element(op.results[0].type)

        def block(start: ir.Value, kind: str) -> MemoryBlock:
            moved = [start if a == axis else place for a, place in enumerate(places)]
            return MemoryBlock(self.emitter, shape, kind, array, moved, axes, in_bounds)

        return Gathered(shape, element, axes.index(axis), self.source(index), block)

    def _store(self, op: AnyOp) -> None:
        memory, value, *starts = op.operands
        source = self.source(value)
        copy(self.emitter, source, self._block(op, memory, value, starts), self.side(source.element))

    def _masked_store(self, op: AnyOp) -> None:
        memory, value, mask, *starts = op.operands
        source = self.source(value)
        target = self._block(op, memory, value, starts, self.source(mask))
        copy(self.emitter, source, target, self.side(source.element))

    def _broadcast(self, op: AnyOp) -> Source:
        source = self.source(op.operands[0])
        shape, _ = shape_and_element(op.results[0].type)
        axes = [
            a if before == after else None for a, (before, after) in enumerate(zip(source.shape, shape, strict=True))
        ]
        return Moved(shape, source, axes)

    def _transpose(self, op: AnyOp) -> Source:
        source = self.source(op.operands[0])
        shape, _ = shape_and_element(op.results[0].type)
        order = list(ir.DenseI64ArrayAttr(op.attributes["permutation"]))
        return Moved(shape, source, [order.index(axis) for axis in range(len(order))])

    def _reshape(self, op: AnyOp) -> Source:
        source = self.source(op.operands[0])
        shape, element = shape_and_element(op.results[0].type)
        if [e for e in source.shape if e > 1] == [e for e in shape if e > 1]:
            return Moved(shape, source, unit_axes(source.shape, shape))
        return Scratch(shape, element, self._dense(source).pointer, row_major(shape), dense=True)

    def _dense(self, source: Source) -> Scratch:
        """Return the tile in scratch with its rows one right after the other."""
        strides = row_major(source.shape)
        carried = isinstance(source, Scratch) and any(source.pointer is place for place in self._carried)
        if isinstance(source, Scratch) and source.strides == strides and not carried:
            return source
        pointer = self.context.scratch((math.prod(source.shape) + SLACK) * bytes_of(source.element), 64)
        place = Scratch(source.shape, source.element, pointer, strides, dense=True)
        copy(self.emitter, source, place, self.side(source.element))
        return place

    def _reduce(self, op: AnyOp) -> Source | None:
        source, result = self.source(op.operands[0]), op.results[0]
        element = source.element
        wide = as_element(source, "f32") if element in ("f16", "bf16") else source
        combine = Combine(
            self.emitter, str(ir.StringAttr(op.attributes["kind"]).value), wide.element, UNSIGNED in op.attributes
        )
        axis = int(ir.IntegerAttr(op.attributes["axis"]).value) if "axis" in op.attributes else None
        if axis is None:
            wide, axis = self._flat(wide), 0
        scalar = not isinstance(result.type, ir.RankedTensorType)
        shape = [1] if scalar else [e for a, e in enumerate(wide.shape) if a != axis]
        destination = self._home(op) if not scalar and wide.element == element else self.allocate(shape, wide.element)
        reduction = Reduction(self.emitter, wide, axis, combine, self.machine, lambda n: self.context.scratch(n, 64))
        reduction.emit(_ReducedRows(self.emitter, destination, axis, scalar))
        if not scalar:
            return as_element(destination, element)
        value = Memory(self.emitter).load(destination.pointer, 0, destination.element)
        self.context.set_scalar(result, convert(self.emitter, value, element) if combine.is_float else value)
        return None

    def _flat(self, source: Source) -> Source:
        """Return the tile as a row of all its elements."""
        if sum(e > 1 for e in source.shape) <= 1:
            return Moved((math.prod(source.shape),), source, unit_axes(source.shape, (math.prod(source.shape),)))
        if source.shape[vector_axis(source.shape)] % LANES == 0:
            return Flat(source)
        place = self._dense(source)
        return Scratch((math.prod(source.shape),), source.element, place.pointer, (1,), dense=True)

    def _dot(self, op: AnyOp) -> Source:
        shape, element = shape_and_element(op.results[0].type)
        operands = [self.source(v) for v in op.operands[:2]]
        accumulator = accumulator_element(operands[0].element, element)
        unsigned = UNSIGNED in op.attributes
        a, b = (as_element(source, accumulator, unsigned=unsigned) for source in operands)
        start = as_element(self.source(op.operands[2]), accumulator) if len(op.operands) > 2 else None
        result = self._home(op) if accumulator == element else self.allocate(shape, accumulator)
        self._emit_dot(a, b, start, result)
        return as_element(result, element)

    def _emit_dot(self, a: Source, b: Source, start: Source | None, result: Scratch) -> None:
        if b.shape[1] == 1 and a.shape[0] > 1:  # a column is worked on as a row
            a, b = turned(b), turned(a)
            start = None if start is None else turned(start)
            result = Scratch(result.shape[::-1], result.element, result.pointer, result.strides[::-1])
        size = bytes_of(result.element)
        blocking = choose(a.shape[0], b.shape[1], a.shape[1], size, self.machine)
        Dot(self.emitter, a, b, start, result, blocking, lambda count: self.context.scratch(count, 64)).emit()

    def _home(self, op: AnyOp) -> Scratch:
        """Return memory for the result of `op`: of the carried tile that it may replace, or new memory."""
        attributes = op.attributes
        if "tessera.replaces" in attributes:
            carried = op.operation.block.arguments[1 + int(ir.IntegerAttr(attributes["tessera.replaces"]).value)]
            place = self.values[carried]
            assert isinstance(place, Scratch), "carried tiles are in scratch"
            return place
        return self.allocate(*shape_and_element(op.results[0].type))


def unit_axes(before: Sequence[int], after: Sequence[int]) -> list[int | None]:
    """For each axis of `before`, the axis of `after` it becomes, when the shapes differ in axes of extent 1 alone."""
    places = iter([axis for axis, extent in enumerate(after) if extent > 1])
    return [next(places) if extent > 1 else None for extent in before]


def row_major(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides without gaps."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def same_place(a: Scratch, b: Source) -> bool:
    """Return whether two sources are one piece of memory."""
    return isinstance(b, Scratch) and a.pointer is b.pointer


def shape_and_element(kind: ir.Type) -> tuple[list[int], str]:
    """Shape and element name of a tile's type."""
    return list(ir.ShapedType(kind).shape), str(element_type(kind))


def _emit_function(op: AnyOp, emitter: Emitter, operands: Sequence[ir.Value], lanes: int) -> ir.Value:
    return emit_elementwise(emitter, op, without_traps(emitter, op, operands, lanes), lanes)


@dataclass(frozen=True, slots=True)
class _ReducedRows:
    """Stores what a reduction along axis `reduced` gives to `result`; see `reduce.Write`."""

    emitter: Emitter
    result: Scratch
    reduced: int
    scalar: bool

    def __call__(
        self, point: Sequence[Index], axis: int, value: ir.Value, index: Index, lanes: int, valid: int | None
    ) -> None:
        kept = [0] if self.scalar else [i for a, i in enumerate(point) if a != self.reduced]
        if lanes:
            frame = Frame(self.emitter, kept, axis - (axis > self.reduced))
            self.result.writer(frame)(value, index, lanes, valid)
        else:
            address = self.result.start(Frame(self.emitter, kept, -1))
            Memory(self.emitter).store(value, address, 0, self.result.element)


def _place(op: AnyOp) -> str:
    attributes = op.attributes
    if "tessera.place" in attributes:
        return str(ir.StringAttr(attributes["tessera.place"]).value)
    return "virtual" if op.name in _NEVER_STORED else "scratch"


_NEVER_STORED: Final = ("arith.constant", "tensor.splat", "tessera.arange", "tessera.broadcast", "tessera.reshape")
