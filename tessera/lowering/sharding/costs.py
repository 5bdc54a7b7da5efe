"""Cost bytes that move, bytes of memory and operations on a reference mesh, which has 8 devices along each axis."""

from collections.abc import Sequence
from typing import Final

REFERENCE: Final = 8
"""Devices along each axis of the mesh that costs are those of."""
LINK: Final = 325_000_000_000
"""Bytes a second that a device sends: an all_gather of 1 GiB over 4 H200s took 2477 us."""
MEMORY: Final = 4_200_000_000_000
"""Bytes a second of an H200's memory, as copies reach them."""
PRODUCTS: Final = 400_000_000_000_000
"""Operations a second of products."""
_PICO: Final = 1_000_000_000_000


def reference_extent(axes: Sequence[str]) -> int:
    """Return the devices along some axes of the reference mesh."""
    return int(REFERENCE ** len(axes))


def picoseconds(*, sent: int = 0, local: int = 0, products: int = 0) -> int:
    """Return what sending bytes, reading or writing others, and operations of products take, one after the other."""
    return sent * _PICO // LINK + local * _PICO // MEMORY + products * _PICO // PRODUCTS
