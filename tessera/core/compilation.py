"""The result of a compilation: the artifact, and, when asked for, every level and every pass.

Plain data that imports no MLIR: it travels from the worker process to the notebook, and lies in the cache.
"""

from dataclasses import dataclass
from typing import Final

from tessera.core.artifact import Artifact
from tessera.core.events import PassRan
from tessera.core.listing import Listing

FROM_IR: Final = "from_ir"
"""Option of a program: the Tile IR that is compiled instead of what would be made of the program."""
FROM_PTX: Final = "from_ptx"
"""Option of a program: the PTX that is compiled instead of what would be made of the program."""
AS_MLIR: Final = "as_mlir"
"""Option of a program: levels of Tile IR are MLIR's own text, which can be edited and compiled (see `FROM_IR`)."""
LLVM_PASSES: Final = "llvm_passes"
"""Option of a program: LLVM IR is listed after each of LLVM's own passes that changes it."""


@dataclass(frozen=True, slots=True)
class Compilation:
    """One compiled kernel.

    listings: every level in order, the state after each pass included (`Listing.stage`); empty unless asked for
    passes: in the order they ran; empty unless asked for
    """

    artifact: Artifact
    listings: tuple[Listing, ...] = ()
    passes: tuple[PassRan, ...] = ()
