"""Verifiers of the `tessera` operations, of their operands and attributes: a function an operation.

A function returns what is wrong, in words, or None.  `dialect.py` attaches them as verifiers, which report at the
operation's own location.
"""

import math

from tessera.core.base.dtypes import COMPUTE_TYPES
from tessera.core.mlir import AnyOp, ir
from tessera.core.program.spec import ID_KINDS, REDUCTIONS

_MODES = ("down", "up", "xor", "idx")
_WARP = 32


def identifier(op: AnyOp) -> str | None:
    """`id`: a known kind, an axis below 3."""
    of = str(ir.StringAttr(op.attributes["of"]).value)
    if of not in ID_KINDS:
        return f"unknown kind '{of}'"
    if "axis" in op.attributes and not 0 <= ir.IntegerAttr(op.attributes["axis"]).value < 3:
        return "axis must be 0, 1 or 2"
    return None


def read(op: AnyOp) -> str | None:
    """`read`: one index an axis, the memory's element as result."""
    return _element(op.operands[0], op.results[0].type, len(op.operands) - 1, op)


def write(op: AnyOp) -> str | None:
    """`write`: one index an axis, a value of the memory's element type."""
    return _element(op.operands[0], op.operands[1].type, len(op.operands) - 2, op)


def load(op: AnyOp) -> str | None:
    """`load`: a tile of `extents` without the dropped axes."""
    return _block(op, op.operands[0], op.results[0].type, len(op.operands) - 1)


def gather(op: AnyOp) -> str | None:
    """`gather`: as `load`, with one index an element, along an axis that the tile has."""
    (shape, element), (wanted, _) = tile(op.operands[1].type), tile(op.results[0].type)
    if shape != wanted or str(element) != "i64":
        return f"{op.operands[1].type} has not one index for each element of {op.results[0].type}"
    axis = ir.IntegerAttr(op.attributes["axis"]).value
    if not 0 <= axis < len(op.operands) - 2 or axis in list(ir.DenseI64ArrayAttr(op.attributes["dropped"])):
        return f"the tile has no axis {axis} of the memory"
    return _block(op, op.operands[0], op.results[0].type, len(op.operands) - 2)


def store(op: AnyOp) -> str | None:
    """`store`: a tile of `extents` without the dropped axes."""
    return _block(op, op.operands[0], op.operands[1].type, len(op.operands) - 2)


def masked_store(op: AnyOp) -> str | None:
    """`masked_store`: as `store`, with one flag an element."""
    mask = op.operands[2].type
    if tile(mask)[0] != tile(op.operands[1].type)[0] or str(tile(mask)[1]) != "i1":
        return f"{mask} has not one flag for each element of {op.operands[1].type}"
    return _block(op, op.operands[0], op.operands[1].type, len(op.operands) - 3)


def valid(op: AnyOp) -> str | None:
    """`valid`: one flag an element."""
    (shape, _), (flags, element) = tile(op.operands[0].type), tile(op.results[0].type)
    return None if shape and shape == flags and str(element) == "i1" else "must give one flag for each element"


def fill(op: AnyOp) -> str | None:
    """`fill`: a tile, and a scalar of its element type."""
    shape, element = tile(op.operands[0].type)
    fits = shape and op.operands[1].type == element and op.results[0].type == op.operands[0].type
    return None if fits else "the value must be of the tile's element type, and the result of its type"


def copy(op: AnyOp) -> str | None:
    """`copy`: a shared buffer that holds `extents` without the dropped axes."""
    destination = op.operands[0].type
    if not isinstance(destination, ir.MemRefType) or not is_shared(destination):
        return "the destination must be a shared buffer"
    if isinstance(op.operands[1].type, ir.MemRefType) and is_shared(op.operands[1].type):
        return "the source must be an array"
    return _block(op, op.operands[1], destination, len(op.operands) - 2)


def alloc(op: AnyOp) -> str | None:
    """`alloc`: a shared buffer with fixed extents."""
    kind = op.results[0].type
    if not isinstance(kind, ir.MemRefType) or not is_shared(kind):
        return "must give a shared buffer"
    return None if kind.has_static_shape else "every extent must be a number"


def group_sync(op: AnyOp) -> str | None:
    """`group_sync`: a positive size."""
    return None if ir.IntegerAttr(op.attributes["size"]).value > 0 else "size must be positive"


def shuffle(op: AnyOp) -> str | None:
    """`shuffle`: a known mode, a width that is a power of two up to a warp, one scalar type."""
    mode = ir.StringAttr(op.attributes["mode"]).value
    if mode not in _MODES:
        return f"unknown mode '{mode}'"
    width = ir.IntegerAttr(op.attributes["width"]).value
    if not 1 <= width <= _WARP or width & (width - 1):
        return f"width {width} is not a power of two up to {_WARP}"
    return None if op.operands[0].type == op.results[0].type else "operand and result differ in type"


def arange(op: AnyOp) -> str | None:
    """`arange`: an i64 tile of rank 1."""
    shape, element = tile(op.results[0].type)
    return None if len(shape) == 1 and str(element) == "i64" else "must give an i64 tile of rank 1"


def broadcast(op: AnyOp) -> str | None:
    """`broadcast`: same rank, extents equal or repeated from 1."""
    (before, element), (after, result) = tile(op.operands[0].type), tile(op.results[0].type)
    fits = len(before) == len(after) and all(b in (1, a) for b, a in zip(before, after, strict=True))
    return None if fits and element == result else f"{before} does not broadcast to {after}"


def reshape(op: AnyOp) -> str | None:
    """`reshape`: as many elements before as after."""
    (before, element), (after, result) = tile(op.operands[0].type), tile(op.results[0].type)
    return None if math.prod(before) == math.prod(after) and element == result else f"{before} does not fit {after}"


def transpose(op: AnyOp) -> str | None:
    """`transpose`: `permutation` orders the axes."""
    (before, element), (after, result) = tile(op.operands[0].type), tile(op.results[0].type)
    order = list(ir.DenseI64ArrayAttr(op.attributes["permutation"]))
    if sorted(order) != list(range(len(before))):
        return f"{order} is not a permutation of {len(before)} axes"
    fits = [before[axis] for axis in order] == after and element == result
    return None if fits else f"{before} permuted by {order} is not {after}"


def reduce(op: AnyOp) -> str | None:
    """`reduce`: the operand's shape without `axis`; a scalar when nothing is left."""
    shape, element = tile(op.operands[0].type)
    if ir.StringAttr(op.attributes["kind"]).value not in REDUCTIONS:
        return f"kind must be one of {', '.join(REDUCTIONS)}"
    left: list[int] = []
    if "axis" in op.attributes:
        axis = ir.IntegerAttr(op.attributes["axis"]).value
        if not 0 <= axis < len(shape):
            return f"axis {axis} of a tile of rank {len(shape)}"
        left = shape[:axis] + shape[axis + 1 :]
    result = op.results[0].type
    if left:
        return None if tile(result) == (left, element) else f"the result must be a tile of {left}"
    return None if result == element else "the result must be the element type"


def softmax(op: AnyOp) -> str | None:
    """`softmax`: a float tile, an axis of it."""
    shape, element = tile(op.operands[0].type)
    if op.operands[0].type != op.results[0].type:
        return "operand and result differ in type"
    if not isinstance(element, ir.FloatType):
        return "only of floats"
    axis = ir.IntegerAttr(op.attributes["axis"]).value
    return None if 0 <= axis < len(shape) else f"axis {axis} of a tile of rank {len(shape)}"


def dot(op: AnyOp) -> str | None:
    """`dot`: [M, K] x [K, N] (+ [M, N]) -> [M, N]."""
    (a, a_element), (b, b_element), (c, _) = (tile(v.type) for v in (op.operands[0], op.operands[1], op.results[0]))
    if len(a) != 2 or len(b) != 2 or a[1] != b[0] or c != [a[0], b[1]]:
        return f"shapes {a} x {b} -> {c} do not agree"
    if a_element != b_element:
        return f"{a_element} times {b_element}"
    if len(op.operands) > 3:
        return "more than one accumulator"
    if len(op.operands) == 3 and op.operands[2].type != op.results[0].type:
        return "accumulator and result differ in type"
    return _computed(op, str(a_element)) if "compute" in op.attributes else None


def _computed(op: AnyOp, element: str) -> str | None:
    """`dot` with `compute`: a known format, of operands that can be rounded to it, in a product that is not `exact`."""
    name = ir.StringAttr(op.attributes["compute"]).value
    if name not in COMPUTE_TYPES:
        return f"unknown format '{name}'"
    if element != COMPUTE_TYPES[name].operand_dtype.name:
        return f"factors of {element} are not rounded to {name}"
    return "rounded factors in an exact product" if ir.BoolAttr(op.attributes["exact"]).value else None


def is_shared(memory: ir.Type) -> bool:
    """Return whether a memref type is a buffer in the group's shared memory."""
    space = ir.MemRefType(memory).memory_space
    return space is not None and str(space).strip('"') in ("shared", "shared.xor")


def tile(kind: ir.Type) -> tuple[list[int], ir.Type]:
    """Shape and element type of a tile's type; ([], type) of anything else, which fits no tile."""
    if not isinstance(kind, ir.RankedTensorType):
        return [], kind
    return list(kind.shape), kind.element_type


def _stored(memory: ir.Type, value: ir.Type) -> bool:
    """Return whether values of element type `value` live in `memory`: a bool (i1) lives in a byte."""
    return ir.ShapedType(memory).element_type == value or (
        str(value) == "i1" and str(ir.ShapedType(memory).element_type) == "i8"
    )


def _element(memory: ir.Value, value: ir.Type, indices: int, op: AnyOp) -> str | None:
    kind = memory.type
    if not isinstance(kind, ir.MemRefType):
        return "the memory must be an array or a shared buffer"
    if indices != kind.rank:
        return f"{indices} indices for {kind.rank} axes"
    if len(ir.DenseBoolArrayAttr(op.attributes["in_bounds"])) != kind.rank:
        return "in_bounds must have one flag an axis"
    return None if _stored(kind, value) else f"{value} in a memory of {kind.element_type}"


def _block(op: AnyOp, memory: ir.Value, block: ir.Type, starts: int) -> str | None:
    kind = memory.type
    if not isinstance(kind, ir.MemRefType):
        return "the memory must be an array or a shared buffer"
    extents = list(ir.DenseI64ArrayAttr(op.attributes["extents"]))
    dropped = list(ir.DenseI64ArrayAttr(op.attributes["dropped"]))
    flags = len(ir.DenseBoolArrayAttr(op.attributes["in_bounds"]))
    if not kind.rank == starts == len(extents) == flags:
        return f"{starts} starts, {len(extents)} extents and {flags} flags for {kind.rank} axes"
    if min(extents, default=1) < 1 or any(extents[axis] != 1 for axis in dropped):
        return "extents must be positive, those of dropped axes 1"
    shape = [extent for axis, extent in enumerate(extents) if axis not in dropped]
    if not isinstance(block, ir.ShapedType) or list(block.shape) != shape:
        return f"extents {extents} without axes {dropped} are not the shape of {block}"
    element = block.element_type
    return None if _stored(kind, element) else f"{element} in a memory of {kind.element_type}"
