"""What a tile value is to the code around it: a source of vectors.

A `Source` knows how to give vectors along any axis.  Reading is in two steps, so that what does not change along the
axis is computed once a row: `Frame` fixes every index but that of the vector axis, `Source.row(frame)` emits what
depends on them alone, and `Row.at(index, lanes)` emits one vector.

    frame = Frame(emitter, point, axis)
    row = frame.row(source)            # before the loop over the axis
    vector = row.at(index, 16)         # inside it

Sources of memory: `Scratch` (a tile kept in the thread's arena) and `Block` (a block of an array, maybe sticking out
of it).  Virtual ones compute on the fly: `Splat`, `Arange`, `Moved` (axes renamed, repeated or dropped), `Computed`.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tessera.lowering.emit import Emitter
from tessera.lowering.target.cpu.context import ArrayRef
from tessera.lowering.target.cpu.tile.indices import Index, Indices
from tessera.lowering.target.cpu.tile.loops import branch
from tessera.lowering.target.cpu.tile.memory import Memory, bytes_of

At = Callable[[Index, int, int | None], Any]
Writer = Callable[[Any, Index, int, int | None], None]
"""`write(value, index, lanes, valid)`: the other end of `Row.at`."""


class Row:
    """Vectors of one source along one axis, all other indices fixed.

    `uniform` is the scalar that every element equals, where the source does not change along the axis.
    """

    __slots__ = ("_at", "_last", "_memory", "uniform")

    def __init__(self, memory: Memory, at: At | None = None, uniform: Any = None) -> None:
        self._memory = memory
        self._at = at
        self._last: tuple[Index, int, int | None, Any] | None = None
        self.uniform = uniform

    def at(self, index: Index, lanes: int, valid: int | None = None) -> Any:
        """`lanes` elements from `index` on (0: a scalar), of which only the first `valid` need mean anything.

        No memory outside the source is touched.  Asking twice in one place gives the same value.
        """
        if self._last is not None and self._last[0] is index and self._last[1:3] == (lanes, valid):
            return self._last[3]
        if self._at is None:
            value = self._memory.splat(self.uniform, lanes)
        else:
            value = self._at(index, lanes, valid)
        self._last = (index, lanes, valid, value)
        return value


class Frame:
    """Where vectors are read: an index for every axis of the source, of which the one of `axis` means nothing.

    `inside` promises that every guard of the sources holds, so no access needs a mask.
    """

    def __init__(self, emitter: Emitter, point: Sequence[Index], axis: int, *, inside: bool = True) -> None:
        self.emitter = emitter
        self.memory = Memory(emitter)
        self.indices = Indices(emitter)
        self.point = tuple(point)
        self.axis = axis
        self.inside = inside
        self._rows: dict[int, Row] = {}

    def row(self, source: "Source") -> Row:
        """The row of `source` here; a source that is used twice is computed once."""
        found = self._rows.get(id(source))
        if found is None:
            found = self._rows[id(source)] = source.row(self)
        return found

    def moved(self, point: Sequence[Index], axis: int) -> "Frame":
        """The same place in another source's axes."""
        return Frame(self.emitter, point, axis, inside=self.inside)

    def uniform(self, scalar: Any) -> Row:
        """A row that repeats one scalar."""
        return Row(self.memory, uniform=scalar)

    def varying(self, at: At) -> Row:
        """A row computed by `at`."""
        return Row(self.memory, at)


class Source(ABC):
    """One tile value of `shape` and `element` (as in registers: `f32`, `i1`).

    guards: conditions (`i1`) that must all hold for `Frame.inside`
    bytes: width of the widest number that computing an element takes
    axis: the axis along which vectors are cheapest; None where all are alike
    """

    guards: tuple[Any, ...] = ()

    def __init__(self, shape: Sequence[int], element: str) -> None:
        self.shape = tuple(shape)
        self.element = element
        self.bytes = bytes_of(element)

    @abstractmethod
    def row(self, frame: Frame) -> Row:
        """Emit what a row shares; see `Frame.row`."""

    @property
    def axis(self) -> int | None:
        """The cheapest vector axis."""
        return None


def vector_axis(shape: Sequence[int]) -> int:
    """The axis that loops run vectors along: the last one with more than one element."""
    return max((axis for axis, extent in enumerate(shape) if extent > 1), default=len(shape) - 1)


class Scratch(Source):
    """A tile in memory of our own; `strides` are numbers, in elements.

    Whole vectors may be read along a vector axis of stride 1 even where they stick out of the row, and written too
    unless rows are `dense`, one right after the other.
    """

    def __init__(
        self, shape: Sequence[int], element: str, pointer: Any, strides: Sequence[int], *, dense: bool = False
    ) -> None:
        super().__init__(shape, element)
        self.pointer = pointer
        self.strides = tuple(strides)
        self.dense = dense

    @property
    def axis(self) -> int | None:
        """The axis of stride 1."""
        return next((a for a in reversed(range(len(self.shape))) if self.strides[a] == 1 and self.shape[a] > 1), None)

    def start(self, frame: Frame) -> Any:
        """The address of the row's first element."""
        point = [0 if a == frame.axis else i for a, i in enumerate(frame.point)]
        return frame.memory.address(self.pointer, frame.indices.dot(point, self.strides), self.element)

    def row(self, frame: Frame) -> Row:
        """A load a vector."""
        start, stride, memory = self.start(frame), self.strides[frame.axis], frame.memory
        if self.shape[frame.axis] == 1:
            return frame.uniform(memory.load(start, 0, self.element))

        def at(index: Index, lanes: int, valid: int | None) -> Any:
            address = memory.address(start, frame.indices.mul(index, stride), self.element)
            if not lanes or stride == 1:
                return memory.load(address, lanes, self.element)
            mask = None if valid is None else memory.first_lanes(valid, lanes)
            return memory.gather(address, stride, mask, lanes, self.element)

        return frame.varying(at)

    def writer(self, frame: Frame) -> Writer:
        """Stores of a row; see `Writer`."""
        start, stride, memory = self.start(frame), self.strides[frame.axis], frame.memory

        def write(value: Any, index: Index, lanes: int, valid: int | None) -> None:
            address = memory.address(start, frame.indices.mul(index, stride), self.element)
            mask = None if valid is None else memory.first_lanes(valid, lanes)
            if lanes and stride != 1:
                memory.scatter(value, address, stride, mask, lanes, self.element)
            elif self.dense and mask is not None:
                memory.store_masked(value, address, mask, lanes, self.element)
            else:
                memory.store(value, address, lanes, self.element)

        return write


class Span:
    """Which indices of a block's axis lie inside the array: `low <= index < high` (both `i64`)."""

    def __init__(self, indices: Indices, start: Any, block: int, extent: Any) -> None:
        self.low = indices.min(indices.max(indices.sub(0, start), 0), block)
        self.high = indices.min(indices.max(indices.sub(extent, start), 0), block)
        at_start = indices.at_most(0, start)
        self.inside = indices.all([at_start, indices.at_most(indices.value(block), self.high)])


class Block(Source):
    """A block of an array or shared buffer, from `starts` on; the parts outside the array read as 0.

    axes: the array's axis behind each axis of the tile
    in_bounds: for each axis of the array, whether the block is known to stay inside
    """

    def __init__(
        self,
        emitter: Emitter,
        shape: Sequence[int],
        element: str,
        array: ArrayRef,
        starts: Sequence[Any],
        axes: Sequence[int],
        in_bounds: Sequence[bool],
    ) -> None:
        super().__init__(shape, element)
        indices = Indices(emitter)
        self.strides = tuple(array.strides[a] for a in axes)
        self.origin = Memory(emitter).address(array.pointer, indices.dot(starts, array.strides), self.element)
        block = dict(zip(axes, self.shape, strict=True))
        spans = {
            a: Span(indices, start, block.get(a, 1), array.extents[a])
            for a, start in enumerate(starts)
            if not in_bounds[a]
        }
        self.spans = tuple(spans.get(a) for a in axes)
        self.dropped = tuple(span.inside for a, span in spans.items() if a not in block)
        self.guards = tuple(span.inside for span in spans.values())

    @property
    def axis(self) -> int | None:
        """The axis of stride 1, or the last one with more than one element."""
        unit = (a for a in reversed(range(len(self.shape))) if self._is_unit(a) and self.shape[a] > 1)
        return next(unit, vector_axis(self.shape))

    def _is_unit(self, axis: int) -> bool:
        stride = self.strides[axis]
        return isinstance(stride, int) and stride == 1

    def start(self, frame: Frame) -> Any:
        """The address of the row's first element."""
        point = [0 if a == frame.axis else i for a, i in enumerate(frame.point)]
        return frame.memory.address(self.origin, frame.indices.dot(point, self.strides), self.element)

    def row(self, frame: Frame) -> Row:
        """A load a vector, masked unless the whole block is inside."""
        access = Access(self, frame)
        if self.shape[frame.axis] == 1:
            return frame.uniform(access.load(0, 0, None))
        return frame.varying(access.load)

    def writer(self, frame: Frame) -> Writer:
        """Stores of a row, masked unless the whole block is inside."""
        return Access(self, frame).store


class Access:
    """Loads and stores of one row of a block."""

    def __init__(self, block: Block, frame: Frame) -> None:
        self.block = block
        self.memory = frame.memory
        self.indices = frame.indices
        self.start = block.start(frame)
        self.stride = block.strides[frame.axis]
        self.span = None if frame.inside else block.spans[frame.axis]
        self.outer = None if frame.inside else self._outer(frame)

    def _outer(self, frame: Frame) -> Any:
        """Whether the fixed indices are inside; None when they are known to be."""
        conditions = list(self.block.dropped)
        for axis, span in enumerate(self.block.spans):
            if span is not None and axis != frame.axis:
                index = frame.point[axis]
                conditions += [self.indices.at_most(span.low, index), self.indices.less(index, span.high)]
        return self.indices.all(conditions)

    def mask(self, index: Index, lanes: int, valid: int | None) -> Any:
        """The lanes to touch: an `i1` for a scalar, None for all."""
        if not lanes:
            spans = [self.span] if self.span is not None else []
            checks = [c for s in spans for c in (self.indices.at_most(s.low, index), self.indices.less(index, s.high))]
            return self.indices.all([*([] if self.outer is None else [self.outer]), *checks])
        masks = [] if self.outer is None else [self.memory.splat(self.outer, lanes)]
        if self.span is not None:
            masks += [self._compare(5, self.span.low, index, lanes), self._compare(2, self.span.high, index, lanes)]
        if valid is not None:
            masks.append(self.memory.first_lanes(valid, lanes))
        result = masks[0] if masks else None
        for mask in masks[1:]:
            result = self.memory.emitter.value("arith.andi", [result, mask], mask.type)
        return result

    def _compare(self, predicate: int, bound: Any, index: Index, lanes: int) -> Any:
        """The lanes whose index compares so with `bound`, both within the block, so 32 bits are enough."""
        emitter = self.memory.emitter
        distance = emitter.value("arith.trunci", [self.indices.sub(self.indices.value(bound), index)], "i32")
        operands = [self.memory.iota(lanes, "i32"), self.memory.splat(distance, lanes)]
        return emitter.value("arith.cmpi", operands, f"vector<{lanes}xi1>", {"predicate": f"{predicate} : i64"})

    def _address(self, index: Index) -> Any:
        return self.memory.address(self.start, self.indices.mul(index, self.stride), self.block.element)

    @property
    def _consecutive(self) -> bool:
        return isinstance(self.stride, int) and self.stride == 1

    def load(self, index: Index, lanes: int, valid: int | None) -> Any:
        """The vector (or scalar, for 0 lanes) at `index`."""
        element, mask, address = self.block.element, self.mask(index, lanes, valid), self._address(index)
        if not lanes:
            return self._load_scalar(address, mask)
        if not self._consecutive:
            return self.memory.gather(address, self.stride, mask, lanes, element)
        if mask is None:
            return self.memory.load(address, lanes, element)
        return self.memory.load_masked(address, mask, lanes, element)

    def _load_scalar(self, address: Any, mask: Any) -> Any:
        element = self.block.element
        if mask is None:
            return self.memory.load(address, 0, element)
        emitter = self.memory.emitter
        return branch(
            emitter,
            mask,
            lambda: [self.memory.load(address, 0, element)],
            lambda: [emitter.constant(0, element)],
            [element],
        )[0]

    def store(self, value: Any, index: Index, lanes: int, valid: int | None) -> None:
        """Write the vector (or scalar) at `index`, the parts inside the array only."""
        element, mask, address = self.block.element, self.mask(index, lanes, valid), self._address(index)
        if not lanes and mask is not None:
            branch(self.memory.emitter, mask, lambda: self.memory.store(value, address, 0, element) or ())
        elif not lanes:
            self.memory.store(value, address, 0, element)
        elif not self._consecutive:
            self.memory.scatter(value, address, self.stride, mask, lanes, element)
        elif mask is None:
            self.memory.store(value, address, lanes, element)
        else:
            self.memory.store_masked(value, address, mask, lanes, element)


class Splat(Source):
    """One scalar everywhere; `scalar()` emits or names it where it is needed."""

    def __init__(self, shape: Sequence[int], element: str, scalar: Callable[[Emitter], Any]) -> None:
        super().__init__(shape, element)
        self._scalar = scalar

    def row(self, frame: Frame) -> Row:
        """The scalar."""
        return frame.uniform(self._scalar(frame.emitter))


class Arange(Source):
    """start, start + 1, ...: rank 1, `i64`."""

    def __init__(self, extent: int, start: Any) -> None:
        super().__init__((extent,), "i64")
        self._start = start

    def row(self, frame: Frame) -> Row:
        """An addition a vector."""
        emitter, memory = frame.emitter, frame.memory

        def at(index: Index, lanes: int, _: int | None) -> Any:
            base = memory.splat(frame.indices.add(self._start, index), lanes)
            return emitter.value("arith.addi", [base, memory.iota(lanes)], base.type) if lanes else base

        return frame.varying(at)


class Moved(Source):
    """A source seen through other axes.

    axes: for each axis of `source`, the axis of this tile whose index it takes; None where the index is 0
    """

    def __init__(self, shape: Sequence[int], source: Source, axes: Sequence[int | None]) -> None:
        super().__init__(shape, source.element)
        self.source = source
        self.axes = tuple(axes)
        self.guards = source.guards
        self.bytes = source.bytes

    @property
    def axis(self) -> int | None:
        """Where the source's own axis went."""
        return None if self.source.axis is None else self.axes[self.source.axis]

    def row(self, frame: Frame) -> Row:
        """The source's row; where the vector axis is none of its own, one element repeated."""
        point: list[Index] = [0 if axis is None else frame.point[axis] for axis in self.axes]
        if frame.axis in self.axes:
            return frame.moved(point, self.axes.index(frame.axis)).row(self.source)
        along = vector_axis(self.source.shape)
        row = frame.moved(point, along).row(self.source)
        return frame.uniform(row.at(point[along], 0) if row.uniform is None else row.uniform)


class Flat(Source):
    """All elements of a source in row-major order.  Its rows must be whole vectors long."""

    def __init__(self, source: Source) -> None:
        super().__init__((math.prod(source.shape),), source.element)
        self.source = source
        self.guards = source.guards
        self.bytes = source.bytes

    def row(self, frame: Frame) -> Row:
        """A row of the source a vector."""
        along = vector_axis(self.source.shape)

        def at(index: Index, lanes: int, valid: int | None) -> Any:
            point: list[Index] = [0] * len(self.source.shape)
            for axis in reversed(range(along + 1)):
                point[axis] = frame.indices.modulo(index, self.source.shape[axis]) if axis else index
                index = frame.indices.divide(index, self.source.shape[axis]) if axis else 0
            return frame.moved(point, along).row(self.source).at(point[along], lanes, valid)

        return frame.varying(at)


@dataclass(frozen=True, slots=True)
class Function:
    """An element-wise function: `emit(emitter, operands, lanes)` gives its value on scalars (0 lanes) or vectors."""

    element: str
    emit: Callable[[Emitter, Sequence[Any], int], Any]


class Computed(Source):
    """An element-wise function of sources of one shape."""

    def __init__(self, shape: Sequence[int], function: Function, operands: Sequence[Source]) -> None:
        super().__init__(shape, function.element)
        self.function = function
        self.operands = tuple(operands)
        self.guards = all_guards(operands)
        # Floats of 16 bits are computed in 32.
        self.bytes = max([4 if self.element in ("f16", "bf16") else self.bytes, *(o.bytes for o in operands)])

    @property
    def axis(self) -> int | None:
        """The operands' axis: the last one they name."""
        return max((o.axis for o in self.operands if o.axis is not None), default=None)

    def row(self, frame: Frame) -> Row:
        """The function of the operands' rows."""
        rows = [frame.row(operand) for operand in self.operands]
        if all(row.uniform is not None for row in rows):
            return frame.uniform(self.function.emit(frame.emitter, [row.uniform for row in rows], 0))

        def at(index: Index, lanes: int, valid: int | None) -> Any:
            return self.function.emit(frame.emitter, [row.at(index, lanes, valid) for row in rows], lanes)

        return frame.varying(at)


def all_guards(sources: Sequence[Source]) -> tuple[Any, ...]:
    """The guards of several sources, each once."""
    return tuple({id(guard): guard for source in sources for guard in source.guards}.values())
