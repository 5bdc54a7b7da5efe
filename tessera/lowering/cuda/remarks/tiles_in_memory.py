"""Remark on tiles that are too large for registers: the kernel works in memory, why, and what to do about it."""

import math
from collections.abc import Iterable
from typing import Final

from tessera.core.artifact import Remark
from tessera.core.base.source import NOWHERE
from tessera.core.mlir import AnyOp
from tessera.core.targets import Architecture
from tessera.core.tile.location import spans
from tessera.lowering.base.ir_walk import is_tile, shape_of
from tessera.lowering.cuda.schedule.context import Refusal

LARGE_TILE: Final = 1 << 15
"""Elements of a tile from which on a multiprocessor holds one block of a kernel whose tiles lie in memory: the user is
told, and the block has as many lanes as it may have.  A softmax of rows of 50,257 f32 ran at 469 GB/s with 256 lanes
and at 1544 with 1024 on an H200, where rows of 32,768, which lie in registers, ran at 3306."""


def large_tiles(operations: Iterable[AnyOp], refusal: Refusal | None, chip: Architecture) -> tuple[Remark, ...]:
    """Return a remark on the largest tile of a kernel whose tiles lie in memory, if it is a large one.

    operations: the kernel's, with their tiles
    refusal: why the tiles are not in registers; None for kernels with code for single lanes
    """
    if refusal is None:
        return ()
    sized = [
        (math.prod(shape_of(v)), op) for op in operations for v in op.results if is_tile(v.type) and spans(op.location)
    ]
    size, op = max(sized, key=lambda pair: pair[0], default=(0, None))
    if op is None or size <= LARGE_TILE:
        return ()
    text = (
        f"a tile of {size:,} elements is kept in memory on {chip.name}, not in registers, because {refusal.reason}: "
        "try a loop over blocks of it, as the functions of tessera.ops do"
    )
    return (Remark(text, next(iter(spans(op.location)), NOWHERE)),)
