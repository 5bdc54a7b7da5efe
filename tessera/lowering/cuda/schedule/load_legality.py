"""Which loads can go to shared memory as they are: by the copy engine, or by the team itself."""

from typing import Any

from tessera.core.program.types import Array
from tessera.lowering.base.attributes import dropped_axes
from tessera.lowering.cuda.base.index_builder import width
from tessera.lowering.cuda.schedule.context import ScheduleContext
from tessera.lowering.cuda.schedule.multibuffer import is_vector
from tessera.lowering.cuda.schedule.row_padding import is_gapless
from tessera.lowering.cuda.storage.global_access import begins_aligned


def copied_ahead(kernel: ScheduleContext, load: Any) -> bool:
    """Whether the copy engine does a load: of an array that is aligned, or realigned."""
    kind = kernel.array(load.operands[0])
    return (kind.aligned or load in kernel.plan.realigned) and fits_copy_engine(kernel, load)


def fits_copy_engine(kernel: ScheduleContext, load: Any) -> bool:
    """Whether the copy engine has windows of a load's shape and place, on an array that the kernel only reads."""
    return _has_box(kernel, load) and begins_aligned(kernel.array(load.operands[0]), list(load.operands)[-1])


def begins_anywhere(kernel: ScheduleContext, load: Any) -> bool:
    """Whether the copy engine would do a load, perhaps of a realigned copy, if it were sure to begin at 16 bytes."""
    kind = kernel.array(load.operands[0])
    readable = kind.aligned or (is_gapless(kind) and bool(kernel.option("pad_rows", 1)))
    return readable and _has_box(kernel, load) and not begins_aligned(kind, list(load.operands)[-1])


def _has_box(kernel: ScheduleContext, load: Any) -> bool:
    """Whether the copy engine has windows of a load's shape, and the kernel only reads its array."""
    kind = kernel.array(load.operands[0])
    if not kernel.divides or not kernel.only_reads(load) or len(kind.shape) > 5:
        return False
    dropped = dropped_axes(load)
    last = len(kind.shape) - 1
    shape = load.results[0].type.shape
    if last in dropped or len(shape) != 2 or shape[0] > 256:
        return False
    return shape[1] * width(str(load.results[0].type.element_type)) // 8 >= 32


def vector_copied_ahead(kernel: ScheduleContext, load: Any) -> bool:
    """Whether the copy engine can do a load of a vector: of an aligned array that the kernel only reads."""
    kind = kernel.array(load.operands[0])
    if not kind.aligned or not begins_aligned(kind, list(load.operands)[-1]):
        return False
    if not kernel.only_reads(load) or not is_vector(load):
        return False
    (extent,) = load.results[0].type.shape
    dropped = dropped_axes(load)
    return len(kind.shape) - 1 not in dropped and extent <= 256 and extent * kind.dtype.bytes % 16 == 0


def copied_by_team(kernel: ScheduleContext, load: Any) -> bool:
    """Whether lanes can copy a load to shared memory: of any array that the kernel only reads, a tile of rows."""
    numbers = kernel.parameters(load.operands[0])
    if not numbers or numbers & kernel.plan.written:
        return False
    kind = kernel.program.parameters[next(iter(numbers))].value.type
    shape = load.results[0].type.shape
    dropped = dropped_axes(load)
    if not isinstance(kind, Array) or len(shape) != 2 or len(kind.shape) - 1 in dropped:
        return False
    # Eight rows are what swizzles repeat after, and 16 bytes what they move.
    return shape[0] >= 8 and shape[1] * kind.dtype.bytes >= 16
