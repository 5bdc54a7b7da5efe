"""What kinds of machine a kernel can be compiled for."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """One machine to compile for.

    `name` is "cpu", "cuda" or "cuda_tile"; `arch` is LLVM's name of the processor ("znver5") or the GPU's ("sm_90a");
    `features` is LLVM's feature string (part of the cache key, so an artifact never runs on a lesser CPU).
    """

    name: str
    arch: str
    features: str = ""

    def __str__(self) -> str:
        return f"{self.name}:{self.arch}" if self.arch else self.name


CPU = Target("cpu", "")
"""The host: `arch` and `features` are filled in by the compile service."""
