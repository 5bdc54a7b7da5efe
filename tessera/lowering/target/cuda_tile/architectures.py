"""The GPUs the `cuda_tile` target compiles for, as `tileiras` names them."""

from typing import Final

from tessera.core.mistakes import UnknownArchitecture

ARCHITECTURES: Final = ("sm_80", "sm_90", "sm_100", "sm_120")
WITHOUT_BYTES: Final = ("sm_80",)
"""Those without products of floats of 8 bits."""
DEFAULT_ARCHITECTURE: Final = "sm_90"


def architecture(name: str) -> str:
    """The architecture called `name`; the default one for an empty name.

    Raises:
        UnknownArchitecture: CUDA Tile kernels are not compiled for it.
    """
    chosen = name or DEFAULT_ARCHITECTURE
    if chosen not in ARCHITECTURES:
        message = f"there is no GPU architecture '{chosen}' for CUDA Tile kernels"
        raise UnknownArchitecture(message, hint=f"use one of {', '.join(ARCHITECTURES)}")
    return chosen
