"""Store tiles by TMA: gather them in shared memory, column block by column block."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Protocol

from tessera.core.artifact import TensorMap
from tessera.core.layouts import Layout, coordinates
from tessera.core.mlir import AnyOp, Index, ir
from tessera.lowering.base.attributes import dropped_axes
from tessera.lowering.base.ir_walk import shape_of
from tessera.lowering.cuda.base.index_builder import IndexBuilder
from tessera.lowering.cuda.isa import sm90
from tessera.lowering.cuda.mma.wgmma_operands import GROUP_LANES, group_number
from tessera.lowering.cuda.pipeline.producer_consumer import BLOCK_BYTES, Pipelines
from tessera.lowering.cuda.schedule.store_legality import copied_panels, of_matrix
from tessera.lowering.cuda.storage.emit_context import ScratchContext
from tessera.lowering.cuda.storage.global_access import before_array
from tessera.lowering.cuda.storage.register_tiles import RegisterTile, renamed
from tessera.lowering.cuda.storage.shared_tile import SwizzledPanels, box_of, row_blocks
from tessera.lowering.cuda.storage.swizzle_atom import write_panels
from tessera.lowering.cuda.storage.warps import WarpSet

_GROUP_BITS: Final = 2
_FIRST_BARRIER: Final = 4
"""Of the warp groups' hardware barriers: those before it are the block's, the consumers', and two for ping-pong."""
_COORDINATES: Final = 1 << 31
"""TMA coordinates are signed words."""


class TmaStoreContext(ScratchContext, Protocol):
    """The context that stores need."""

    stages: Pipelines


def store_copied(host: TmaStoreContext, op: AnyOp, tile: RegisterTile) -> bool:
    """Store a tile by TMA, where that is possible; return False, having done nothing, where not."""
    if not host.stages.copies_stores:
        return False
    if copied_panels(op, tile.layout, host.stages.array(host.stages.parameter(op.operands[0]))) is None:
        return False
    EpilogueTile.of(host, op, tile, host.env.scalars(list(op.operands)[2:])).store_all()
    return True


def is_there(build: IndexBuilder, op: AnyOp, starts: Sequence[Index]) -> list[ir.Value]:
    """Return conditions (i1) under which TMA may store what begins at `starts`; see `may_copy`."""
    return [build.inside(starts[axis], _COORDINATES) for axis in sorted(before_array(op))]


@dataclass(frozen=True, slots=True)
class _Crew:
    """Warps that gather and store rows of a tile together: all consumers, or one warp group, which waits for no other.

    team: these warps; groups: how many crews share the tile's rows
    row, offset: where its rows begin along the tile's outermost axis, an index, and where its part of the memory for
    stores begins, an i32
    """

    warp_set: WarpSet
    groups: int
    row: Index
    offset: ir.Value

    @staticmethod
    def of(host: TmaStoreContext, rows: int) -> "_Crew":
        """Return the crew of a lane, for a tile of which the outermost axis has `rows` elements."""
        build, warp_set = host.build, host.warp_set
        if not host.stages.epilogue_per_warpgroup:
            return _Crew(warp_set, 1, 0, build.word(0))
        groups = warp_set.lanes // GROUP_LANES
        number = group_number(build, warp_set)
        part = build.word(host.stages.store_blocks * BLOCK_BYTES // groups)
        offset = build.value("arith.muli", [number, part], "i32")
        barrier = build.value("arith.addi", [number, build.word(_FIRST_BARRIER)], "i32")
        group = WarpSet(build, build.remainder(warp_set.thread, GROUP_LANES), _GROUP_BITS, barrier)
        return _Crew(group, groups, build.mul(build.to_index(number), rows // groups), offset)


@dataclass(frozen=True, slots=True)
class EpilogueTile:
    """A tile on its way into an array: `store` takes its column blocks one after the other.

    pointer: the tensor map; places: where the crew's rows begin in the array; base: its memory for stores, an i32
    conditions: i1 values; where one is false, all of it lies outside the array
    rows: the array's axis along which blocks of rows follow each other, and in which steps
    """

    host: TmaStoreContext
    tile: RegisterTile
    panels: SwizzledPanels
    crew: _Crew
    pointer: ir.Value
    places: tuple[Index, ...]
    base: ir.Value
    conditions: tuple[ir.Value, ...]
    rows: tuple[int, int]

    @staticmethod
    def of(host: TmaStoreContext, op: AnyOp, tile: RegisterTile, starts: Sequence[Index]) -> "EpilogueTile":
        """Prepare the store `op` of a tile that TMA may store, to what begins at `starts`."""
        build, stages = host.build, host.stages
        parameter = stages.parameter(op.operands[0])
        panels = copied_panels(op, tile.layout, stages.array(parameter))
        if panels is None:
            message = "TMA does not store such tiles"
            raise AssertionError(message)
        dropped = dropped_axes(op)
        outer_extent, *inner_extents = shape_of(op.operands[1])
        step = outer_extent // row_blocks(tile.shape)
        crew = _Crew.of(host, step)
        mine = replace(panels, rows=panels.rows // crew.groups)
        tile = renamed(tile, of_matrix(tile.layout))
        extents = (step // crew.groups, *inner_extents[:-1], mine.columns)
        box = box_of(extents, dropped, len(starts))
        pointer = stages.tensor_map(parameter, TensorMap(box, mine.swizzle, stored=True))
        outer = next(axis for axis in range(len(starts)) if axis not in dropped)
        places = [build.add(start, crew.row) if axis == outer else start for axis, start in enumerate(starts)]
        base = build.value("arith.addi", [stages.store_address, crew.offset], "i32")
        conditions = is_there(build, op, starts)
        return EpilogueTile(host, tile, mine, crew, pointer, tuple(places), base, tuple(conditions), (outer, step))

    @property
    def blocks(self) -> int:
        """Return the number of blocks: column blocks, of one block of rows after the other."""
        rows, columns = self.tile.shape
        return rows // (self.panels.rows * self.crew.groups) * (columns // self.panels.columns)

    def store_all(self) -> None:
        """Store one column block after the other: one is copied while the next one is gathered."""
        for block in range(self.blocks):
            self.store(block)

    def store(self, block: int) -> None:
        """Gather a column block, then let one lane start its copy."""
        build, warp_set, panels = self.host.build, self.crew.warp_set, self.panels
        blocks, buffers = self.blocks, self.host.stages.store_blocks
        if not block or blocks > buffers:  # the buffer's last copy has been read
            in_turn = blocks > buffers and (block > 0 or self.host.stages.fills_buffers_in_turn)
            with build.when(warp_set.first()):
                sm90.bulk_wait_read(build, buffers - 1 if in_turn else 0)
            warp_set.wait()
        target = build.value("arith.addi", [self.base, build.word(block % buffers * panels.panel_bytes)], "i32")
        number, column = divmod(block, self.tile.shape[1] // panels.columns)
        write_panels(build, warp_set, _part(self.tile, (number, column), panels, self.crew.groups), panels, target)
        sm90.fence_async_shared(build)
        warp_set.wait()
        with build.when(build.all_of([warp_set.first(), *self.conditions])):
            places, (outer, step) = list(self.places), self.rows
            places[outer] = build.add(places[outer], number * step)
            places[-1] = build.add(places[-1], column * panels.columns)
            indices = [build.to_word(v) for v in reversed(places)]
            sm90.tensor_store(build, self.pointer, indices, target)
            sm90.bulk_commit(build)


def _part(tile: RegisterTile, block: tuple[int, int], panels: SwizzledPanels, groups: int) -> RegisterTile:
    """Return a block of rows and columns of one of `groups` crews, by its numbers along both axes."""
    part = _block(tile, block, (panels.rows * groups, panels.columns))
    if groups == 1:
        return part
    registers, lanes, warps = part.layout.registers, part.layout.lanes, part.layout.warps[:_GROUP_BITS]
    return replace(part, layout=Layout((panels.rows, panels.columns), registers, lanes, warps))


def _block(tile: RegisterTile, block: tuple[int, int], shape: tuple[int, int]) -> RegisterTile:
    """Return the part of a tile of this shape, with this number along both axes."""
    layout = tile.layout
    rows, columns = shape

    def inside(element: int) -> tuple[int, int]:
        row, column = coordinates(element, tile.shape)
        return row // rows, column // columns

    chosen = [r for r in range(layout.count) if inside(layout.element(r)) == block]

    def short(basis: int) -> int:
        row, column = coordinates(basis, tile.shape)
        return row * columns + column

    registers = tuple(short(b) for b in layout.registers if inside(b) == (0, 0))
    part = Layout((rows, columns), registers, tuple(map(short, layout.lanes)), tuple(map(short, layout.warps)))
    return RegisterTile(part, tile.element, tuple(tile.values[r] for r in chosen))
