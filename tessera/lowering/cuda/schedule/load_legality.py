"""Check which loads can be copied to shared memory unchanged: by TMA, or by the consumer warps (cp.async)."""

import math

from tessera.core.mlir import AnyOp
from tessera.core.program.types import Array
from tessera.lowering.base.attributes import dropped_axes
from tessera.lowering.base.ir_walk import element_of, shape_of
from tessera.lowering.cuda.base.index_builder import width
from tessera.lowering.cuda.schedule.context import ScheduleContext
from tessera.lowering.cuda.schedule.multibuffer import is_vector
from tessera.lowering.cuda.schedule.row_padding import is_gapless
from tessera.lowering.cuda.storage.global_access import begins_aligned


def is_tma_load(kernel: ScheduleContext, load: AnyOp) -> bool:
    """Return whether TMA can do a load: of an array that is aligned, or copied to padded rows."""
    kind = kernel.array(load.operands[0])
    return (kind.aligned or load in kernel.plan.padded_rows) and fits_copy_engine(kernel, load)


def fits_copy_engine(kernel: ScheduleContext, load: AnyOp) -> bool:
    """Return whether TMA has boxes of a load's shape and alignment, on an array that the kernel only reads."""
    return _has_box(kernel, load) and begins_aligned(kernel.array(load.operands[0]), list(load.operands)[-1])


def begins_anywhere(kernel: ScheduleContext, load: AnyOp) -> bool:
    """Return whether TMA could do a load, perhaps of a copy with padded rows, if it began at a multiple of 16 bytes."""
    kind = kernel.array(load.operands[0])
    readable = kind.aligned or (is_gapless(kind) and bool(kernel.option("pad_rows", 1)))
    return readable and _has_box(kernel, load) and not begins_aligned(kind, list(load.operands)[-1])


def _has_box(kernel: ScheduleContext, load: AnyOp) -> bool:
    """Return whether TMA has boxes of a load's shape, and the kernel only reads its array."""
    kind = kernel.array(load.operands[0])
    if not kernel.divides or not kernel.only_reads(load) or len(kind.shape) > 5:
        return False
    dropped = dropped_axes(load)
    last = len(kind.shape) - 1
    shape = shape_of(load.results[0])
    if last in dropped or len(shape) < 2 or math.prod(shape[:-1]) > 256:
        return False
    return shape[-1] * width(element_of(load.results[0])) // 8 >= 32


def is_tma_vector_load(kernel: ScheduleContext, load: AnyOp) -> bool:
    """Return whether TMA can do a load of a vector: of an aligned array that the kernel only reads."""
    kind = kernel.array(load.operands[0])
    if not kind.aligned or not begins_aligned(kind, list(load.operands)[-1]):
        return False
    if not kernel.only_reads(load) or not is_vector(load):
        return False
    (extent,) = shape_of(load.results[0])
    dropped = dropped_axes(load)
    return len(kind.shape) - 1 not in dropped and extent <= 256 and extent * kind.dtype.bytes % 16 == 0


def is_cp_async_load(kernel: ScheduleContext, load: AnyOp) -> bool:
    """Return whether lanes can copy a load with cp.async: a tile of rows of any array that the kernel only reads.

    Of a box of several axes they copy 16 bytes of a pixel at a time, where these are aligned.
    """
    numbers = kernel.parameters(load.operands[0])
    if not numbers or numbers & kernel.plan.written:
        return False
    kind = kernel.program.parameters[next(iter(numbers))].value.type
    shape = shape_of(load.results[0])
    dropped = dropped_axes(load)
    if not isinstance(kind, Array) or len(shape) < 2 or len(kind.shape) - 1 in dropped:
        return False
    if len(shape) > 2 and (kernel.access_bytes(load) != 16 or any(extent & (extent - 1) for extent in shape)):
        return False
    # Eight rows are what swizzles repeat after, and 16 bytes what they move.
    return math.prod(shape[:-1]) >= 8 and shape[-1] * kind.dtype.bytes >= 16
