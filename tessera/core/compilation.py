"""What a compilation hands back: the artifact, and, when asked for, every level and every pass.

Plain data that imports no MLIR: it travels from the worker process to the notebook, and lies in the cache.
"""

from dataclasses import dataclass

from tessera.core.artifact import Artifact
from tessera.core.events import PassRan
from tessera.core.listing import Listing


@dataclass(frozen=True, slots=True)
class Compilation:
    """One compiled kernel.

    listings: every level in order, the state after each pass included (`Listing.stage`); empty unless asked for
    passes: in the order they ran; empty unless asked for
    """

    artifact: Artifact
    listings: tuple[Listing, ...] = ()
    passes: tuple[PassRan, ...] = ()
