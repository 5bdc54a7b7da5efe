"""Which kernels need more registers than lanes have, whatever the assembler does: they are refused before it is asked.

What tensor cores add up for warp groups stays in registers from one round of a loop to the next.  Sums that do not fit
there cannot wait in memory either, while products run: ptxas would wait for every single product.
"""

import math
from typing import Any, Final

from tessera.core.base.source import NOWHERE
from tessera.core.errors.catalog import NotOnCuda
from tessera.core.tile.location import spans
from tessera.lowering.analysis.uniformity import is_tile
from tessera.lowering.cuda.base.index_builder import width
from tessera.lowering.cuda.schedule.mma_selection import WGMMA
from tessera.lowering.cuda.schedule.view import ScheduleView

MOST_SUMS: Final = 232
"""Registers of a lane that multiplies, beside a warp that copies (see `function`)."""
HINT: Final = (
    "use smaller blocks, or more warps for as many rows: the option `num_warps`, 64 rows for every four of them"
)
_LANES: Final = 5
_WORD: Final = 32


def require_registers(plan: ScheduleView) -> None:
    """Raise NotOnCuda at the loop whose sums, by warp groups, take more registers than a lane has."""
    multiplying = {op.block for op, kind in plan.products.items() if kind == WGMMA}
    for loop in plan.operations:
        if loop.name == "scf.for" and loop.regions[0].blocks[0] in multiplying:
            needed = sum(map(_words, loop.results)) >> (plan.bits + _LANES)
            if needed > MOST_SUMS:
                raise NotOnCuda(
                    f"the sums of this loop take {needed} registers of each lane, and there are {MOST_SUMS}",
                    next(iter(spans(loop.location)), NOWHERE), HINT,
                )  # fmt: skip


def _words(value: Any) -> int:
    """32-bit words of a matrix that a loop carries."""
    kind = value.type
    matrix = is_tile(kind) and len(kind.shape) > 1
    return math.prod(kind.shape) * width(str(kind.element_type)) // _WORD if matrix else 0
