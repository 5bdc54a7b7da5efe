"""The types of values inside a kernel."""

from dataclasses import dataclass
from typing import Final

from tessera.core.base.dtypes import DType

Extent = int | str
"""An extent of an array: a number fixed at compile time, or the name of a symbol bound at launch."""


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value a lane (or one for the group, when nothing it is made of depends on a lane)."""

    dtype: DType

    def __str__(self) -> str:
        return self.dtype.name


@dataclass(frozen=True, slots=True)
class Tile:
    """A block of values that the whole group works on; every extent is a number, and the rank is at least 1."""

    dtype: DType
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"tile<{'x'.join(map(str, self.shape))}x{self.dtype.name}>"


@dataclass(frozen=True, slots=True)
class Array:
    """An array in global memory: a kernel's parameter.

    `contiguous` means C order without gaps; otherwise strides (in elements) are passed at launch.
    `aligned` means that every row begins and ends at a multiple of 16 bytes: the address, all strides but the
    innermost, which is 1, and the innermost extent; and that no extent is above 2**31 - 1.  Of an array without
    elements, the extents alone count.  Only targets that make use of it ask for it.
    """

    dtype: DType
    shape: tuple[Extent, ...]
    contiguous: bool = True
    aligned: bool = False

    def __str__(self) -> str:
        return f"array<{'x'.join(map(str, self.shape))}x{self.dtype.name}>"


@dataclass(frozen=True, slots=True)
class Shared:
    """A buffer in the group's shared memory; `swizzle` is None (row major) or "xor"."""

    dtype: DType
    shape: tuple[int, ...]
    swizzle: str | None = None

    @property
    def bytes(self) -> int:
        """Bytes the buffer takes."""
        count = self.dtype.bytes
        for extent in self.shape:
            count *= extent
        return count

    def __str__(self) -> str:
        tail = f", {self.swizzle}" if self.swizzle else ""
        return f"shared<{'x'.join(map(str, self.shape))}x{self.dtype.name}{tail}>"


Type = Scalar | Tile | Array | Shared
Memory: Final = (Array, Shared)
