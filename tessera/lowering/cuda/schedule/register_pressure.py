"""Refuse kernels whose register pressure no assembler could relieve, before ptxas runs.

The accumulators of wgmma stay in registers from one iteration of a loop to the next.  They cannot be spilled while
products run: ptxas would wait for every single one.
"""

import math
from typing import Final

from tessera.core.base.source import NOWHERE
from tessera.core.errors.catalog import NotOnCuda
from tessera.core.mlir import ir
from tessera.core.tile.location import spans
from tessera.lowering.base.ir_walk import element_of, is_tile, shape_of
from tessera.lowering.cuda.base.index_builder import width
from tessera.lowering.cuda.schedule.mma_selection import WGMMA
from tessera.lowering.cuda.schedule.view import ScheduleView

MOST_ACCUMULATORS: Final = 232
"""Registers of a consumer lane, beside a producer warp (see `kernel.function`)."""
HINT: Final = (
    "use smaller blocks, or more warps for as many rows: the option `num_warps`, 64 rows for every four of them"
)
_LANES: Final = 5
_WORD: Final = 32


def require_registers(plan: ScheduleView) -> None:
    """Raise NotOnCuda at the loop whose wgmma accumulators take more registers than a lane has."""
    multiplying = {op.operation.block for op, kind in plan.products.items() if kind == WGMMA}
    for loop in plan.operations:
        if loop.name == "scf.for" and loop.regions[0].blocks[0] in multiplying:
            needed = sum(map(_words, loop.results)) >> (plan.bits + _LANES)
            if needed > MOST_ACCUMULATORS:
                raise NotOnCuda(
                    f"the sums of this loop take {needed} registers of each lane, and there are {MOST_ACCUMULATORS}",
                    next(iter(spans(loop.location)), NOWHERE), HINT,
                )  # fmt: skip


def _words(value: ir.Value) -> int:
    """Return the 32-bit words of a matrix that a loop carries; 0 for other values."""
    matrix = is_tile(value.type) and len(shape_of(value)) > 1
    return math.prod(shape_of(value)) * width(element_of(value)) // _WORD if matrix else 0
