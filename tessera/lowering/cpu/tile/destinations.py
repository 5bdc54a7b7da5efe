"""Tiles in memory: kept in the thread's arena, or a block of an array that may stick out of it.

Both are sources of vectors (see `tile/operands.py`), and both can be written.
"""

from collections.abc import Callable, Sequence

from tessera.core.mlir import Index, ir
from tessera.lowering.base.emit import Emitter
from tessera.lowering.base.indices import Indices
from tessera.lowering.base.structured_control import branch
from tessera.lowering.cpu.base.emit_context import ArrayRef
from tessera.lowering.cpu.tile.memory import Memory
from tessera.lowering.cpu.tile.operands import Frame, Row, Source, Writer, vector_axis


class Scratch(Source):
    """A tile in memory of our own; `strides` are numbers, in elements.

    Whole vectors may be read along a vector axis of stride 1 even where they stick out of the row, and written too
    unless rows are `dense`, one right after the other.
    """

    def __init__(
        self, shape: Sequence[int], element: str, pointer: ir.Value, strides: Sequence[int], *, dense: bool = False
    ) -> None:
        super().__init__(shape, element)
        self.pointer = pointer
        self.strides = tuple(strides)
        self.dense = dense
        unit = (a for a in reversed(range(len(self.shape))) if self.strides[a] == 1 and self.shape[a] > 1)
        self.axis = next(unit, None)

    def start(self, frame: Frame) -> ir.Value:
        """Return the address of the row's first element."""
        point = [0 if a == frame.axis else i for a, i in enumerate(frame.point)]
        return frame.memory.address(self.pointer, frame.indices.dot(point, self.strides), self.element)

    def row(self, frame: Frame) -> Row:
        """Load one vector at a time."""
        start, stride, memory = self.start(frame), self.strides[frame.axis], frame.memory
        if self.shape[frame.axis] == 1:
            return frame.uniform(memory.load(start, 0, self.element))

        def at(index: Index, lanes: int, valid: int | None) -> ir.Value:
            address = memory.address(start, frame.indices.mul(index, stride), self.element)
            if not lanes or stride == 1:
                return memory.load(address, lanes, self.element)
            mask = None if valid is None else memory.first_lanes(valid, lanes)
            return memory.gather(address, stride, mask, lanes, self.element)

        return frame.varying(at)

    def writer(self, frame: Frame) -> Writer:
        """Stores of a row; see `Writer`."""
        start, stride, memory = self.start(frame), self.strides[frame.axis], frame.memory

        def write(value: ir.Value, index: Index, lanes: int, valid: int | None) -> None:
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
    """The indices of a block's axis that lie inside the array: `low <= index < high` (both `i64`)."""

    def __init__(self, indices: Indices, start: Index, block: int, extent: Index) -> None:
        self.low = indices.min(indices.max(indices.sub(0, start), 0), block)
        self.high = indices.min(indices.max(indices.sub(extent, start), 0), block)
        at_start = indices.at_most(0, start)
        self.inside = indices.both(at_start, indices.at_most(indices.value(block), self.high))


class MemoryBlock(Source):
    """A block of an array or shared buffer, from `starts` on; the parts outside the array read as 0.

    axes: the array's axis behind each axis of the tile
    in_bounds: for each axis of the array, whether the block is known to stay inside
    only: flags, one an element, of those that are written; None: all
    """

    def __init__(
        self,
        emitter: Emitter,
        shape: Sequence[int],
        element: str,
        array: ArrayRef,
        starts: Sequence[ir.Value],
        axes: Sequence[int],
        in_bounds: Sequence[bool],
        only: Source | None = None,
    ) -> None:
        super().__init__(shape, element)
        indices = Indices(emitter)
        self.strides = tuple(array.strides[a] for a in axes)
        self.starts = tuple(starts[a] for a in axes)
        self.extents = tuple(array.extents[a] for a in axes)
        self.origin = Memory(emitter).address(array.pointer, indices.dot(starts, array.strides), self.element)
        block = dict(zip(axes, self.shape, strict=True))
        spans = {
            a: Span(indices, start, block.get(a, 1), array.extents[a])
            for a, start in enumerate(starts)
            if not in_bounds[a]
        }
        self.spans = tuple(spans.get(a) for a in axes)
        self.dropped = tuple(span.inside for a, span in spans.items() if a not in block)
        self.only = only
        self.guards = (*(span.inside for span in spans.values()), *(() if only is None else only.guards))
        unit = (a for a in reversed(range(len(self.shape))) if self._is_unit(a) and self.shape[a] > 1)
        self.axis = next(unit, vector_axis(self.shape))

    def _is_unit(self, axis: int) -> bool:
        stride = self.strides[axis]
        return isinstance(stride, int) and stride == 1

    def start(self, frame: Frame) -> ir.Value:
        """Return the address of the row's first element."""
        point = [0 if a == frame.axis else i for a, i in enumerate(frame.point)]
        return frame.memory.address(self.origin, frame.indices.dot(point, self.strides), self.element)

    def ask(self, emitter: Emitter, point: Sequence[Index], *, near: bool = False) -> None:
        """Ask for the cache line of the element at `point`, which need not exist; `near`: for the first-level cache."""
        memory = Memory(emitter)
        offset = Indices(emitter).dot(point, self.strides)
        memory.prefetch(memory.address(self.origin, offset, self.element), near=near)

    def onward(self, emitter: Emitter, axis: int) -> Index:
        """How far along `axis` the next block of a loop begins: after this one; at the array's end, at its start."""
        indices = Indices(emitter)
        more = indices.less(indices.add(self.starts[axis], self.shape[axis]), self.extents[axis])
        return indices.select(more, self.shape[axis], indices.sub(0, self.starts[axis]))

    def row(self, frame: Frame) -> Row:
        """Load one vector at a time, masked unless the whole block is inside."""
        access = RowAccess(self, frame)
        if self.shape[frame.axis] == 1:
            return frame.uniform(access.load(0, 0, None))
        return frame.varying(access.load)

    def writer(self, frame: Frame) -> Writer:
        """Stores of a row, masked unless the whole block is inside."""
        return RowAccess(self, frame).store


class RowAccess:
    """Loads and stores of one row of a block."""

    def __init__(self, block: MemoryBlock, frame: Frame) -> None:
        self.block = block
        self.memory = frame.memory
        self.indices = frame.indices
        self.start = block.start(frame)
        self.stride = block.strides[frame.axis]
        self.span = None if frame.inside else block.spans[frame.axis]
        self.outer = None if frame.inside else self._outer(frame)
        self.only = None if block.only is None else frame.row(block.only)
        self.prefetch = frame.prefetch if frame.inside and self._consecutive else None

    def _outer(self, frame: Frame) -> ir.Value | None:
        """Return whether the fixed indices are inside; None when they are known to be."""
        conditions = list(self.block.dropped)
        for axis, span in enumerate(self.block.spans):
            if span is not None and axis != frame.axis:
                index = frame.point[axis]
                conditions += [self.indices.at_most(span.low, index), self.indices.less(index, span.high)]
        return self.indices.all(conditions)

    def mask(self, index: Index, lanes: int, valid: int | None) -> ir.Value | None:
        """Return the lanes to touch: an `i1` for a scalar, None for all."""
        if not lanes:
            spans = [self.span] if self.span is not None else []
            checks = [c for s in spans for c in (self.indices.at_most(s.low, index), self.indices.less(index, s.high))]
            flags = [] if self.only is None else [self.only.at(index, 0)]
            return self.indices.all([*([] if self.outer is None else [self.outer]), *checks, *flags])
        masks: list[ir.Value] = [] if self.outer is None else [self.memory.splat(self.outer, lanes)]
        if self.span is not None:
            masks += [self._compare(5, self.span.low, index, lanes), self._compare(2, self.span.high, index, lanes)]
        if valid is not None:
            masks.append(self.memory.first_lanes(valid, lanes))
        if self.only is not None:
            masks.append(self.only.at(index, lanes, valid))
        if not masks:
            return None
        result, *others = masks
        for mask in others:
            result = self.memory.emitter.value("arith.andi", [result, mask], mask.type)
        return result

    def _compare(self, predicate: int, bound: Index, index: Index, lanes: int) -> ir.Value:
        """Return the lanes whose index compares so with `bound`, both within the block, so 32 bits are enough."""
        emitter = self.memory.emitter
        distance = emitter.value(
            "arith.trunci", [self.indices.value(self.indices.sub(self.indices.value(bound), index))], "i32"
        )
        operands = [self.memory.iota(lanes, "i32"), self.memory.splat(distance, lanes)]
        return emitter.value("arith.cmpi", operands, f"vector<{lanes}xi1>", {"predicate": f"{predicate} : i64"})

    def _address(self, index: Index) -> ir.Value:
        return self.memory.address(self.start, self.indices.mul(index, self.stride), self.block.element)

    @property
    def _consecutive(self) -> bool:
        return isinstance(self.stride, int) and self.stride == 1

    def load(self, index: Index, lanes: int, valid: int | None) -> ir.Value:
        """Return the vector (or scalar, for 0 lanes) at `index`."""
        element, mask, address = self.block.element, self.mask(index, lanes, valid), self._address(index)
        if not lanes:
            return self._load_scalar(address, mask)
        if not self._consecutive:
            return self.memory.gather(address, self.stride, mask, lanes, element)
        if self.prefetch is not None:
            beyond = self.indices.mul(self.block.strides[self.prefetch[0]], self.prefetch[1])
            self.memory.prefetch(self.memory.address(address, beyond, element), near=False)
        if mask is None:
            return self.memory.load(address, lanes, element)
        return self.memory.load_masked(address, mask, lanes, element)

    def _load_scalar(self, address: ir.Value, mask: ir.Value | None) -> ir.Value:
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

    def store(self, value: ir.Value, index: Index, lanes: int, valid: int | None) -> None:
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


class Gathered(Source):
    """A block of an array whose place along tile axis `along` is told by `index`, element by element.

    block: makes the block whose start along that axis is a number, of elements of a type as wide as its own
    """

    def __init__(
        self,
        shape: Sequence[int],
        element: str,
        along: int,
        index: Source,
        block: Callable[[ir.Value, str], MemoryBlock],
    ) -> None:
        super().__init__(shape, element)
        self.along = along
        self.index = index
        self._block = block
        self.bytes = max(self.bytes, index.bytes)
        self.guards = index.guards

    def row(self, frame: Frame) -> Row:
        """Load rows along other axes as those of a block; along the axis of the indices, element by element."""
        places = frame.row(self.index)
        if frame.axis != self.along or self.shape[frame.axis] == 1:
            index = places.at(0, 0) if places.uniform is None else places.uniform
            return self._at(frame, frame.point, frame.axis, index, self.element)
        emitter, indices = frame.emitter, frame.indices
        # Single floats of 16 bits would be widened and rounded on their way into a vector.
        bits = "i16" if self.element in ("f16", "bf16") else self.element

        def element(place: Index, number: ir.Value, kind: str = bits) -> ir.Value:
            point = [place if a == self.along else i for a, i in enumerate(frame.point)]
            row = self._at(frame, point, self.along, number, kind)
            return row.at(place, 0) if row.uniform is None else row.uniform

        def at(index: Index, lanes: int, valid: int | None) -> ir.Value:
            found = places.at(index, lanes, valid)
            if not lanes:
                return element(index, found, self.element)
            single = [
                element(
                    indices.add(index, lane),
                    emitter.value("vector.extract", [found], "i64", {"static_position": f"array<i64: {lane}>"}),
                )
                for lane in range(lanes)
            ]
            vector = emitter.value("vector.from_elements", single, f"vector<{lanes}x{bits}>")
            kind = f"vector<{lanes}x{self.element}>"
            return vector if bits == self.element else emitter.value("arith.bitcast", [vector], kind)

        return frame.varying(at)

    def _at(self, frame: Frame, point: Sequence[Index], axis: int, index: ir.Value, element: str) -> Row:
        """Return the row of the block that has `index` where the tile has `point`."""
        start = frame.indices.value(frame.indices.sub(index, point[self.along]))
        return self._block(start, element).row(Frame(frame.emitter, point, axis, inside=False))
