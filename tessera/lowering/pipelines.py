"""The passes on Tile IR for each target, in order.  Read top to bottom."""

from typing import Final

from tessera.lowering.passes import Pass
from tessera.lowering.tile.distribute_ranges import DistributeRanges
from tessera.lowering.tile.distribute_rows import DistributeRows
from tessera.lowering.tile.expand_softmax import ExpandSoftmax
from tessera.lowering.tile.mask_edges import MaskEdges
from tessera.lowering.tile.simplify import Simplify

_COMMON: Final[tuple[Pass, ...]] = (
    # Equal constants become one value, so that the passes below can compare values by identity.
    Simplify(),
    # Needs the loops' bounds, and the branches around accesses: before anything is replaced.
    MaskEdges(),
    # Needs the loops' bounds: the next pass replaces loops by what a group computes from its number.
    DistributeRanges(),
    # Only of kernels that had no such loop.
    DistributeRows(),
    # After the loops are gone: it is the part of the kernel that a reader of the IR compares with the source last.
    ExpandSoftmax(),
    # Again: the passes above leave dead bounds and equal reductions behind.
    Simplify(),
)

PIPELINES: Final[dict[str, tuple[Pass, ...]]] = {"cpu": _COMMON, "cuda": _COMMON}
"""By `Target.name`."""
