"""Products that tensor cores could compute and do not: the user is told why, and what to do about it."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from tessera.core.artifact import Remark
from tessera.core.base.source import NOWHERE
from tessera.core.targets import Architecture
from tessera.core.tile.dialect import COMPUTE
from tessera.core.tile.location import spans
from tessera.lowering.cuda.schedule.context import Refusal
from tessera.lowering.cuda.schedule.mma_selection import FMA, fills_instruction, is_padded, least_extents
from tessera.lowering.cuda.schedule.view import ScheduleView
from tessera.lowering.tile.pack_floats import FACTORS

_NARROW: Final = ("f16", "bf16")


def for_tensor_cores(operations: Iterable[Any]) -> list[Any]:
    """The products whose factors tensor cores multiply: not those that are exact, or of wider floats.

    To be asked before factors of 8 bits are widened and those of tf32 rounded, which leaves no trace.
    """
    return [op for op in operations if op.name == "tessera.dot" and _is_for_tensor_cores(op)]


def _is_for_tensor_cores(op: Any) -> bool:
    if op.attributes["exact"].value or str(op.results[0].type.element_type) != "f32":
        return False
    a, b = (str(factor.type.element_type) for factor in list(op.operands)[:2])
    return COMPUTE in op.attributes or FACTORS in op.attributes or (a == b and a in _NARROW)


def lost_products(
    products: Sequence[Any], plan: ScheduleView | None, refusal: Refusal | None, chip: Architecture
) -> tuple[Remark, ...]:  # fmt: skip
    """What to say of those `products` that are computed without tensor cores.

    products: as `for_tensor_cores` gives them
    plan: of a kernel whose tiles are in registers; None, and `refusal` says why they are not
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


def _own_refusal(op: Any) -> Refusal | None:
    """What of the product itself is not as tensor cores want it."""
    extents = " x ".join(map(str, _extents(op)))
    if is_padded(op):
        return Refusal(f"not all of its extents {extents} (M x N x K) are powers of two", "extents that are", op)
    if not fills_instruction(op):
        least = " x ".join(map(str, least_extents(op)))
        return Refusal(f"its extents {extents} (M x N x K) are less than their {least}", "larger blocks", op)
    return None


def _extents(op: Any) -> tuple[int, int, int]:
    (m, k), n = op.operands[0].type.shape, op.operands[1].type.shape[1]
    return m, n, k


def _reason(op: Any, cause: Refusal) -> str:
    """The reason, with the line where it is another operation's."""
    place = next(iter(spans(cause.op.location)), None) if cause.op is not None and cause.op != op else None
    return cause.reason if place is None else f"{cause.reason} (line {place.line})"
