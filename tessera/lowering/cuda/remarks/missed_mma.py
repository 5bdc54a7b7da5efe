"""Remark on matrix products that tensor cores could compute but do not: why, and what to do about it."""

from collections.abc import Iterable, Sequence
from typing import Final

from tessera.core.artifact import Remark
from tessera.core.base.source import NOWHERE
from tessera.core.mlir import AnyOp
from tessera.core.targets import Architecture
from tessera.core.tile.dialect import COMPUTE
from tessera.core.tile.location import spans
from tessera.lowering.base.ir_walk import element_of, shape_of
from tessera.lowering.cuda.schedule.context import Refusal
from tessera.lowering.cuda.schedule.mma_selection import FMA, fills_instruction, is_exact, is_padded, least_extents
from tessera.lowering.cuda.schedule.view import ScheduleView
from tessera.lowering.tile.pack_floats import OPERAND_FORMAT

_NARROW: Final = ("f16", "bf16")


def for_tensor_cores(operations: Iterable[AnyOp]) -> list[AnyOp]:
    """Return the products whose operands tensor cores multiply: not exact ones, nor those of wider floats.

    Call this before 8-bit operands are widened and tf32 ones rounded, which leaves no trace.
    """
    return [op for op in operations if op.name == "tessera.dot" and _is_for_tensor_cores(op)]


def _is_for_tensor_cores(op: AnyOp) -> bool:
    if is_exact(op) or element_of(op.results[0]) != "f32":
        return False
    a, b = (element_of(operand) for operand in list(op.operands)[:2])
    return COMPUTE in op.attributes or OPERAND_FORMAT in op.attributes or (a == b and a in _NARROW)


def lost_products(
    products: Sequence[AnyOp], plan: ScheduleView | None, refusal: Refusal | None, chip: Architecture
) -> tuple[Remark, ...]:  # fmt: skip
    """Return a remark on each of `products` that is computed without tensor cores.

    products: as `for_tensor_cores` gives them
    plan: that of a kernel whose tiles are in registers; else None, and `refusal` says why they are not
    """
    found: list[Remark] = []
    for op in products:
        if plan is not None and plan.products[op] != FMA:
            continue
        cause = _own_refusal(op) or refusal
        if cause is not None:
            text = f"the product has no tensor cores on {chip.name}, because {_reason(op, cause)}: try {cause.remedy}"
            found.append(Remark(text, next(iter(spans(op.location)), NOWHERE)))
    return tuple(found)


def _own_refusal(op: AnyOp) -> Refusal | None:
    """Return what keeps the product itself from tensor cores, or None."""
    extents = " x ".join(map(str, _extents(op)))
    if is_padded(op):
        return Refusal(f"not all of its extents {extents} (M x N x K) are powers of two", "extents that are", op)
    if not fills_instruction(op):
        least = " x ".join(map(str, least_extents(op)))
        return Refusal(f"its extents {extents} (M x N x K) are less than their {least}", "larger blocks", op)
    return None


def _extents(op: AnyOp) -> tuple[int, int, int]:
    (m, k), n = shape_of(op.operands[0]), shape_of(op.operands[1])[1]
    return m, n, k


def _reason(op: AnyOp, cause: Refusal) -> str:
    """Return the reason, with the line if it lies in another operation."""
    place = next(iter(spans(cause.op.location)), None) if cause.op is not None and cause.op != op else None
    return cause.reason if place is None else f"{cause.reason} (line {place.line})"
