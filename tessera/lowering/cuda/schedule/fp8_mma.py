"""Select the FP8 matrix products that tensor cores compute directly; widen the operands of the others to f16."""

from collections.abc import Sequence
from typing import Final

from tessera.core.mlir import AnyOp
from tessera.core.program.program import Program
from tessera.core.targets import Architecture
from tessera.lowering.cuda.schedule.mma_selection import MMA, byte_kind
from tessera.lowering.cuda.schedule.multibuffer import source_load
from tessera.lowering.cuda.schedule.view import ScheduleView
from tessera.lowering.tile.pack_floats import OPERAND_FORMAT, widen_operands

_PROMOTED: Final = 128
"""Elements of K, as cuBLAS has it without fast accumulation."""


def byte_products(operations: Sequence[AnyOp]) -> list[AnyOp]:
    """Return the products whose operands are 8-bit floats."""
    return [op for op in operations if OPERAND_FORMAT in op.attributes]


def widen_unfit(dots: Sequence[AnyOp], chip: Architecture, warps: int = 0) -> list[AnyOp]:
    """Widen to f16 the operands of FP8 products that tensor cores cannot read; return the other products.

    warps: the number that the user asks for, or 0

    before: `tessera.dot %a, %b {factors = "e4m3"} : tile<16x16xf32>` of tiles of i8
    after:  `tessera.dot %u, %v : tile<16x16xf32>` of tiles of f16, which hold the same numbers
    """
    unfit = [dot for dot in dots if byte_kind(dot, chip, warps) is None]
    for dot in unfit:
        widen_operands(dot)
    return [dot for dot in dots if dot not in unfit]


def copied(dots: Sequence[AnyOp], plan: ScheduleView) -> bool:
    """Return whether all operands reach shared memory as the tensor cores read bytes: for wgmma, through a pipeline."""
    loads = [(dot, source_load(operand)) for dot in dots for operand in list(dot.operands)[:2]]
    return all(
        load is not None and (plan.is_staged(load) if plan.products[dot] == MMA else plan.ring_of(load) is not None)
        for dot, load in loads
    )


def promotion(dots: Sequence[AnyOp], program: Program) -> int:
    """Return `TileSchedule.promotion_interval`: the option's value, else 128, and 0 with `fast=True`.

    The tensor cores of sm_90a keep about 14 bits of each product of bytes that they add.  Single warps promote
    every 32.
    """
    if not byte_products(dots):
        return 0
    wanted = program.options.get("promotion_interval")
    if isinstance(wanted, int):
        return int(wanted)
    return 0 if program.options.get("fast") else _PROMOTED
