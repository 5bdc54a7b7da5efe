"""Products of floats of 8 bits: which of them the tensor cores multiply as they are, and f16 for all others."""

from collections.abc import Sequence
from typing import Any, Final

from tessera.core.program.program import Program
from tessera.core.targets import Architecture
from tessera.lowering.cuda.schedule.mma_selection import MMA, byte_kind
from tessera.lowering.cuda.schedule.multibuffer import source_load
from tessera.lowering.cuda.schedule.view import ScheduleView
from tessera.lowering.tile.pack_floats import FACTORS, widen_factors

_PROMOTED: Final = 128
"""Elements of K, as cuBLAS has it without fast accumulation."""


def byte_products(operations: Sequence[Any]) -> list[Any]:
    """The products whose factors are floats of 8 bits."""
    return [op for op in operations if FACTORS in op.attributes]


def widen_unfit(dots: Sequence[Any], chip: Architecture, warps: int = 0) -> list[Any]:
    """Give f16 factors to the products of bytes that the tensor cores cannot read as they are; gives the others.

    warps: how many the user asks for, or 0

    before: `tessera.dot %a, %b {factors = "e4m3"} : tile<16x16xf32>` of tiles of i8
    after:  `tessera.dot %u, %v : tile<16x16xf32>` of tiles of f16, which hold the same numbers
    """
    unfit = [dot for dot in dots if byte_kind(dot, chip, warps) is None]
    for dot in unfit:
        widen_factors(dot)
    return [dot for dot in dots if dot not in unfit]


def copied(dots: Sequence[Any], plan: ScheduleView) -> bool:
    """Whether all their factors are copied to where and how the tensor cores read bytes: to warp groups, by a ring."""
    loads = [(dot, source_load(factor)) for dot in dots for factor in list(dot.operands)[:2]]
    return all(
        plan.is_staged(load) if plan.products[dot] == MMA else plan.ring_of(load) is not None for dot, load in loads
    )


def promotion(dots: Sequence[Any], program: Program) -> int:
    """Return `TileSchedule.promotion_interval`: the option's value, else 128, and 0 with `fast=True`.

    The tensor cores of sm_90a keep about 14 bits of each product of bytes that they add.  Single warps add up every 32.
    """
    if not byte_products(dots):
        return 0
    wanted = program.options.get("promotion_interval")
    if isinstance(wanted, int):
        return int(wanted)
    return 0 if program.options.get("fast") else _PROMOTED
