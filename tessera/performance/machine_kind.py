"""The properties of a machine that default schedules depend on."""

from dataclasses import dataclass
from typing import Final

from tessera.core.targets import Architecture

_MUCH_SHARED: Final = 128 << 10
"""Bytes of shared memory of a block that are enough for every schedule."""


@dataclass(frozen=True, slots=True)
class MachineKind:
    """The properties of a machine that schedules depend on.

    gpu: the GPU's generation, None for the host; target: what the kernel's option of that name is set to, None where
    the setting in force says it; tile_elements: the most elements of a tile, 0: any number
    """

    gpu: Architecture | None = None
    target: str | None = None
    tile_elements: int = 0

    @property
    def is_gpu(self) -> bool:
        """Return whether it is a GPU."""
        return self.gpu is not None

    @property
    def wgmma(self) -> bool:
        """Return whether warpgroups multiply there: 64 rows at a time, four warps each."""
        return self.gpu is not None and self.gpu.wgmma

    @property
    def little_shared(self) -> bool:
        """Return whether a block has too little shared memory for the largest schedules."""
        return self.gpu is not None and self.gpu.shared_bytes < _MUCH_SHARED
