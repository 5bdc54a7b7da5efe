"""Compute occupancy: how many blocks of a kernel one multiprocessor holds at a time, and which resource limits them.

Limits of a multiprocessor: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".  Units in
which registers and shared memory are allocated: `cuda_occupancy.h` of the CUDA toolkit (registers by warp in units of
256, from the registers of one of four partitions; shared memory in units of 128 bytes, 1 KiB per block of it for the
system).  The occupancy calculator of the driver (`cuOccupancyMaxActiveBlocksPerMultiprocessor`) gives the same.
"""

from typing import Final

from tessera.core.resources import Limit, Occupancy
from tessera.core.targets import Architecture

WARP: Final = 32
_PARTITIONS: Final = 4
_REGISTER_UNIT: Final = 256
_SHARED_UNIT: Final = 128
_SYSTEM_SHARED: Final = 1024


def occupancy(chip: Architecture, threads: int, registers: int, shared_bytes: int) -> Occupancy:
    """Return the occupancy of blocks of `threads` lanes, with this many registers per lane and bytes per block."""
    warps = -(-threads // WARP)
    by_warp = _rounded(registers * WARP, _REGISTER_UNIT)
    resident = chip.registers // _PARTITIONS // by_warp * _PARTITIONS if by_warp else chip.warps
    shared = _rounded(shared_bytes + _SYSTEM_SHARED, _SHARED_UNIT)
    limits = (
        Limit("warps", chip.warps // warps, warps, chip.warps, "warps"),
        Limit("registers", resident // warps, by_warp * warps, chip.registers, "registers"),
        Limit("shared memory", chip.shared_processor // shared, shared, chip.shared_processor, "bytes"),
        Limit("blocks", chip.blocks, 1, chip.blocks, "blocks"),
    )
    blocks = min(limit.blocks for limit in limits)
    return Occupancy(blocks, blocks * warps, chip.warps, limits)


def _rounded(value: int, unit: int) -> int:
    return -(-value // unit) * unit
