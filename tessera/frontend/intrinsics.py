"""What each operation of the language makes: one handler a name, found by `HANDLERS[intrinsic.name]`.

A handler takes the context, the span of the call, and the call's arguments by the names users may write.
"""

import math
from collections.abc import Callable
from typing import Final

from tessera.core import dtypes
from tessera.core.dtypes import DType, promote
from tessera.core.mistakes import (
    BadAxis,
    BadCopy,
    BadReshape,
    BadWidth,
    DotShape,
    MmaOutsideRange,
    TypeMismatch,
    UnknownSwizzle,
    WrongArguments,
    WrongRank,
)
from tessera.core.program.program import Value
from tessera.core.program.types import Array, Scalar, Shared, Tile
from tessera.core.source import Span
from tessera.frontend.bindings import BlockIndex, CooperativeGroup, Region, SharedHole, items_of
from tessera.frontend.builder import dtype_of_value, memory_type, shape_of
from tessera.frontend.context import Context
from tessera.frontend.describe import describe
from tessera.frontend.edges import without_outside
from tessera.frontend.memory import store
from tessera.frontend.namespace import MATH, dtype_of

Handler = Callable[..., object]
_I64: Final = Scalar(dtypes.i64)


def _id(context: Context, span: Span, of: str, axis: object = None) -> Value:
    number = None if axis is None else context.builder.fixed(axis, "the axis", span)
    if number is not None and not 0 <= number <= 2:
        raise BadAxis(f"a grid has axes 0, 1 and 2, not {number}", span)
    if of in ("lane", "thread", "lane_in_warp", "warp"):
        context.lane_ids = True
    if of in ("group", "grid_groups", "thread", "group_lanes"):
        context.group_ids = True
    if of == "group_lanes" and context.group is not None and number is None:
        return context.builder.constant(math.prod(context.group), dtypes.i64, span)
    return context.builder.value("id", (), _I64, span, of=of, axis=number)


def linear_id(context: Context, span: Span, axis: object = None) -> Value:
    """`tile.linear_id()`: the lane's index within its group."""
    return _id(context, span, "lane", axis)


def lane_id(context: Context, span: Span) -> Value:
    """`tile.lane_id()`: the lane's index within its warp."""
    return _id(context, span, "lane_in_warp")


def warp_id(context: Context, span: Span) -> Value:
    """`tile.warp_id()`: the warp's index within its group."""
    return _id(context, span, "warp")


def thread_id(context: Context, span: Span, axis: object = None) -> Value:
    """`launch.thread_id()`: the lane's index within the launch."""
    return _id(context, span, "thread", axis)


def group_id(context: Context, span: Span, axis: object = None) -> Value:
    """`tile.group_id(axis)`: the group's index within the grid."""
    return _id(context, span, "group", axis)


def group_linear_id(context: Context, span: Span) -> Value:
    """`group_linear_id()`: the group's index within the grid."""
    return _id(context, span, "group")


def group_lanes(context: Context, span: Span) -> Value:
    """`group_tile_count()`: lanes in a group."""
    return _id(context, span, "group_lanes")


def grid_groups(context: Context, span: Span, axis: object = None) -> Value:
    """`grid_group_count()`: groups in the grid."""
    return _id(context, span, "grid_groups", axis)


# Memory


def load(context: Context, span: Span, array: object, index: object = None, cache: str = "") -> object:
    """`tile.load(X, index=i)`, `tile.load(X[a:b])` or `tile.load(X)`."""
    if isinstance(array, Region) and index is None:
        return context.builder.load(array, span, cache)
    return context.builder.load(_indexed(context, array, index, span), span, cache)


def store_(
    context: Context, span: Span, array: object, index: object = None, value: object = None, cache: str = ""
) -> None:
    """`tile.store(Y, index=i, value=v)`, or `tile.store(Y[a:b], value=t)`."""
    if value is None:
        raise WrongArguments("tile.store needs a value", span, "tile.store(Y, index=i, value=v)")
    region = array if isinstance(array, Region) else _indexed(context, array, index, span)
    store(context, region, value, span, cache)


def _indexed(context: Context, array: object, index: object, span: Span) -> Region:
    memory = _memory(array, span)
    if index is None:
        return context.builder.whole(memory)
    indices = items_of(index) or [index]
    shape = memory_type(memory).shape
    blocks = [i for i in indices if isinstance(i, BlockIndex)]
    if len(blocks) == 1 and len(indices) == 1:
        return _block_region(context, memory, blocks[0])
    if len(indices) != len(shape):
        raise WrongRank(f"{memory.name} has {len(shape)} axes and is given {len(indices)} indices", span)
    starts = tuple(i.start if isinstance(i, BlockIndex) else context.builder.index(i, span) for i in indices)
    extents = tuple(i.extent if isinstance(i, BlockIndex) else 1 for i in indices)
    dropped = tuple(axis for axis, i in enumerate(indices) if not isinstance(i, BlockIndex))
    return Region(memory, starts, extents, dropped)


def _memory(array: object, span: Span) -> Value:
    if isinstance(array, Value) and isinstance(array.type, Array | Shared):
        return array
    raise TypeMismatch(f"an array is needed here, and this is {describe(array)}", span, "give a parameter or a buffer")


def _block_region(context: Context, memory: Value, block: BlockIndex) -> Region:
    """A block of rows (or of another axis), all of the other axes."""
    whole = context.builder.whole if len(memory_type(memory).shape) > 1 else None
    extents = list(_other_extents(context, memory, block.axis)) if whole else [block.extent]
    starts: list[Value | int] = [0] * len(extents)
    extents[block.axis], starts[block.axis] = block.extent, block.start
    return Region(memory, tuple(starts), tuple(extents), ())


def _other_extents(context: Context, memory: Value, axis: int) -> list[int]:
    found: list[int] = []
    for number, extent in enumerate(memory_type(memory).shape):
        if number == axis:
            found.append(0)
            continue
        if isinstance(extent, str):
            context.builder.knowledge.fix(extent)
        else:
            found.append(extent)
    return found


def alloc_shared(
    context: Context, span: Span, *shape: object, dtype: object = None, swizzle: object = None
) -> Value | SharedHole:
    """`tshared.alloc[dtype](shape..., swizzle="xor")`; without shape the first copy tells it."""
    if swizzle not in (None, "xor"):
        raise UnknownSwizzle(f"there is no swizzle {swizzle!r}", span, 'use swizzle="xor", or none')
    if not shape:
        known = context.builder.knowledge.shared.get(span)
        return _allocate(context, known, span) if known else SharedHole(frozenset({span}))
    element = dtype_of(dtype) if dtype is not None else dtypes.f32
    if element is None:
        raise WrongArguments(f"{describe(dtype)} is not a dtype", span, "tshared.alloc[f32](128)")
    extents = tuple(context.builder.fixed(e, "the shape of shared memory", span) for e in _flatten(shape))
    if any(e <= 0 for e in extents):
        raise WrongArguments(f"shared memory of shape {extents}", span, "every extent must be at least 1")
    return _allocate(context, Shared(element, extents, "xor" if swizzle else None), span)


def _allocate(context: Context, kind: Shared, span: Span) -> Value:
    context.shared_bytes += kind.bytes
    context.sync_span = context.sync_span or span
    return context.builder.value("alloc", (), kind, span)


def copy_shared(context: Context, span: Span, dst: object, src: object) -> None:
    """`cp_async.shared.global(dst, src)`: the bytes arrive by the next barrier."""
    region = src if isinstance(src, Region) else context.builder.whole(_memory(src, span))
    if not isinstance(region.memory.type, Array):
        raise BadCopy("the source must be an array in global memory", span, "copy a slice of a parameter")
    if isinstance(dst, SharedHole):
        context.builder.knowledge.resolve(dst, Shared(region.memory.type.dtype, region.shape))
    target = _memory(dst, span)
    if not isinstance(target.type, Shared):
        raise BadCopy(f"{describe(dst)} is not shared memory", span, "allocate it with tshared.alloc")
    if target.type.shape != region.shape or target.type.dtype != region.memory.type.dtype:
        raise BadCopy(
            f"the buffer holds {target.type.shape} of {target.type.dtype}, the source gives {region.shape} of "
            f"{region.memory.type.dtype}",
            span,
            "make both sides the same shape and dtype",
        )
    starts = [context.builder.index(s, span) for s in region.starts]
    context.builder.emit(
        "copy", (target, region.memory, *starts), (), span, (), extents=region.extents, dropped=region.dropped
    )


def copy(context: Context, span: Span, target: object, source: object) -> object:
    """`tile.cp_async(Q, block)` gives the block as a tile; `tile.cp_async(buf, A[...])` fills shared memory."""
    if isinstance(target, SharedHole) or (isinstance(target, Value) and isinstance(target.type, Shared)):
        return copy_shared(context, span, target, source)
    return context.builder.load(_indexed(context, target, source, span), span)


def barrier(context: Context, span: Span) -> None:
    """`tbarrier()`, `tile.barrier()`."""
    context.sync_span = context.sync_span or span
    context.builder.emit("barrier", (), (), span)


# Tiles


def _tile(context: Context, binding: object, span: Span, what: str) -> Value:
    value = context.builder.as_value(binding, span)
    if not isinstance(value.type, Tile):
        raise TypeMismatch(f"{what} needs a tile, and this is {describe(value)}", span, "load a slice first")
    return value


def _axis(value: Value, axis: object, context: Context, span: Span) -> int:
    number = context.builder.fixed(axis, "the axis", span)
    rank = len(shape_of(value))
    if not -rank <= number < rank:
        raise BadAxis(f"{describe(value)} has no axis {number}", span, f"use {-rank} to {rank - 1}")
    return number % rank


def dot(context: Context, span: Span, a: object, b: object, acc: object = None, exact: bool = False) -> Value:
    """`tile.dot(a, b)`: f16 and bf16 accumulate in f32, integers in i32, and that is the result's dtype."""
    x, y = _tile(context, a, span, "tile.dot"), _tile(context, b, span, "tile.dot")
    (m, k), (k2, n) = _matrix(x, span), _matrix(y, span)
    if k != k2:
        raise DotShape(
            f"({m}, {k}) times ({k2}, {n})", span, "the first's columns must equal the second's rows; .T transposes"
        )
    dtype = promote(dtype_of_value(x), dtype_of_value(y))
    x, y = context.builder.cast(x, dtype, span), context.builder.cast(y, dtype, span)
    total = accumulator_dtype(dtype)
    operands = [x, y]
    if acc is not None:
        start = context.builder.as_value(acc, span, total)
        operands.append(context.builder.broadcast_to(start, (m, n), span))
    return context.builder.value("dot", operands, Tile(total, (m, n)), span, exact=bool(exact))


def accumulator_dtype(dtype: DType) -> DType:
    """What products of `dtype` are summed in."""
    if dtype.is_float:
        return dtypes.f64 if dtype == dtypes.f64 else dtypes.f32
    return dtypes.i64 if dtype.bits == 64 else dtypes.i32


def _matrix(value: Value, span: Span) -> tuple[int, int]:
    shape = shape_of(value)
    if len(shape) != 2:
        raise DotShape(f"{describe(value)} is not a matrix", span, "tile.dot takes two tiles of rank 2")
    return shape[0], shape[1]


def mma(context: Context, span: Span, a: object, b: object, accum: object = None, acc: object = None) -> Value:
    """`tile.mma(sA, sB, accum=f32)` on tiles."""
    result = dot(context, span, a, b, acc)
    dtype = dtype_of(accum) if accum is not None else None
    return context.builder.cast(result, dtype, span) if dtype else result


def mma_sync(context: Context, span: Span, m: object, n: object, k: object) -> None:
    """`tile.mma_sync(m, n, k)`: accumulate A[m, k] times B[k, n]."""
    if not context.mma:
        raise MmaOutsideRange(
            "tile.mma_sync has no blocks here", span, "use it in: for m, n, k in tile.mma(A, B, C, ...)"
        )
    loop = context.mma[-1]
    if not (isinstance(m, BlockIndex) and isinstance(n, BlockIndex) and isinstance(k, BlockIndex)):
        raise WrongArguments("tile.mma_sync takes the blocks of its loop", span, "tile.mma_sync(m, n, k)")
    left = context.builder.load(Region(loop.a, (m.start, k.start), (m.extent, k.extent), ()), span)
    right = context.builder.load(Region(loop.b, (k.start, n.start), (k.extent, n.extent), ()), span)
    context.scope[loop.accumulator] = dot(context, span, left, right, context.scope[loop.accumulator])


def softmax(context: Context, span: Span, x: object, axis: object = -1) -> Value:
    """`tile.softmax(x, axis=-1)`."""
    value = _tile(context, x, span, "tile.softmax")
    if not dtype_of_value(value).is_float:
        value = context.builder.cast(value, dtypes.f32, span)
    value = without_outside(context.builder, value, "max", _axis(value, axis, context, span), span)
    return context.builder.value("softmax", (value,), value.type, span, axis=_axis(value, axis, context, span))


def relu(context: Context, span: Span, x: object) -> object:
    """`max(x, 0)`."""
    return context.builder.binary("max", x, 0, span)


def _reduction(kind: str) -> Handler:
    def reduce(context: Context, span: Span, x: object, axis: object = None, keepdims: bool = False) -> Value:
        value = context.builder.as_value(x, span)
        shape = shape_of(value)
        if not shape:
            return value
        number = None if axis is None else _axis(value, axis, context, span)
        dtype = dtype_of_value(value)
        if dtype.kind == "bool" and kind == "sum":
            value, dtype = context.builder.cast(value, dtypes.i64, span), dtypes.i64
        if kind != "sum":
            value = without_outside(context.builder, value, kind, number, span)
        rest = () if number is None else tuple(e for i, e in enumerate(shape) if i != number)
        result = Tile(dtype, rest) if rest else Scalar(dtype)
        made = context.builder.value("reduce", (value,), result, span, kind=kind, axis=number)
        if not keepdims:
            return made
        kept = tuple(1 if number in (None, i) else e for i, e in enumerate(shape))
        return context.builder.reshape(made, kept, span) if rest else context.builder.broadcast_to(made, kept, span)

    reduce.__doc__ = f"`tile.{kind}(x, axis=None, keepdims=False)`."
    return reduce


def maximum(context: Context, span: Span, a: object, b: object) -> object:
    """Element-wise maximum."""
    return context.builder.binary("max", a, b, span)


def minimum(context: Context, span: Span, a: object, b: object) -> object:
    """Element-wise minimum."""
    return context.builder.binary("min", a, b, span)


def where(context: Context, span: Span, condition: object, a: object, b: object) -> Value:
    """`a` where `condition`, else `b`."""
    return context.builder.select(condition, a, b, span)


def fma(context: Context, span: Span, a: object, b: object, c: object) -> Value:
    """`a * b + c`, rounded once."""
    return context.builder.fma(a, b, c, span)


def transpose(context: Context, span: Span, x: object, *axes: object) -> Value:
    """`tile.transpose(x)` reverses the axes; with axes given, permutes them."""
    value = _tile(context, x, span, "tile.transpose")
    rank = len(shape_of(value))
    order = tuple(_axis(value, a, context, span) for a in _flatten(axes)) or tuple(reversed(range(rank)))
    if sorted(order) != list(range(rank)):
        raise BadAxis(f"{order} does not name each of {rank} axes once", span)
    shape = tuple(shape_of(value)[a] for a in order)
    return context.builder.value("transpose", (value,), Tile(dtype_of_value(value), shape), span, permutation=order)


def reshape(context: Context, span: Span, x: object, *shape: object) -> Value:
    """`tile.reshape(x, shape)`; one extent may be -1."""
    value = _tile(context, x, span, "tile.reshape")
    extents = [context.builder.fixed(e, "a shape", span) for e in _flatten(shape)]
    count = math.prod(shape_of(value))
    if extents.count(-1) == 1:
        known = -math.prod(extents)
        extents[extents.index(-1)] = count // known if known else 0
    if math.prod(extents) != count or not extents or min(extents) < 1:
        raise BadReshape(f"{describe(value)} has {count} elements, {tuple(extents)} has not", span)
    return context.builder.reshape(value, tuple(extents), span)


def broadcast(context: Context, span: Span, x: object, *shape: object) -> Value:
    """`tile.broadcast(x, shape)`."""
    extents = tuple(context.builder.fixed(e, "a shape", span) for e in _flatten(shape))
    return context.builder.broadcast_to(context.builder.as_value(x, span), extents, span)


def arange(context: Context, span: Span, start: object, stop: object = None) -> Value:
    """`tile.arange(n)` or `tile.arange(start, start + n)`, as i64."""
    builder = context.builder
    first, last = (0, start) if stop is None else (start, stop)
    low, high = builder.index(first, span), builder.index(last, span)
    symbols, count = builder.affine.symbols_of(*builder.affine.difference(high, low))
    if symbols:
        builder.knowledge.fix(symbols[0])
    if symbols is None or count < 1:
        raise WrongArguments(
            "the number of elements must be a positive constant", span, "tile.arange(start, start + 128)"
        )
    return builder.value("arange", (low,), Tile(dtypes.i64, (count,)), span)


def full(context: Context, span: Span, shape: object, value: object, dtype: object = None) -> Value:
    """`tile.full(shape, value, dtype=f32)`."""
    extents = tuple(context.builder.fixed(e, "a shape", span) for e in _flatten((shape,)))
    made = context.builder.as_value(value, span, dtype_of(dtype) if dtype is not None else None)
    if not extents or min(extents) < 1:
        raise WrongArguments(f"a tile of shape {extents}", span, "every extent must be at least 1")
    return context.builder.broadcast_to(made, extents, span)


def zeros(context: Context, span: Span, shape: object, dtype: object = dtypes.f32) -> Value:
    """`tile.zeros(shape, dtype=f32)`."""
    return full(context, span, shape, 0, dtype)


def cast(context: Context, span: Span, x: object, dtype: object) -> Value:
    """`tile.cast(x, f16)`."""
    wanted = dtype_of(dtype)
    if wanted is None:
        raise WrongArguments(f"{describe(dtype)} is not a dtype", span, "tile.cast(x, f16)")
    value = context.builder.operand(x, span)
    return context.builder.as_value(value, span, wanted)


def _flatten(items: tuple[object, ...]) -> list[object]:
    return [e for item in items for e in (items_of(item) or [item])]


# Lanes together


def _shuffle(mode: str) -> Handler:
    def shuffle(context: Context, span: Span, value: object, amount: object, width: object = 32) -> Value:
        builder = context.builder
        lanes = builder.fixed(width, "the width", span)
        if lanes not in (1, 2, 4, 8, 16, 32):
            raise BadWidth(f"a shuffle spans 1, 2, 4, 8, 16 or 32 lanes, not {lanes}", span)
        operand = builder.as_value(value, span)
        if not isinstance(operand.type, Scalar):
            raise TypeMismatch(f"shuffles exchange scalars, and this is {describe(operand)}", span)
        context.lane_ids = True
        return builder.value(
            "shuffle", (operand, builder.index(amount, span)), operand.type, span, mode=mode, width=lanes
        )

    shuffle.__doc__ = f"`tile.warp_shuffle_{mode}(value, amount)`."
    return shuffle


def cooperative_group(context: Context, span: Span, size: object) -> CooperativeGroup:
    """`tile.cooperative_group(size=64)`."""
    lanes = context.builder.fixed(size, "the size of a group", span)
    limit = math.prod(context.group) if context.group else 1024
    if lanes < 1 or lanes & (lanes - 1) or lanes > limit:
        raise BadWidth(f"a cooperative group has a power of two of lanes up to {limit}, not {lanes}", span)
    context.group_sizes.append(lanes)
    return CooperativeGroup(lanes)


def group_method(context: Context, span: Span, group: CooperativeGroup, name: str, *args: object) -> object:
    """`g.sync()`, `g.thread_rank()`, `g.size()`, `g.shuffle_down(v, n)`, ..."""
    if name == "sync":
        context.lane_ids = True
        context.builder.emit("group_sync", (), (), span, (), size=group.size)
        return None
    if name == "size":
        return group.size
    if name == "thread_rank":
        return context.builder.binary("mod", _id(context, span, "lane"), group.size, span)
    return HANDLERS[f"warp_{name}"](context, span, *args, width=min(32, group.size))


def _unary(opcode: str) -> Handler:
    def apply(context: Context, span: Span, x: object) -> object:
        return context.builder.unary(opcode, x, span)

    apply.__doc__ = f"Element-wise `{opcode}`."
    return apply


def accumulate_zero(context: Context, a: Value, b: Value, shape: tuple[int, int], span: Span) -> Value:
    """A tile of zeros to accumulate products of two arrays in."""
    dtype = accumulator_dtype(promote(memory_type(a).dtype, memory_type(b).dtype))
    return context.builder.broadcast_to(context.builder.constant(0, dtype, span), shape, span)


HANDLERS: Final[dict[str, Handler]] = {
    "linear_id": linear_id, "lane_id": lane_id, "warp_id": warp_id, "thread_id": thread_id, "group_id": group_id,
    "group_linear_id": group_linear_id, "group_lanes": group_lanes, "grid_groups": grid_groups,
    "load": load, "store": store_, "alloc_shared": alloc_shared, "copy_shared": copy_shared, "cp_async": copy,
    "barrier": barrier, "dot": dot, "mma": mma, "mma_sync": mma_sync, "softmax": softmax, "relu": relu,
    "sum": _reduction("sum"), "max": _reduction("max"), "min": _reduction("min"),
    "maximum": maximum, "minimum": minimum, "where": where, "fma": fma, "transpose": transpose, "reshape": reshape,
    "broadcast": broadcast, "arange": arange, "full": full, "zeros": zeros, "cast": cast,
    "warp_shuffle_down": _shuffle("down"), "warp_shuffle_up": _shuffle("up"), "warp_shuffle_xor": _shuffle("xor"),
    "warp_shuffle_idx": _shuffle("idx"), "cooperative_group": cooperative_group,
    **{name: _unary(name) for name in MATH},
}  # fmt: skip
