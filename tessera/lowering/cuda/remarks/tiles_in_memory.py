"""Tiles too large for registers: the user is told that the kernel works in memory, why, and what to do about it."""

import math
from collections.abc import Iterable
from typing import Any, Final

from tessera.core.artifact import Remark
from tessera.core.base.source import NOWHERE
from tessera.core.targets import Architecture
from tessera.core.tile.location import spans
from tessera.lowering.analysis.uniformity import is_tile
from tessera.lowering.cuda.schedule.context import Refusal

LARGE_TILE: Final = 1 << 15
"""Elements of a tile from which on a multiprocessor holds one block of a kernel whose tiles lie in memory: it is told
of, and has as many lanes as a block may have.  A softmax of rows of 50,257 f32 ran at 469 GB/s with 256 lanes and at
1544 with 1024 on an H200, where rows of 32,768, which lie in registers, ran at 3306."""


def large_tiles(operations: Iterable[Any], refusal: Refusal | None, chip: Architecture) -> tuple[Remark, ...]:
    """Return a remark about the largest tile of a kernel whose tiles lie in memory, where it is a large one.

    operations: the kernel's, with their tiles
    refusal: why the tiles are not in registers; None for kernels that say what single lanes do
    """
    if refusal is None:
        return ()
    sized = [
        (math.prod(v.type.shape), op) for op in operations for v in op.results if is_tile(v.type) and spans(op.location)
    ]
    size, op = max(sized, key=lambda pair: pair[0], default=(0, None))
    if op is None or size <= LARGE_TILE:
        return ()
    text = (
        f"a tile of {size:,} elements is kept in memory on {chip.name}, not in registers, because {refusal.reason}: "
        "try a loop over blocks of it, as the functions of tessera.ops do"
    )
    return (Remark(text, next(iter(spans(op.location)), NOWHERE)),)
