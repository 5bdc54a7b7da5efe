"""The passes on Tile IR for each target, in order.  Read top to bottom."""

from typing import Final

from tessera.core.targets import TargetKind
from tessera.lowering.base.backends import backend_of
from tessera.lowering.base.passes import Pass
from tessera.lowering.tile.distribute_ranges import DistributeRanges
from tessera.lowering.tile.distribute_rows import DistributeRows
from tessera.lowering.tile.expand_softmax import ExpandSoftmax
from tessera.lowering.tile.mask_absent import MaskAbsent
from tessera.lowering.tile.mask_edges import MaskEdges
from tessera.lowering.tile.pack_floats import PackFloats
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
    # The passes above leave bounds that are not used, and equal constants.
    Simplify(),
)


def tile_passes(kind: TargetKind) -> tuple[Pass, ...]:
    """Return the passes on Tile IR for a target, in order: those of all targets, then its own."""
    backend = backend_of(kind)
    return (
        # First: nothing below has to know that elements may not exist.
        MaskAbsent(),
        # Nothing below has to know of floats of 8 bits, but for products on a machine that multiplies them.
        PackFloats(products=backend.fp8_products),
        *_COMMON,
        *backend.passes,
    )
