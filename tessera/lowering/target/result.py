"""What a target hands back for one Tile IR module."""

from dataclasses import dataclass

from tessera.core.artifact import LaunchRule, Resources, Slot
from tessera.core.listing import Listing


@dataclass(frozen=True, slots=True)
class TargetCode:
    """Machine code and how to launch it.

    code: ELF object (CPU) or cubin (CUDA); entry: its symbol; listings: levels below Tile IR, in order
    (`target`, `llvm`, `asm` or `ptx` and `sass`); empty when nobody looks.
    """

    code: bytes
    entry: str
    slots: tuple[Slot, ...]
    launch: LaunchRule
    resources: Resources
    bounded: bool
    listings: tuple[Listing, ...]
