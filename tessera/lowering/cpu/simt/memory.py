"""Reads, writes and copies: bounds become masks, and the address decides how memory is touched.

An address that all lanes share is a scalar access, consecutive lanes on consecutive elements are one vector access,
anything else is a gather or a scatter.  Outside an array reads give 0 and writes do nothing.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tessera.core.mlir import ir
from tessera.lowering.analysis.divergence import LANES
from tessera.lowering.analysis.ir_tree import Node
from tessera.lowering.base.ir_walk import constant
from tessera.lowering.cpu.base.emit_context import ArrayRef
from tessera.lowering.cpu.simt.lane_context import LaneContext
from tessera.lowering.cpu.simt.masked_access import MaskedAccess
from tessera.lowering.cpu.simt.vector_lanes import below
from tessera.lowering.cpu.simt.vectors import ALL, Lane, Linear, Mask, Scalar, Vector

_NARROW_INDEX: Final = 1 << 31
"""Memories with fewer elements are indexed with 32 bits in gathers, which handle twice as many lanes then."""


@dataclass(frozen=True, slots=True, eq=False)
class Index:
    """An index along one axis: `natural` tells that no lane's is negative, `inside` that all are proven inside."""

    lane: Lane
    natural: bool
    inside: bool


@dataclass(frozen=True, slots=True, eq=False)
class LaneAddresses:
    """The elements that lanes access: `base` + lane * `stride`, plus `offsets` (a vector) where it is not None.

    `mask` holds the lanes that access at all, `valid` (i1 or None) what an access that all lanes share depends on;
    `full` (i1 or None) tells that every lane of the warp accesses.
    """

    pointer: ir.Value
    base: ir.Value
    stride: int
    offsets: ir.Value | None
    mask: Mask
    valid: ir.Value | None
    narrow: bool
    full: ir.Value | None = None

    @property
    def shared(self) -> bool:
        """Return whether all lanes access the same element."""
        return self.offsets is None and self.stride == 0 and not isinstance(self.pointer.type, ir.VectorType)

    @property
    def contiguous(self) -> bool:
        """Return whether consecutive lanes access consecutive elements."""
        return self.offsets is None and self.stride == 1 and not isinstance(self.pointer.type, ir.VectorType)


def read(code: LaneContext, node: Node, mask: Mask) -> None:
    """`tessera.read`: one element a lane."""
    memory, *indices = node.operands
    (result,) = node.results
    place = locate(code, code.array(memory), indices_of(code, node, indices, mask), mask)
    element = code.element(result)
    if code.shape(result).scalar:
        code.define(result, Scalar(_load_scalar(code, place, element)))
    else:
        code.define(result, Vector(load_lanes(code, place, element)))


def write(code: LaneContext, node: Node, mask: Mask) -> None:
    """`tessera.write`: one element a lane; of lanes that write the same element, the last one wins."""
    memory, value, *indices = node.operands
    place = locate(code, code.array(memory), indices_of(code, node, indices, mask), mask)
    lane, element = code.lane(value), code.element(value)
    if place.shared:
        _store_shared(code, place, lane, element, mask)
    else:
        store_lanes(code, place, code.vectors.vector(lane), element)


def indices_of(code: LaneContext, node: Node, values: Sequence[ir.Value], mask: Mask) -> list[Index]:
    """Return the facts about each index; those proven for active lanes are dropped where no lane may be active."""
    flags = list(ir.DenseBoolArrayAttr(node.op.attributes["in_bounds"]))
    found = [Index(code.lane(v), code.shape(v).natural, flag) for v, flag in zip(values, flags, strict=True)]
    if mask.some or not all(isinstance(index.lane, Scalar) for index in found):
        return found
    return [replace(index, inside=False) for index in found]


# -- addresses -------------------------------------------------------------------------------------------------


def locate(code: LaneContext, array: ArrayRef, indices: Sequence[Index], mask: Mask) -> LaneAddresses:
    """Return the place that `indices` name in `array`, for the lanes of `mask`."""
    vectors = code.vectors
    bounds = _bounds(code, array, indices, mask)
    base: ir.Value | None = None
    offsets: ir.Value | None = None
    stride = 0
    for index, step in zip(indices, array.strides, strict=True):
        lane = index.lane
        if isinstance(lane, Scalar | Linear):
            base = _sum(code, base, _scaled(code, code.base(lane), step))
        if isinstance(lane, Linear) and isinstance(step, int):
            stride += lane.stride * step
        elif not isinstance(lane, Scalar):
            lanes = vectors.iota("i64", lane.stride) if isinstance(lane, Linear) else vectors.vector(lane)
            offsets = _sum(code, offsets, _scaled(code, lanes, step))
    if base is None:
        base = vectors.constant(0, "i64")
    if stride == 0 and offsets is None and any(isinstance(index.lane, Linear) for index in indices):
        offsets = vectors.constant(0, vectors.wide("i64"))  # one element, but not for all lanes: bounds may differ
    place = LaneAddresses(array.pointer, base, stride, offsets, bounds.mask, bounds.valid, _is_small(array))
    if place.shared or bounds.valid is None:
        return replace(place, full=bounds.full if place.contiguous else None)
    if place.contiguous and bounds.full is not None:
        full = code.kernel.flow.both(bounds.full, bounds.valid)
        return replace(place, full=full, mask=vectors.narrow(bounds.mask, Scalar(bounds.valid)))
    return replace(place, mask=vectors.narrow(bounds.mask, Scalar(bounds.valid)))


@dataclass(frozen=True, slots=True, eq=False)
class _Bounds:
    """The lanes that are inside the array (`mask`), given `valid` (i1 or None) about the axes in which all lanes agree.

    `full` (i1 or None: not known without looking at each lane) tells that all of them are inside on the other axes.
    """

    mask: Mask
    valid: ir.Value | None
    full: ir.Value | None


def _bounds(code: LaneContext, array: ArrayRef, indices: Sequence[Index], mask: Mask) -> _Bounds:
    vectors, both = code.vectors, code.kernel.flow.both
    inside, valid = mask, None
    fulls: list[ir.Value] = []
    countable = mask.all
    for index, extent in zip(indices, array.extents, strict=True):
        if index.inside or _known_inside(index, extent, mask):
            continue
        match index.lane:
            case Scalar(value):
                this = vectors.compare("ult", value, extent)
                valid = this if valid is None else both(valid, this)
            case Linear(base, 1):
                upper = below(code, base, extent, safe=index.natural)
                inside = vectors.narrow(inside, upper)
                zero = vectors.constant(0, "i64")
                if countable:
                    fulls.append(vectors.compare("eq", upper.count, vectors.constant(LANES, "i64")))
                if countable and not index.natural:
                    fulls.append(vectors.compare("sge", base, zero))
                if not index.natural:
                    inside = vectors.narrow(inside, below(code, base, zero, safe=False, negated=True))
            case lane:
                countable = False
                wide = vectors.vector(lane)
                within = vectors.compare("ult", wide, vectors.splat(extent), vectors.wide("i1"))
                inside = vectors.narrow(inside, Vector(within))
    full = functools.reduce(both, fulls) if countable and fulls else None
    return _Bounds(inside, valid, full)


def _known_inside(index: Index, extent: ir.Value, mask: Mask) -> bool:
    """Return whether the lanes of `mask` are known to be inside along one axis."""
    lane = index.lane
    return isinstance(lane, Linear) and lane.stride == 1 and index.natural and (lane.base, extent) in mask.facts


def _is_small(array: ArrayRef) -> bool:
    """Return whether offsets fit 32 bits: outermost extent times stride, both known."""
    if not array.strides:
        return True
    extent, stride = constant(array.extents[0]), array.strides[0]
    return extent is not None and isinstance(stride, int) and extent * stride < _NARROW_INDEX


def _sum(code: LaneContext, a: ir.Value | None, b: ir.Value) -> ir.Value:
    if a is None:
        return b
    return code.emit.value("arith.addi", [a, b], a.type)


def _scaled(code: LaneContext, value: ir.Value, step: int | ir.Value) -> ir.Value:
    """`value` (a scalar or a vector) times a stride."""
    if isinstance(step, int):
        if step == 1:
            return value
        step = code.vectors.constant(step, "i64")
    if isinstance(value.type, ir.VectorType):
        step = code.vectors.splat(step)
    return code.emit.value("arith.muli", [value, step], value.type)


# -- accesses --------------------------------------------------------------------------------------------------


def in_memory(element: str) -> tuple[str, int]:
    """Return the type and size in bytes of an element of this type in memory."""
    if element == "i1":
        return "i8", 1
    return element, int(element.lstrip("fi")) // 8


def _load_scalar(code: LaneContext, place: LaneAddresses, element: str) -> ir.Value:
    """Return the one element all lanes read, 0 where it lies outside."""
    kernel = code.kernel
    stored, size = in_memory(element)

    def load() -> ir.Value:
        address = kernel.element(place.pointer, place.base, stored)
        return kernel.load(address, stored, size)

    if place.valid is None:
        value = load()
    else:
        zero = code.vectors.constant(0, stored)
        (value,) = kernel.flow.branch(place.valid, lambda: [load()], lambda: [zero], [stored])
    return kernel.to_bool(value) if element == "i1" else value


def load_lanes(code: LaneContext, place: LaneAddresses, element: str) -> ir.Value:
    """Load one element a lane as a vector, 0 in lanes that read nothing."""
    kernel = code.kernel
    stored, size = in_memory(element)
    access = MaskedAccess(code, kernel.processor, stored, size)
    if not place.contiguous:
        value = access.gather(_addresses(code, place, stored), place.mask)
    else:
        address = kernel.element(place.pointer, place.base, stored)

        def under(mask: Mask) -> Callable[[], Sequence[ir.Value]]:
            def emit() -> Sequence[ir.Value]:
                with code.scope():
                    return [access.load(address, mask)]

            return emit

        if place.full is None:
            (value,) = under(place.mask)()
        else:
            (value,) = kernel.flow.branch(place.full, under(ALL), under(place.mask), [access.kind])
    return kernel.to_bool(value) if element == "i1" else value


def store_lanes(code: LaneContext, place: LaneAddresses, value: ir.Value, element: str) -> None:
    """Write a vector, every active lane to its own place."""
    kernel = code.kernel
    stored, size = in_memory(element)
    access = MaskedAccess(code, kernel.processor, stored, size)
    value = kernel.to_byte(value) if element == "i1" else value
    if not place.contiguous:
        access.scatter(value, _addresses(code, place, stored), place.mask)
        return
    address = kernel.element(place.pointer, place.base, stored)

    def under(mask: Mask) -> Callable[[], Sequence[ir.Value]]:
        def emit() -> Sequence[ir.Value]:
            with code.scope():
                access.store(value, address, mask)
            return []

        return emit

    if place.full is None:
        under(place.mask)()
    else:
        kernel.flow.branch(place.full, under(ALL), under(place.mask))


def _store_shared(code: LaneContext, place: LaneAddresses, lane: Lane, element: str, mask: Mask) -> None:
    """Write one element that all lanes share: the value of the last active lane, if there is one."""
    kernel, vectors = code.kernel, code.vectors
    stored, size = in_memory(element)
    valid = place.valid
    if not mask.some:
        active = vectors.some(mask)
        valid = active if valid is None else kernel.flow.both(valid, active)

    def store() -> Sequence[ir.Value]:
        value = lane.value if isinstance(lane, Scalar) else _last(code, vectors.vector(lane), mask)
        value = kernel.to_byte(value) if element == "i1" else value
        kernel.store(value, kernel.element(place.pointer, place.base, stored), size)
        return []

    if valid is None:
        store()
    else:
        with code.scope():
            kernel.flow.branch(valid, store)


def _last(code: LaneContext, vector: ir.Value, mask: Mask) -> ir.Value:
    """Return the element of the last active lane."""
    vectors = code.vectors
    if mask.all:
        last = vectors.constant(LANES - 1, "i32")
    else:
        zeros = vectors.op("llvm.intr.ctlz", [vectors.word(mask)], "i32", {"is_zero_poison": "false"})
        last = vectors.op("arith.subi", [vectors.constant(LANES - 1, "i32"), zeros], "i32")
    return vectors.op("llvm.extractelement", [vector, last], vectors.text(ir.VectorType(vector.type).element_type))


def _addresses(code: LaneContext, place: LaneAddresses, stored: str) -> ir.Value:
    """Return the address of every lane's element."""
    vectors = code.vectors
    offsets = vectors.splat(place.base)
    if place.stride:
        offsets = _sum(code, vectors.iota("i64", place.stride), offsets)
    if place.offsets is not None:
        offsets = _sum(code, place.offsets, offsets)
    if place.narrow:
        offsets = vectors.op("arith.trunci", [offsets], vectors.wide("i32"))
    return code.kernel.element(place.pointer, offsets, stored)
