"""Model the caches and vector units that loops are blocked for."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CacheModel:
    """Bytes and number of the vector registers.  It decides how work is cut up, never what comes out."""

    vector_bytes: int = 32
    registers: int = 16

    @classmethod
    def from_features(cls, features: str) -> "CacheModel":
        """Return the machine of LLVM's feature string (`+avx2,-avx512f,...`)."""
        return cls(64, 32) if "+avx512f" in features.split(",") else cls()

    def lanes(self, element_bytes: int) -> int:
        """Elements a register holds."""
        return self.vector_bytes // element_bytes
