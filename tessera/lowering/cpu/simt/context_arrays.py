"""Homes: scratch memory that keeps lane values from one stretch of lane code to the next, a row a warp."""

from dataclasses import dataclass

from tessera.core.mlir import ir
from tessera.lowering.analysis.divergence import LANES, Divergence
from tessera.lowering.base.emit import required
from tessera.lowering.cpu.simt.lane_context import LaneContext
from tessera.lowering.cpu.simt.memory import in_memory
from tessera.lowering.cpu.simt.vectors import Lane, Linear, Mask, Scalar, Vector

_POINTER: int = 8


@dataclass(frozen=True, slots=True)
class ContextSlot:
    """A place for one value: `offset` in scratch memory, `element` as text, how it varies, bytes a warp takes.

    A uniform value has one place for all warps.
    """

    offset: int
    element: str
    shape: Divergence
    stored: str
    stride: int

    @property
    def bits(self) -> bool:
        """Whether it holds a bool a lane, packed into one i32 a warp."""
        return self.element == "i1" and self.shape.kind == "varying"


def make_slot(code: LaneContext, element: str, shape: Divergence, warps: int) -> ContextSlot:
    """Reserve a home for a value of this element type and shape."""
    varying = shape.kind == "varying"
    if element == "i1" and varying:
        return ContextSlot(code.kernel.reserve(4 * warps), element, shape, "i32", 4)
    stored, size = ("!llvm.ptr", _POINTER) if element == "!llvm.ptr" else in_memory(element)
    stride = size * LANES if varying else size
    count = 1 if shape.kind == "uniform" else warps
    return ContextSlot(code.kernel.reserve(stride * count), element, shape, stored, stride)


def _address(code: LaneContext, home: ContextSlot) -> ir.Value:
    kernel, vectors = code.kernel, code.vectors
    if home.shape.kind == "uniform":
        return kernel.at(home.offset)
    stride = vectors.constant(home.stride, "i64")
    return kernel.element(kernel.at(home.offset), vectors.integer("muli", required(code.position.warp), stride), "i8")


def _size(home: ContextSlot) -> int:
    return home.stride // LANES if home.shape.kind == "varying" and not home.bits else home.stride


def load(code: LaneContext, home: ContextSlot) -> Lane:
    """The value a home holds for the current warp."""
    kernel, vectors = code.kernel, code.vectors
    address, varying = _address(code, home), home.shape.kind == "varying"
    if home.bits:
        return Vector(vectors.op("llvm.bitcast", [kernel.load(address, "i32", 4)], vectors.wide("i1")))
    value = kernel.load(address, vectors.wide(home.stored) if varying else home.stored, _size(home))
    if varying:
        return Vector(value)
    value = kernel.to_bool(value) if home.element == "i1" else value
    return Linear(value, home.shape.stride) if home.shape.stride else Scalar(value)


def store(code: LaneContext, home: ContextSlot, lane: Lane, mask: Mask) -> None:
    """Put a value into its home, for the active lanes of the current warp."""
    kernel, vectors = code.kernel, code.vectors
    address = _address(code, home)
    if home.shape.kind != "varying":
        base = code.base(lane)
        kernel.store(kernel.to_byte(base) if home.element == "i1" else base, address, home.stride)
        return
    value = vectors.vector(lane)
    if home.bits:
        old = vectors.op("llvm.bitcast", [kernel.load(address, "i32", 4)], vectors.wide("i1"))
        kernel.store(vectors.op("llvm.bitcast", [vectors.keep(mask, value, old)], "i32"), address, 4)
    elif mask.all:
        kernel.store(value, address, _size(home))
    elif home.stored == "!llvm.ptr":
        old = kernel.load(address, vectors.wide(home.stored), _POINTER)
        kernel.store(vectors.keep(mask, value, old), address, _POINTER)
    else:
        attributes = {"alignment": f"{_size(home)} : i32"}
        code.emit.create("llvm.intr.masked.store", [value, address, vectors.bits(mask)], (), attributes)


def load_mask(code: LaneContext, home: ContextSlot) -> ir.Value:
    """The current warp's word of a mask."""
    return code.kernel.load(_address(code, home), "i32", 4)


def store_mask(code: LaneContext, home: ContextSlot, word: ir.Value) -> None:
    """Set the current warp's word of a mask."""
    code.kernel.store(word, _address(code, home), 4)
