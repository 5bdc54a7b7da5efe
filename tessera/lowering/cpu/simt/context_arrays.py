"""Keep lane values from one parallel region to the next in context arrays: scratch memory, a row a warp."""

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
        """Return whether it holds a bool a lane, packed into one i32 a warp."""
        return self.element == "i1" and self.shape.kind == "varying"


def make_slot(code: LaneContext, element: str, shape: Divergence, warps: int) -> ContextSlot:
    """Reserve a context slot for a value of this element type and shape."""
    varying = shape.kind == "varying"
    if element == "i1" and varying:
        return ContextSlot(code.kernel.reserve(4 * warps), element, shape, "i32", 4)
    stored, size = ("!llvm.ptr", _POINTER) if element == "!llvm.ptr" else in_memory(element)
    stride = size * LANES if varying else size
    count = 1 if shape.kind == "uniform" else warps
    return ContextSlot(code.kernel.reserve(stride * count), element, shape, stored, stride)


def _address(code: LaneContext, slot: ContextSlot) -> ir.Value:
    kernel, vectors = code.kernel, code.vectors
    if slot.shape.kind == "uniform":
        return kernel.at(slot.offset)
    stride = vectors.constant(slot.stride, "i64")
    return kernel.element(kernel.at(slot.offset), vectors.integer("muli", required(code.position.warp), stride), "i8")


def _size(slot: ContextSlot) -> int:
    return slot.stride // LANES if slot.shape.kind == "varying" and not slot.bits else slot.stride


def load(code: LaneContext, slot: ContextSlot) -> Lane:
    """Load the value in a context slot for the current warp."""
    kernel, vectors = code.kernel, code.vectors
    address, varying = _address(code, slot), slot.shape.kind == "varying"
    if slot.bits:
        return Vector(vectors.op("llvm.bitcast", [kernel.load(address, "i32", 4)], vectors.wide("i1")))
    value = kernel.load(address, vectors.wide(slot.stored) if varying else slot.stored, _size(slot))
    if varying:
        return Vector(value)
    value = kernel.to_bool(value) if slot.element == "i1" else value
    return Linear(value, slot.shape.stride) if slot.shape.stride else Scalar(value)


def store(code: LaneContext, slot: ContextSlot, lane: Lane, mask: Mask) -> None:
    """Store a value in its context slot, for the active lanes of the current warp."""
    kernel, vectors = code.kernel, code.vectors
    address = _address(code, slot)
    if slot.shape.kind != "varying":
        base = code.base(lane)
        kernel.store(kernel.to_byte(base) if slot.element == "i1" else base, address, slot.stride)
        return
    value = vectors.vector(lane)
    if slot.bits:
        old = vectors.op("llvm.bitcast", [kernel.load(address, "i32", 4)], vectors.wide("i1"))
        kernel.store(vectors.op("llvm.bitcast", [vectors.keep(mask, value, old)], "i32"), address, 4)
    elif mask.all:
        kernel.store(value, address, _size(slot))
    elif slot.stored == "!llvm.ptr":
        old = kernel.load(address, vectors.wide(slot.stored), _POINTER)
        kernel.store(vectors.keep(mask, value, old), address, _POINTER)
    else:
        attributes = {"alignment": f"{_size(slot)} : i32"}
        code.emit.create("llvm.intr.masked.store", [value, address, vectors.bits(mask)], (), attributes)


def load_mask(code: LaneContext, slot: ContextSlot) -> ir.Value:
    """Load the current warp's word of a mask."""
    return code.kernel.load(_address(code, slot), "i32", 4)


def store_mask(code: LaneContext, slot: ContextSlot, word: ir.Value) -> None:
    """Set the current warp's word of a mask."""
    code.kernel.store(word, _address(code, slot), 4)
