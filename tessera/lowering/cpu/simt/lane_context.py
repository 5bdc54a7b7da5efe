"""Hold the state of lane code: the lane value of each Tile IR value that is defined, and the position of the group."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from tessera.core.base.source import NOWHERE
from tessera.core.errors.catalog import CompilerCrash
from tessera.core.mlir import ir
from tessera.core.tile.location import spans
from tessera.core.tile.verify import is_shared
from tessera.lowering.analysis.divergence import Divergence, DivergenceAnalysis
from tessera.lowering.base.emit import Emitter
from tessera.lowering.cpu.base.emit_context import ArrayRef
from tessera.lowering.cpu.simt.entry_point import EntryPoint
from tessera.lowering.cpu.simt.vectors import Lane, Linear, Prefix, Scalar, Scope, Vector, Vectors

HALVES: Final = ("f16", "bf16")
"""Kept as i16 between operations: LLVM's code for vectors of them is slow, or calls functions that are not linked."""


@dataclass(slots=True)
class Position:
    """The position of a group, and of a warp in it; i64 values, None where there is none.

    group: index of the group in the grid; coordinates: the same along each axis
    base: index in the group of the warp's first lane; warp: row of the warp in scratch memory
    lanes: lanes of the launch (no `tile[...]`)
    """

    group: ir.Value | None = None
    coordinates: tuple[ir.Value, ...] = ()
    extents: tuple[ir.Value, ...] = ()
    base: ir.Value | None = None
    warp: ir.Value | None = None
    lanes: ir.Value | None = None


@dataclass(slots=True)
class LaneContext:
    """The state of code emission."""

    kernel: EntryPoint
    shapes: DivergenceAnalysis
    group: tuple[int, ...] | None
    position: Position = field(default_factory=Position)
    arrays: dict[ir.Value, ArrayRef] = field(default_factory=dict[ir.Value, ArrayRef])

    @property
    def emit(self) -> Emitter:
        """Return the emitter."""
        return self.kernel.emit

    @property
    def vectors(self) -> Vectors:
        """Vector helpers."""
        return self.kernel.vectors

    @contextmanager
    def scope(self) -> Generator[Scope]:
        """Values defined inside the `with` are gone after it."""
        outer = self.vectors.scope
        self.vectors.scope = inner = Scope(outer)
        try:
            yield inner
        finally:
            self.vectors.scope = outer

    def define(self, value: ir.Value, lane: Lane) -> None:
        """Give a Tile IR value its lane value."""
        self.vectors.scope.values[value] = lane

    def lane(self, value: ir.Value) -> Lane:
        """Return the lane value of a Tile IR value."""
        found = self.vectors.scope.find(value)
        if found is None:
            places = () if isinstance(value.owner, ir.Block) else spans(value.owner.location)
            msg = f"a value is used before it is defined: {value}"
            raise CompilerCrash(msg, places[0] if places else NOWHERE)
        return found

    def shape(self, value: ir.Value) -> Divergence:
        """How a Tile IR value varies."""
        return self.shapes.of(value)

    def scalar(self, value: ir.Value) -> ir.Value:
        """Return the target scalar of a value that all lanes of the warp share (of a linear one, its base)."""
        return self.base(self.lane(value))

    def base(self, lane: Lane) -> ir.Value:
        """Return a scalar, or the base of a linear value."""
        match lane:
            case Scalar(value):
                return value
            case Linear(base, _):
                return base
            case Prefix() | Vector():
                msg = "a value that varies is used where one scalar is needed"
                raise CompilerCrash(msg)

    def vector(self, value: ir.Value) -> ir.Value:
        """Return the target vector of a Tile IR value."""
        return self.vectors.vector(self.lane(value))

    def element(self, value: ir.Value) -> str:
        """Return the type of a Tile IR scalar's target values: memories are pointers, 16-bit floats bits."""
        kind = value.type
        if isinstance(kind, ir.MemRefType):
            return "!llvm.ptr"
        text = self.vectors.text(kind)
        return "i16" if text in HALVES else text

    def to_bits(self, value: ir.Value) -> ir.Value:
        """Return a target value, 16-bit floats (scalar or vector) as their bits."""
        return self._recast(value, HALVES, "i16")

    def from_bits(self, value: ir.Value, kind: ir.Type) -> ir.Value:
        """Return the bits of a float of the Tile IR type `kind` as that float; any other target value as it is."""
        text = self.vectors.text(kind)
        return self._recast(value, ("i16",), text) if text in HALVES else value

    def _recast(self, value: ir.Value, sources: tuple[str, ...], element: str) -> ir.Value:
        kind = value.type
        wide = isinstance(kind, ir.VectorType)
        if self.vectors.text(ir.VectorType(kind).element_type if wide else kind) not in sources:
            return value
        return self.emit.value("arith.bitcast", [value], self.vectors.wide(element) if wide else element)

    def shaped(self, lane: Lane, shape: Divergence) -> ir.Value:
        """Return the one target value that carries `lane` through control flow, for a value of shape `shape`."""
        return self.vectors.vector(lane) if shape.kind == "varying" else self.base(lane)

    def lane_of(self, value: ir.Value, shape: Divergence) -> Lane:
        """Return the lane value carried by a target value: the reverse of `shaped`."""
        if shape.kind == "varying":
            return Vector(value)
        return Linear(value, shape.stride) if shape.stride else Scalar(value)

    def array(self, value: ir.Value) -> ArrayRef:
        """Return the array or shared buffer behind a memref; its pointer is a vector where lanes differ."""
        found = self.arrays.get(value)
        if found is not None:
            return found
        kind = ir.MemRefType(value.type)
        if not is_shared(kind):
            msg = f"an array that is no parameter: {value}"
            raise CompilerCrash(msg)
        lane = self.lane(value)
        pointer = lane.value if isinstance(lane, Scalar | Vector) else self.base(lane)
        shape = list(kind.shape)
        strides = [1] * len(shape)
        for axis in range(len(shape) - 2, -1, -1):
            strides[axis] = strides[axis + 1] * shape[axis + 1]
        extents = tuple(self.vectors.constant(extent, "i64") for extent in shape)
        return ArrayRef(pointer, extents, tuple(strides), kind.element_type)
