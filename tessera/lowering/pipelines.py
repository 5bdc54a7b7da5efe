"""The passes on Tile IR for each target, in order.  Read top to bottom."""

from typing import Final

from tessera.lowering.passes import Pass
from tessera.lowering.tile.distribute_ranges import DistributeRanges
from tessera.lowering.tile.distribute_rows import DistributeRows
from tessera.lowering.tile.expand_softmax import ExpandSoftmax
from tessera.lowering.tile.mask_absent import MaskAbsent
from tessera.lowering.tile.mask_edges import MaskEdges
from tessera.lowering.tile.pack_floats import PackFloats
from tessera.lowering.tile.place_values import PlaceValues
from tessera.lowering.tile.round_factors import RoundFactors
from tessera.lowering.tile.simplify import Simplify

_COMMON: Final[tuple[Pass, ...]] = (
    # An index computed twice becomes one value, so that a branch on the first says something of the second.
    Simplify(),
    # Reads the bounds of loops and the branches around accesses: before any loop is replaced.
    MaskEdges(),
    # Replaces loops by what a group computes from its number.
    DistributeRanges(),
    # Only of kernels in which the pass before found no loop.
    DistributeRows(),
    # After rows are cut: a softmax along the rows is one thing to look at, its parts are ten.
    ExpandSoftmax(),
    # The passes above leave bounds nobody reads, and equal constants.
    Simplify(),
)

_ABSENT: Final = MaskAbsent()
"""First: nothing below has to know that elements may not exist."""
_BYTES: Final = PackFloats()
"""Nothing below has to know of floats of 8 bits."""

PIPELINES: Final[dict[str, tuple[Pass, ...]]] = {
    # Factors are rounded once it is known which rows a group has; GPUs do it on the way to their tensor cores.
    # PlaceValues last: it decides by who reads a value how often, which every pass above may change.
    "cpu": (_ABSENT, _BYTES, *_COMMON, RoundFactors(), PlaceValues()),
    # A GPU keeps tiles in registers or shared memory; its own lowering decides.  Some have products of bytes.
    "cuda": (_ABSENT, PackFloats(products=True), *_COMMON),
    # So does CUDA Tile's compiler.
    "cuda_tile": (_ABSENT, PackFloats(products=True), *_COMMON),
}
"""By `Target.name`."""
