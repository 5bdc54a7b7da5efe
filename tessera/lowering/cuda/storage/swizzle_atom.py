"""Write tiles from registers to shared memory in the swizzled layouts that tensor cores and TMA read."""

from typing import Final

from tessera.core.layouts import coordinates
from tessera.core.mlir import ir
from tessera.lowering.cuda.base.index_builder import IndexBuilder
from tessera.lowering.cuda.storage.register_tiles import RegisterTile, pack, shared_pointer
from tessera.lowering.cuda.storage.shared_access import Cursor
from tessera.lowering.cuda.storage.shared_tile import SharedTile, SwizzledPanels
from tessera.lowering.cuda.storage.warps import WarpSet

_PACKED: Final = 2


def write_panels(
    build: IndexBuilder, warp_set: WarpSet, tile: RegisterTile, panels: SwizzledPanels, address: ir.Value
) -> None:
    """Store a tile's elements (or those of some of its columns) as panels, two of 16 bits at a time."""
    layout = tile.layout
    pairs = panels.size == _PACKED and layout.registers[:1] == (1,)
    count = _PACKED if pairs else 1
    kind = "i32" if pairs else tile.element
    # Lane and register parts share no bit, as a cursor wants it.
    cursor = Cursor(build, SharedTile(address, panels, tile.element), *warp_set.places(layout).parts(0)[0])
    with build.when(warp_set.owns(layout)):
        for register in range(0, layout.count, count):
            place, offset = cursor.at(*coordinates(layout.element(register), layout.shape))
            value = pack(build, tile.values[register : register + 2]) if pairs else tile.values[register]
            build.store(value, build.offset(shared_pointer(build, place), offset, "i8"), kind)
