"""Emit the indices of lanes (`id`) and their exchange of values inside a warp (`shuffle`)."""

import math
from typing import Final

from tessera.core.mlir import ir
from tessera.lowering.analysis.divergence import LANES
from tessera.lowering.analysis.ir_tree import Node
from tessera.lowering.base.emit import required
from tessera.lowering.cpu.simt.lane_context import LaneContext
from tessera.lowering.cpu.simt.vectors import Lane, Linear, Mask, Scalar, Vector

_WARP_SHIFT: Final = 5


def identify(code: LaneContext, node: Node) -> None:
    """`tessera.id`."""
    of, axis = node.text("of"), node.number("axis")
    if of == "lane_in_warp":
        lane: Lane = Linear(code.vectors.constant(0, "i64"), 1)
    elif of == "warp":
        shift = code.vectors.constant(_WARP_SHIFT, "i64")
        lane = Scalar(code.vectors.integer("shrui", required(code.position.base), shift))
    elif code.position.lanes is not None:
        lane = _in_domain(code, of, axis)
    elif of in ("lane", "thread"):
        lane = _lane(code, axis, code.group or (1,), of)
    else:
        lane = Scalar(_of_group(code, of, axis, code.group or (1,)))
    code.define(node.results[0], lane)


def _in_domain(code: LaneContext, of: str, axis: int | None) -> Lane:
    """Without `tile[...]` the launch is one group of one axis."""
    first, position = axis in (None, 0), code.position
    if of in ("lane", "thread") and first:
        return Linear(required(position.base), 1)
    if of == "group_lanes" and first:
        return Scalar(required(position.lanes))
    return Scalar(code.vectors.constant(0 if of in ("lane", "thread", "group") else 1, "i64"))


def _of_group(code: LaneContext, of: str, axis: int | None, group: tuple[int, ...]) -> ir.Value:
    position, vectors = code.position, code.vectors
    if of == "group_lanes":
        return vectors.constant(math.prod(group) if axis is None else (*group, 1, 1)[axis], "i64")
    if of == "group":
        return required(position.group) if axis is None else position.coordinates[axis]
    if axis is not None:
        return position.extents[axis]
    first, second, third = position.extents
    return vectors.integer("muli", vectors.integer("muli", first, second), third)


def _lane(code: LaneContext, axis: int | None, group: tuple[int, ...], of: str) -> Lane:
    """Index of the lane within its group, or within the launch, along `axis` or over all axes."""
    position, vectors = code.position, code.vectors
    extents = (*group, 1, 1)[:3]
    if axis is None:
        lane, extent, number = Linear(required(position.base), 1), math.prod(extents), required(position.group)
    else:
        lane, extent = _along(code, axis, extents), extents[axis]
        number = position.coordinates[axis] if of == "thread" else None
    if of == "lane":
        return lane
    start = vectors.integer("muli", required(number), vectors.constant(extent, "i64"))
    match lane:
        case Linear(base, stride):
            return Linear(vectors.integer("addi", start, base), stride)
        case Scalar(value):
            return Scalar(vectors.integer("addi", start, value))
        case _:
            wide = vectors.op("arith.addi", [vectors.vector(lane), vectors.splat(start)], vectors.wide("i64"))
            return Vector(wide)


def _along(code: LaneContext, axis: int, extents: tuple[int, ...]) -> Lane:
    """Return the lane's coordinate along one axis of its group; the last is the fastest.  As `shapes.id_shape` says."""
    position, vectors = code.position, code.vectors
    below, extent = math.prod(extents[axis + 1 :]), extents[axis]
    if extent == 1:
        return Scalar(vectors.constant(0, "i64"))
    if below == 1 and math.prod(extents) == extent:
        return Linear(required(position.base), 1)
    if below % LANES == 0 or (below == 1 and extent % LANES == 0):
        value = vectors.integer("divui", required(position.base), vectors.constant(below, "i64"))
        value = vectors.integer("remui", value, vectors.constant(extent, "i64"))
        return Linear(value, 1) if below == 1 else Scalar(value)
    kind = vectors.wide("i32")
    first = vectors.op("arith.trunci", [required(position.base)], "i32")
    index = vectors.op("arith.addi", [vectors.splat(first), vectors.iota("i32")], kind)
    index = vectors.op("arith.divui", [index, vectors.constant(below, kind)], kind)
    index = vectors.op("arith.remui", [index, vectors.constant(extent, kind)], kind)
    return Vector(vectors.op("arith.extui", [index], vectors.wide("i64")))


# -- shuffles --------------------------------------------------------------------------------------------------


def shuffle(code: LaneContext, node: Node, mask: Mask) -> None:
    """`tessera.shuffle`: a lane whose source is out of range or inactive keeps its own value."""
    value, lane = node.operands
    if code.shape(value).scalar:
        code.define(node.results[0], code.lane(value))
        return
    mode, width = node.text("mode"), node.number("width") or LANES
    known = code.shape(lane).known
    if known is None:
        result = _by_index(code, code.vector(value), _sources(code, lane, mode, width), mask)
    else:
        result = _by_pattern(code, code.vector(value), [_source(n, known, mode, width) for n in range(LANES)], mask)
    code.define(node.results[0], Vector(result))


def _source(lane: int, amount: int, mode: str, width: int) -> int:
    """Return the lane that `lane` reads from."""
    place = lane % width
    wanted = {"down": place + amount, "up": place - amount, "xor": place ^ amount, "idx": amount}[mode]
    return lane - place + wanted if 0 <= wanted < width else lane


def _by_pattern(code: LaneContext, value: ir.Value, sources: list[int], mask: Mask) -> ir.Value:
    vectors = code.vectors
    pattern = {"mask": f"array<i64: {', '.join(map(str, sources))}>"}
    moved = vectors.op("vector.shuffle", [value, value], vectors.text(value.type), pattern)
    if mask.all:
        return moved
    bits = vectors.bits(mask)
    active = vectors.op("vector.shuffle", [bits, bits], vectors.wide("i1"), pattern)
    return vectors.select(active, moved, value)


def _sources(code: LaneContext, lane: ir.Value, mode: str, width: int) -> ir.Value:
    """Return the lane every lane reads from, as a vector of i32, for an amount that is not a constant."""
    vectors = code.vectors
    kind = vectors.wide("i32")

    def op(name: str, a: ir.Value, b: ir.Value) -> ir.Value:
        return vectors.op(f"arith.{name}", [a, b], kind)

    wide = vectors.wide("i64")
    bounded = vectors.op("arith.maxsi", [code.vector(lane), vectors.constant(-LANES, wide)], wide)
    bounded = vectors.op("arith.minsi", [bounded, vectors.constant(LANES, wide)], wide)
    amount = vectors.op("arith.trunci", [bounded], kind)
    own, place = vectors.iota("i32"), vectors.pattern([n % width for n in range(LANES)], "i32")
    wanted = {
        "down": lambda: op("addi", place, amount),
        "up": lambda: op("subi", place, amount),
        "xor": lambda: op("xori", place, amount),
        "idx": lambda: amount,
    }[mode]()
    inside = vectors.compare("ult", wanted, vectors.constant(width, kind), vectors.wide("i1"))
    section = vectors.pattern([n - n % width for n in range(LANES)], "i32")
    return vectors.select(inside, op("addi", section, wanted), own)


def _by_index(code: LaneContext, value: ir.Value, sources: ir.Value, mask: Mask) -> ir.Value:
    """Permute by way of memory."""
    kernel, vectors = code.kernel, code.vectors
    original, text = value, vectors.text(value.type)
    if text == vectors.wide("i1"):
        value = kernel.to_byte(value)
    stored = vectors.text(value.type).removeprefix(f"vector<{LANES}x").rstrip(">")
    size = int(stored.lstrip("bfi")) // 8
    place = kernel.scratch(LANES * size)
    kernel.store(value, place, size)
    operands = [kernel.element(place, sources, stored), vectors.constant(1, vectors.wide("i1")), value]
    moved = vectors.op("llvm.intr.masked.gather", operands, vectors.wide(stored), {"alignment": f"{size} : i32"})
    moved = kernel.to_bool(moved) if value is not original else moved
    if mask.all:
        return moved
    word = vectors.splat(vectors.word(mask))
    bit = vectors.op("arith.shrui", [word, sources], vectors.wide("i32"))
    active = vectors.op("arith.trunci", [bit], vectors.wide("i1"))
    return vectors.select(active, moved, original)
