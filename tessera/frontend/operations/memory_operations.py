"""Memory: reading, writing, allocating and copying.

A handler takes the context, the span of the call, and the call's arguments by the names users may write.
"""

from typing import cast

from tessera.core.base import dtypes
from tessera.core.base.source import Span
from tessera.core.errors.catalog import BadCopy, TypeMismatch, UnknownSwizzle, WrongArguments, WrongRank
from tessera.core.program.program import Value
from tessera.core.program.types import Array, Shared
from tessera.frontend.base.bindings import BlockIndex, Region, SharedHole, flatten, items_of
from tessera.frontend.base.builder import memory_type, shape_of
from tessera.frontend.base.context import Context
from tessera.frontend.base.describe import describe
from tessera.frontend.base.subscripts import extent_value, store
from tessera.frontend.language.namespace import dtype_of


def load(
    context: Context, span: Span, array: object, index: object = None, cache: str = "", other: object = None
) -> object:
    """`tile.load(X, index=i)`, `tile.load(X[a:b])` or `tile.load(X)`; `other` in place of what is outside."""
    builder = context.builder
    region = array if isinstance(array, Region) and index is None else _indexed(context, array, index, span)
    loaded = builder.load(region, span, cache)
    if other is None:
        return loaded
    if shape_of(loaded):
        return builder.fill(loaded, other, span)
    return builder.select(_inside(context, region, span), loaded, other, span)


def _inside(context: Context, region: Region, span: Span) -> object:
    """Return whether the element that a region is lies inside its array."""
    builder, inside = context.builder, cast("object", True)
    for start, extent in zip(region.starts, memory_type(region.memory).shape, strict=True):
        for predicate, limit in (("ge", 0), ("lt", extent_value(builder, extent, span))):
            inside = builder.binary("and", inside, builder.compare(predicate, start, limit, span), span)
    return inside


def store_(
    context: Context, span: Span, array: object, index: object = None, value: object = None, cache: str = ""
) -> None:
    """`tile.store(Y, index=i, value=v)`, or `tile.store(Y[a:b], value=t)`."""
    if value is None:
        raise WrongArguments("tile.store needs a value", span, "tile.store(Y, index=i, value=v)")
    region = array if isinstance(array, Region) else _indexed(context, array, index, span)
    store(context, region, value, span, cache)


def scatter_add(context: Context, span: Span, array: object, value: object) -> None:
    """`tile.scatter_add(y[ids, a:b], t)`: add each row of a tile to the row that its index tells, in their order."""
    if not isinstance(array, Region) or array.gathered is None:
        raise WrongArguments(
            f"tile.scatter_add needs places that a tile of indices tells, and this is {describe(array)}", span,
            "tile.scatter_add(y[ids, a:b], t), where ids is a tile of integers of rank 1",
        )  # fmt: skip
    store(context, array, value, span, add=True)


def _indexed(context: Context, array: object, index: object, span: Span) -> Region:
    memory = memory_of(array, span)
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


def memory_of(array: object, span: Span) -> Value:
    """`array` as an array or buffer.  Raises TypeMismatch for anything else."""
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
        raise TypeMismatch(f"{describe(dtype)} is not a dtype", span, "tshared.alloc[f32](128)")
    extents = tuple(context.builder.fixed(e, "the shape of shared memory", span) for e in flatten(shape))
    if any(e <= 0 for e in extents):
        raise WrongArguments(f"shared memory of shape {extents}", span, "every extent must be at least 1")
    return _allocate(context, Shared(element, extents, "xor" if swizzle else None), span)


def _allocate(context: Context, kind: Shared, span: Span) -> Value:
    context.shared_bytes += kind.bytes
    context.sync_span = context.sync_span or span
    return context.builder.value("alloc", (), kind, span)


def copy_shared(context: Context, span: Span, dst: object, src: object) -> None:
    """`cp_async.shared.global(dst, src)`: the bytes arrive by the next barrier."""
    region = src if isinstance(src, Region) else context.builder.whole(memory_of(src, span))
    if not isinstance(region.memory.type, Array):
        raise BadCopy("the source must be an array in global memory", span, "copy a slice of a parameter")
    if isinstance(dst, SharedHole):
        context.builder.knowledge.resolve(dst, Shared(region.memory.type.dtype, region.shape))
    if isinstance(dst, Region):
        raise BadCopy(
            f"a copy fills a whole buffer, and this is {describe(dst)}", span,
            "allocate a buffer for each stage, or write s[0, :] = x[a:b], which does not run ahead",
        )  # fmt: skip
    target = memory_of(dst, span)
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
    memory = target.memory if isinstance(target, Region) else target
    if isinstance(memory, SharedHole) or (isinstance(memory, Value) and isinstance(memory.type, Shared)):
        return copy_shared(context, span, target, source)
    return context.builder.load(_indexed(context, target, source, span), span)


def barrier(context: Context, span: Span) -> None:
    """`tbarrier()`, `tile.barrier()`."""
    context.sync_span = context.sync_span or span
    context.builder.emit("barrier", (), (), span)
