"""Describe which masked accesses the processor has instructions for."""

from dataclasses import dataclass
from typing import Final

_WORD: Final = 4


@dataclass(frozen=True, slots=True)
class CpuFeatures:
    """`masked_words`, `masked_bytes`: masked loads and stores of 32 and 64, of 8 and 16 bits; `gathers`: of words."""

    masked_words: bool = False
    masked_bytes: bool = False
    gathers: bool = False

    @classmethod
    def from_features(cls, features: str) -> "CpuFeatures":
        """Return the processor of LLVM's feature string (`+avx2,-avx512f,...`)."""
        has = frozenset(features.split(","))
        return cls("+avx" in has, "+avx512bw" in has, "+avx512f" in has)

    def masks(self, size: int) -> bool:
        """Return whether elements of `size` bytes are loaded and stored under a mask."""
        return self.masked_words if size >= _WORD else self.masked_bytes

    def scatters(self, size: int) -> bool:
        """Return whether elements of `size` bytes are gathered and scattered."""
        return self.gathers and size >= _WORD
