"""Read tile values as sources of vectors.

A `Source` knows how to give vectors along any axis.  Reading is in two steps, so that what does not change along the
axis is computed once a row: `Frame` fixes every index but that of the vector axis, `Source.row(frame)` emits what
depends on them alone, and `Row.at(index, lanes)` emits one vector.

    frame = Frame(emitter, point, axis)
    row = frame.row(source)            # before the loop over the axis
    vector = row.at(index, 16)         # inside it

Those here compute on the fly: `Splat`, `Arange`, `Moved` (axes renamed, repeated or dropped), `Flat`, `Computed`.
Those that read memory are in `destinations.py`.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tessera.core.mlir import Index, ir
from tessera.lowering.base.emit import Emitter, required
from tessera.lowering.base.indices import Indices
from tessera.lowering.cpu.tile.memory import Memory, bytes_of

At = Callable[[Index, int, int | None], ir.Value]
Writer = Callable[[ir.Value, Index, int, int | None], None]
"""`write(value, index, lanes, valid)`: the other end of `Row.at`."""


class Row:
    """Vectors of one source along one axis, all other indices fixed.

    `uniform` is the scalar that every element equals, where the source does not change along the axis.
    """

    __slots__ = ("_at", "_last", "_memory", "uniform")

    def __init__(self, memory: Memory, at: At | None = None, uniform: ir.Value | None = None) -> None:
        self._memory = memory
        self._at = at
        self._last: tuple[Index, int, int | None, ir.Value] | None = None
        self.uniform = uniform

    def at(self, index: Index, lanes: int, valid: int | None = None) -> ir.Value:
        """`lanes` elements from `index` on (0: a scalar), of which only the first `valid` need mean anything.

        No memory outside the source is touched.  Asking twice in one place gives the same value.
        """
        if self._last is not None and self._last[0] is index and self._last[1:3] == (lanes, valid):
            return self._last[3]
        value = self._memory.splat(required(self.uniform), lanes) if self._at is None else self._at(index, lanes, valid)
        self._last = (index, lanes, valid, value)
        return value


class Frame:
    """A row of vectors in a source: an index for each axis, of which that of `axis` is not used.

    `inside` promises that every guard of the sources holds, so no access needs a mask.  `prefetch`, (axis, count), asks
    for what lies `count` further along an axis of an array, which will be read soon and the processor cannot guess.
    """

    def __init__(
        self,
        emitter: Emitter,
        point: Sequence[Index],
        axis: int,
        *,
        inside: bool = True,
        prefetch: tuple[int, int] | None = None,
    ) -> None:
        self.emitter = emitter
        self.memory = Memory(emitter)
        self.indices = Indices(emitter)
        self.point = tuple(point)
        self.axis = axis
        self.inside = inside
        self.prefetch = prefetch
        self._rows: dict[int, tuple[Source, Row]] = {}

    def row(self, source: "Source") -> Row:
        """Return the row of `source` here; a source that is used twice is computed once."""
        entry = self._rows.get(id(source))
        if entry is None:
            entry = self._rows[id(source)] = (source, self._located_row(source))  # the source too: it keeps its id
        return entry[1]

    def _located_row(self, source: "Source") -> Row:
        """Return a row that is emitted at the source's own location, which is not that of its reader."""
        location, emitter = source.location, self.emitter
        if location is None:
            return source.row(self)
        with emitter.located(location):
            row = source.row(self)
        if row.uniform is not None:
            return row

        def at(index: Index, lanes: int, valid: int | None) -> ir.Value:
            with emitter.located(location):
                return row.at(index, lanes, valid)

        return self.varying(at)

    def moved(self, point: Sequence[Index], axis: int, axes: Sequence[int | None] = ()) -> "Frame":
        """Return this frame in another source's axes; `axes` as in `Moved`."""
        prefetch = self.prefetch
        if prefetch is not None:
            prefetch = (axes.index(prefetch[0]), prefetch[1]) if prefetch[0] in axes else None
        return Frame(self.emitter, point, axis, inside=self.inside, prefetch=prefetch)

    def uniform(self, scalar: ir.Value) -> Row:
        """Return a row that repeats one scalar."""
        return Row(self.memory, uniform=scalar)

    def varying(self, at: At) -> Row:
        """Return a row computed by `at`."""
        return Row(self.memory, at)


class Source(ABC):
    """One tile value of `shape` and `element` (as in registers: `f32`, `i1`).

    guards: conditions (`i1`) that must all hold for `Frame.inside`
    bytes: width of the widest number that computing an element takes
    axis: the axis along which vectors are cheapest; None where all are alike.  Like the others it is settled when the
        source is made: asked for on demand, each operand would ask its own operands again
    location: of the operation whose result it is, which what computes it is emitted at; None: that of its reader
    """

    guards: tuple[ir.Value, ...] = ()
    axis: int | None = None
    location: ir.Location | None = None

    def __init__(self, shape: Sequence[int], element: str) -> None:
        self.shape = tuple(shape)
        self.element = element
        self.bytes = bytes_of(element)

    @abstractmethod
    def row(self, frame: Frame) -> Row:
        """Emit what a row shares; see `Frame.row`."""


def vector_axis(shape: Sequence[int]) -> int:
    """Return the axis that loops run vectors along: the last one with more than one element."""
    return max((axis for axis, extent in enumerate(shape) if extent > 1), default=len(shape) - 1)


class Splat(Source):
    """One scalar everywhere; `scalar()` emits or names it where it is needed."""

    def __init__(self, shape: Sequence[int], element: str, scalar: Callable[[Emitter], ir.Value]) -> None:
        super().__init__(shape, element)
        self._scalar = scalar

    def row(self, frame: Frame) -> Row:
        """Return the scalar."""
        return frame.uniform(self._scalar(frame.emitter))


class Arange(Source):
    """start, start + 1, ...: rank 1, `i64`."""

    def __init__(self, extent: int, start: ir.Value) -> None:
        super().__init__((extent,), "i64")
        self._start = start

    def row(self, frame: Frame) -> Row:
        """Compute each vector by one addition."""
        emitter, memory = frame.emitter, frame.memory

        def at(index: Index, lanes: int, _: int | None) -> ir.Value:
            base = memory.splat(frame.indices.value(frame.indices.add(self._start, index)), lanes)
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
        self.axis = None if source.axis is None else self.axes[source.axis]

    def row(self, frame: Frame) -> Row:
        """Return the source's row; where the vector axis is none of its own, one element repeated."""
        point: list[Index] = [0 if axis is None else frame.point[axis] for axis in self.axes]
        if frame.axis in self.axes:
            return frame.moved(point, self.axes.index(frame.axis), self.axes).row(self.source)
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
        """Take each vector from another row of the source."""
        along = vector_axis(self.source.shape)

        def at(index: Index, lanes: int, valid: int | None) -> ir.Value:
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
    emit: Callable[[Emitter, Sequence[ir.Value], int], ir.Value]


class Computed(Source):
    """An element-wise function of sources of one shape."""

    def __init__(self, shape: Sequence[int], function: Function, operands: Sequence[Source]) -> None:
        super().__init__(shape, function.element)
        self.function = function
        self.operands = tuple(operands)
        self.guards = all_guards(operands)
        # Floats of 16 bits are computed in 32.
        self.bytes = max([4 if self.element in ("f16", "bf16") else self.bytes, *(o.bytes for o in operands)])
        self.axis = max((o.axis for o in operands if o.axis is not None), default=None)

    def row(self, frame: Frame) -> Row:
        """Apply the function to the operands' rows."""
        rows = [frame.row(operand) for operand in self.operands]
        if all(row.uniform is not None for row in rows):
            return frame.uniform(self.function.emit(frame.emitter, [required(row.uniform) for row in rows], 0))

        def at(index: Index, lanes: int, valid: int | None) -> ir.Value:
            return self.function.emit(frame.emitter, [row.at(index, lanes, valid) for row in rows], lanes)

        return frame.varying(at)


def all_guards(sources: Sequence[Source]) -> tuple[ir.Value, ...]:
    """Return the guards of several sources, each once."""
    return tuple({id(guard): guard for source in sources for guard in source.guards}.values())
