"""Store inside loops with MMAs in flight: each warp stores its own rows by TMA, and waits for no other warp.

The rows go to shared memory in the layout that TMA reads; the copy is done long before the next iteration, so that one
buffer is enough and no warp waits for it.
"""

from typing import Final

from tessera.core.artifact import TensorMap
from tessera.core.layouts import coordinates, swizzled
from tessera.core.mlir import AnyOp, ir
from tessera.lowering.base.attributes import dropped_axes
from tessera.lowering.cuda.base.index_builder import IndexBuilder, width
from tessera.lowering.cuda.epilogue.tma import is_there
from tessera.lowering.cuda.isa import sm90
from tessera.lowering.cuda.mma import wgmma
from tessera.lowering.cuda.schedule.store_legality import may_copy
from tessera.lowering.cuda.storage.register_tiles import RegisterTile, pack, shared_pointer
from tessera.lowering.cuda.storage.shared_access import lane_offset
from tessera.lowering.cuda.storage.shared_tile import SwizzledPanels, box_of
from tessera.lowering.cuda.storage.warps import WARP, WarpSet

_LINE: Final = 128
_PAIR: Final = 2
_SWIZZLED_ROWS: Final = 8
"""What swizzles repeat after."""


def store_in_loop(host: wgmma.WgmmaContext, op: AnyOp, tile: RegisterTile) -> bool:
    """Store a tile from inside the loop, where that is possible; return False, having done nothing, where not.

    It takes stores that `may_copy`, of tiles without padding, of 16-bit elements of which each warp has eight rows or
    more, in loops with MMAs in flight: such loops have no registers and no time to spare.
    """
    array = host.stages.array(host.stages.parameter(op.operands[0]))
    dropped = dropped_axes(op)
    if host.running is None or not host.running.holds(op) or not _fits(host.warp_set, tile):
        return False
    if tuple(ir.ShapedType(op.operands[1].type).shape) != tile.shape:
        return False
    if not may_copy(op, array):
        return False
    _store(host, op, tile, dropped)
    return True


def _fits(warp_set: WarpSet, tile: RegisterTile) -> bool:
    """Return whether each warp has whole rows, one warp after the other, and lanes have pairs of neighbours."""
    if len(tile.shape) != _PAIR or width(tile.element) != 8 * _PAIR or tile.layout.registers[:1] != (1,):
        return False
    rows, columns = tile.shape
    mine = rows // warp_set.warps
    return mine >= _SWIZZLED_ROWS and tile.layout.warps == tuple(mine * columns << bit for bit in range(warp_set.bits))


def _store(host: wgmma.WgmmaContext, op: AnyOp, tile: RegisterTile, dropped: frozenset[int]) -> None:
    build, warp_set, stages = host.build, host.warp_set, host.stages
    memory, _, *starts = op.operands
    rows, columns = tile.shape
    panels = SwizzledPanels(rows, columns, _PAIR)
    mine = rows // warp_set.warps
    box = box_of((mine, panels.width), dropped, len(starts))
    pointer = stages.tensor_map(stages.parameter(memory), TensorMap(box, panels.swizzle, stored=True))
    address = host.scratch.address(host.scratch.take(panels.bytes))
    first = build.compare("eq", build.bits(warp_set.thread, WARP - 1), 0)
    with build.when(first):
        sm90.bulk_wait_read(build, 0)
    build.create("nvvm.bar.warp.sync", [build.word(-1)])
    _write(build, warp_set, tile, panels, address)
    sm90.fence_async_shared(build)
    build.create("nvvm.bar.warp.sync", [build.word(-1)])
    conditions = is_there(build, op, host.env.scalars(starts))
    with build.when(build.all_of([first, *conditions])):
        row = build.mul(build.divide(warp_set.thread, WARP), mine)
        places = host.env.scalars(starts)
        outer, inner = (axis for axis in range(len(starts)) if axis not in dropped)
        places[outer] = build.add(places[outer], row)
        start = build.value("arith.addi", [address, build.to_word(build.mul(row, panels.swizzle))], "i32")
        for panel in range(panels.count):
            there = [build.add(v, panel * panels.width) if axis == inner else v for axis, v in enumerate(places)]
            source = build.value("arith.addi", [start, build.word(panel * panels.panel_bytes)], "i32")
            sm90.tensor_store(build, pointer, [build.to_word(v) for v in reversed(there)], source)
        sm90.bulk_commit(build)


def _write(
    build: IndexBuilder, warp_set: WarpSet, tile: RegisterTile, panels: SwizzledPanels, address: ir.Value
) -> None:
    """Write each lane's pairs, at addresses derived from one that is kept across iterations."""
    layout = tile.layout
    lane = lane_offset(build, panels, *warp_set.places(layout).parts(0)[0])
    lane = sm90.kept(build, build.value("arith.addi", [address, lane], "i32"))
    for register in range(0, layout.count, _PAIR):
        row, column = coordinates(layout.element(register), layout.shape)
        panel, rest = divmod(column, panels.width)
        constant = panel * panels.panel_bytes + swizzled(row * panels.swizzle + rest * panels.size, panels.swizzle)
        # A tile begins at a multiple of what swizzles repeat after: the low bits are the lane's part of the offset.
        low = constant % _LINE
        place = build.value("arith.xori", [lane, build.word(low)], "i32") if low else lane
        target = build.offset(shared_pointer(build, place), constant - low, "i8")
        build.store(pack(build, tile.values[register : register + _PAIR]), target, "i32")
