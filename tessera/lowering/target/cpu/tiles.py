"""Tile operations of Tile IR as loops over vectors: one class that the group's code asks for each of them.

A tile value is *virtual* (its elements are computed where they are used) or in *scratch* (kept in the thread's
arena), as the pass `tile-place-values` decided (attribute `tessera.place`; without it, values are kept).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from tessera.core.mlir import ir
from tessera.lowering.emit import Emitter
from tessera.lowering.target.cpu.context import TileContext
from tessera.lowering.target.cpu.elementwise import element_type, emit_elementwise
from tessera.lowering.target.cpu.machine import Machine
from tessera.lowering.target.cpu.tile.blocking import choose
from tessera.lowering.target.cpu.tile.dot import Dot, as_element, sum_element, turned
from tessera.lowering.target.cpu.tile.loops import padded
from tessera.lowering.target.cpu.tile.memory import bytes_of
from tessera.lowering.target.cpu.tile.nests import copy
from tessera.lowering.target.cpu.tile.values import (
    Arange,
    Block,
    Computed,
    Function,
    Moved,
    Scratch,
    Source,
    Splat,
    vector_axis,
)

SLACK: Final = 64
"""Elements of room after every scratch tile, so that the last vector may stick out."""


@dataclass(slots=True, eq=False)
class TileLowering:
    """Lowers the tile operations of one kernel through `context`, in program order."""

    context: TileContext
    machine: Machine = field(default_factory=Machine)
    values: dict[Any, Source] = field(default_factory=dict[Any, Source])

    @property
    def emitter(self) -> Emitter:
        """Where code is emitted."""
        return self.context.emitter

    def lower(self, op: Any) -> None:
        """Emit one operation that has a tile among its operands or results, and is not control flow."""
        handler = _HANDLERS.get(op.name)
        result = handler(self, op) if handler is not None else self._elementwise(op)
        if result is None:
            return
        if _place(op) == "scratch" and not isinstance(result, Scratch):
            result = self.materialize(result)
        self.values[op.results[0]] = result

    # -- carried tiles -----------------------------------------------------------------------------------------

    def enter_loop(self, initial: Any, carried: Any) -> None:
        """Give the carried tile `carried` (a block argument, or a result of `scf.if`) a place, filled from `initial`."""
        place = self.allocate(*shape_and_element(carried.type))
        if initial is not None:
            copy(self.emitter, self.source(initial), place, self.side(place.element))
        self.values[carried] = place

    def yield_to(self, carried: Any, value: Any) -> None:
        """Make `value` the next one of `carried`."""
        place, source = self.values[carried], self.source(value)
        if isinstance(place, Scratch) and not same_place(place, source):
            copy(self.emitter, source, place, self.side(place.element))

    def leave_loop(self, carried: Any, result: Any) -> None:
        """Name what `carried` last held as `result`."""
        self.values[result] = self.values[carried]

    # -- places ------------------------------------------------------------------------------------------------

    def source(self, value: Any) -> Source:
        """The source of a tile; a scalar becomes a splat without a shape of its own."""
        return self.values[value]

    def allocate(self, shape: Sequence[int], element: str) -> Scratch:
        """Room for a tile: row-major, rows padded to whole vectors along the vector axis."""
        axis = vector_axis(shape)
        strides = [0] * len(shape)
        stride = 1
        for a in reversed(range(len(shape))):
            strides[a] = stride
            stride *= padded(shape[a]) if a == axis else shape[a]
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

    def _elementwise(self, op: Any) -> Source:
        shape, element = shape_and_element(op.results[0].type)

        def operand(value: Any) -> Source:
            if isinstance(value.type, ir.RankedTensorType):
                return self.source(value)
            scalar = self.context.scalar(value)
            return Splat(shape, str(value.type), lambda _: scalar)

        emit = partial(_emit_function, op)
        return Computed(shape, Function(element, emit), [operand(v) for v in op.operands])

    def _constant(self, op: Any) -> Source:
        shape, element = shape_and_element(op.results[0].type)
        value = ir.DenseElementsAttr(op.attributes["value"]).get_splat_value()
        return Splat(shape, element, lambda emitter: emitter.value("arith.constant", (), element, {"value": value}))

    def _splat(self, op: Any) -> Source:
        shape, element = shape_and_element(op.results[0].type)
        scalar = self.context.scalar(op.operands[0])
        return Splat(shape, element, lambda _: scalar)

    def _arange(self, op: Any) -> Source:
        shape, _ = shape_and_element(op.results[0].type)
        return Arange(shape[0], self.context.scalar(op.operands[0]))

    def _block(self, op: Any, memory: Any, tile: Any, starts: Sequence[Any]) -> Block:
        extents, dropped = (list(ir.DenseI64ArrayAttr(op.attributes[n])) for n in ("extents", "dropped"))
        axes = [axis for axis in range(len(extents)) if axis not in dropped]
        in_bounds = list(ir.DenseBoolArrayAttr(op.attributes["in_bounds"]))
        places = [self.context.scalar(v) for v in starts]
        shape, element = shape_and_element(tile.type)
        return Block(self.emitter, shape, element, self.context.array(memory), places, axes, in_bounds)

    def _load(self, op: Any) -> Source:
        memory, *starts = op.operands
        return self._block(op, memory, op.results[0], starts)

    def _store(self, op: Any) -> None:
        memory, value, *starts = op.operands
        source = self.source(value)
        copy(self.emitter, source, self._block(op, memory, value, starts), self.side(source.element))

    def _broadcast(self, op: Any) -> Source:
        source = self.source(op.operands[0])
        shape, _ = shape_and_element(op.results[0].type)
        axes = [a if before == after else None for a, (before, after) in enumerate(zip(source.shape, shape, strict=True))]
        return Moved(shape, source, axes)

    def _transpose(self, op: Any) -> Source:
        source = self.source(op.operands[0])
        shape, _ = shape_and_element(op.results[0].type)
        order = list(ir.DenseI64ArrayAttr(op.attributes["permutation"]))
        return Moved(shape, source, [order.index(axis) for axis in range(len(order))])

    def _reshape(self, op: Any) -> Source:
        source = self.source(op.operands[0])
        shape, _ = shape_and_element(op.results[0].type)
        return Moved(shape, source, unit_axes(source.shape, shape))

    def _dot(self, op: Any) -> Source:
        shape, element = shape_and_element(op.results[0].type)
        factors = [self.source(v) for v in op.operands[:2]]
        sums = sum_element(factors[0].element, element)
        a, b = (as_element(source, sums) for source in factors)
        start = as_element(self.source(op.operands[2]), sums) if len(op.operands) > 2 else None
        result = self._home(op) if sums == element else self.allocate(shape, sums)
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

    def _home(self, op: Any) -> Scratch:
        """Where the result of `op` is kept: the carried tile it replaces, if the pass allows it, or a new place."""
        attributes = op.attributes
        if "tessera.replaces" in attributes:
            carried = op.block.arguments[1 + int(attributes["tessera.replaces"].value)]
            place = self.values[carried]
            assert isinstance(place, Scratch), "carried tiles are in scratch"
            return place
        return self.allocate(*shape_and_element(op.results[0].type))


def unit_axes(before: Sequence[int], after: Sequence[int]) -> list[int | None]:
    """For each axis of `before`, the axis of `after` it becomes, when the shapes differ in axes of extent 1 alone."""
    places = iter([axis for axis, extent in enumerate(after) if extent > 1])
    return [next(places) if extent > 1 else None for extent in before]


def same_place(a: Scratch, b: Source) -> bool:
    """Whether two sources are one piece of memory."""
    return isinstance(b, Scratch) and a.pointer is b.pointer


def shape_and_element(kind: Any) -> tuple[list[int], str]:
    """Shape and element name of a tile's type."""
    return list(kind.shape), str(element_type(kind))


def _emit_function(op: Any, emitter: Emitter, operands: Sequence[Any], lanes: int) -> Any:
    return emit_elementwise(emitter, op, operands, lanes)


def _place(op: Any) -> str:
    attributes = op.attributes
    return str(attributes["tessera.place"].value) if "tessera.place" in attributes else "virtual"


_HANDLERS: Final[dict[str, Callable[[TileLowering, Any], Source | None]]] = {
    "arith.constant": TileLowering._constant,
    "tensor.splat": TileLowering._splat,
    "tessera.load": TileLowering._load,
    "tessera.store": TileLowering._store,
    "tessera.arange": TileLowering._arange,
    "tessera.broadcast": TileLowering._broadcast,
    "tessera.reshape": TileLowering._reshape,
    "tessera.transpose": TileLowering._transpose,
    "tessera.dot": TileLowering._dot,
}
