"""The GPUs Tessera compiles for, and their limits.

Sources: CUDA C++ Programming Guide, table of compute capabilities; LLVM's NVPTX back end for the PTX versions (the
oldest that knows the chip and its products of floats of 8 bits, so that the PTX also loads with older drivers; a lower
one kills the process).
"""

from dataclasses import dataclass
from typing import Final

from tessera.core.mistakes import UnknownArchitecture


@dataclass(frozen=True, slots=True)
class Architecture:
    """One chip: `name` as LLVM and ptxas say it; `ptx` is the LLVM feature that sets the PTX version.

    bulk_copies: whether it has an engine that copies boxes of arrays (TMA)
    early_launches: whether a kernel's blocks may begin before the kernel in front of it has ended
    rounds_tf32: whether one instruction rounds f32 to tf32, to nearest even
    multiplies_bytes: whether single warps multiply floats of 8 bits (`mma.sync`)
    shared_bytes: the most shared memory one group may have; lanes: the most lanes of a group
    warps, blocks, registers, shared_processor: what one multiprocessor holds at a time (shared memory in bytes)
    """

    name: str
    ptx: str
    shared_bytes: int
    lanes: int = 1024
    warps: int = 64
    blocks: int = 32
    registers: int = 65536
    shared_processor: int = 228 * 1024
    bulk_copies: bool = False
    early_launches: bool = False
    rounds_tf32: bool = False
    multiplies_bytes: bool = False


_KIB: Final = 1024
ARCHITECTURES: Final = {
    a.name: a
    for a in (
        Architecture("sm_80", "+ptx78", 163 * _KIB, shared_processor=164 * _KIB),
        Architecture(
            "sm_89", "+ptx84", 99 * _KIB, warps=48, blocks=24, shared_processor=100 * _KIB, multiplies_bytes=True
        ),
        Architecture(
            "sm_90a",
            "+ptx84",
            227 * _KIB,
            bulk_copies=True,
            early_launches=True,
            rounds_tf32=True,
            multiplies_bytes=True,
        ),
        Architecture(
            "sm_100a",
            "+ptx86",
            227 * _KIB,
            bulk_copies=True,
            early_launches=True,
            rounds_tf32=True,
            multiplies_bytes=True,
        ),
    )
}


_OTHERS: Final = {"sm_120": Architecture("sm_120", "", 99 * _KIB, warps=48, blocks=24, shared_processor=100 * _KIB)}
"""Chips that CUDA Tile alone compiles for."""


def multiprocessor(name: str) -> Architecture | None:
    """The chip whose multiprocessors run machine code for `name`, which may be any of its family; None: unknown."""
    return ARCHITECTURES.get(name) or ARCHITECTURES.get(f"{name}a") or _OTHERS.get(name)


def architecture(name: str) -> Architecture:
    """The architecture called `name`.

    Raises:
        UnknownArchitecture: Tessera has none of that name.
    """
    found = ARCHITECTURES.get(name)
    if found is None:
        message = f"there is no GPU architecture '{name}'"
        raise UnknownArchitecture(message, hint=f"use one of {', '.join(ARCHITECTURES)}")
    return found
