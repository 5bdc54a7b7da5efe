"""Define what a target returns for one Tile IR module."""

from dataclasses import dataclass

from tessera.core.artifact import LaunchRule, Remark, Resources, Slot
from tessera.core.events import PassRan
from tessera.core.listing import Listing


@dataclass(frozen=True, slots=True)
class TargetCode:
    """Machine code and how to launch it.

    code: ELF object (CPU) or cubin (CUDA); entry: its symbol; listings: what the target's own passes made of Tile IR,
    then the levels below it, in order (`target`, `llvm`, `asm` or `ptx` and `sass`); empty unless asked for; passes:
    each of those passes; remarks: what the user is warned of.
    """

    code: bytes
    entry: str
    slots: tuple[Slot, ...]
    launch: LaunchRule
    resources: Resources
    bounded: bool
    listings: tuple[Listing, ...]
    passes: tuple[PassRan, ...] = ()
    remarks: tuple[Remark, ...] = ()
