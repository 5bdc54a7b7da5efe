"""Remark on loads and stores that TMA may not do, so that lanes do them: why, and what to do about it."""

from collections.abc import Iterator
from typing import Final

from tessera.core.artifact import Remark
from tessera.core.base.source import NOWHERE
from tessera.core.mlir import ir
from tessera.core.program.program import Program
from tessera.core.program.types import Array
from tessera.core.targets import Architecture
from tessera.core.tile.location import spans
from tessera.lowering.cuda.schedule.view import ScheduleView

_UNIT: Final = 16


def unaligned_places(plan: ScheduleView | None, program: Program, chip: Architecture) -> tuple[Remark, ...]:
    """Return a remark on each load and store whose 16-byte start is not proven."""
    return tuple(dict.fromkeys(_remarks(plan, program, chip))) if plan is not None else ()


def _remarks(plan: ScheduleView, program: Program, chip: Architecture) -> Iterator[Remark]:
    found = [(next(iter(spans(op.location)), NOWHERE), op) for op in plan.anywhere]
    for span, op in sorted(found, key=lambda one: (one[0].line, one[0].column)):
        number: int = ir.BlockArgument(op.operands[0]).arg_number
        parameter = program.parameters[number]
        kind = parameter.value.type
        if isinstance(kind, Array):
            done, by = ("stored", "store") if op.name == "tessera.store" else ("read", "copy")
            yield Remark(
                f"this part of {parameter.name} may begin at no multiple of {_UNIT} bytes, so it cannot be {done} by "
                f"the copy engine of {chip.name}, but lanes {by} it, which takes longer: try offsets along its last "
                f"axis that are multiples of {_UNIT // kind.dtype.bytes}, or another axis last",
                span,
            )
