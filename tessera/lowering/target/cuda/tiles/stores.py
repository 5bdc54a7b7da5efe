"""Stores by the copy engine: a tile is gathered in shared memory, column block by column block."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from tessera.core.artifact import TensorMap
from tessera.core.layouts import Layout, axis_bits, coordinates
from tessera.core.program.types import Array
from tessera.lowering.target.cuda.build import Build, width
from tessera.lowering.target.cuda.tiles import assembly
from tessera.lowering.target.cuda.tiles.access import before_array, begins_aligned
from tessera.lowering.target.cuda.tiles.host import RoomHost
from tessera.lowering.target.cuda.tiles.panels import write_panels
from tessera.lowering.target.cuda.tiles.shared_tile import Panels, box_of
from tessera.lowering.target.cuda.tiles.stages import BLOCK_BYTES, Stages
from tessera.lowering.target.cuda.tiles.team import Team
from tessera.lowering.target.cuda.tiles.values import RegisterTile
from tessera.lowering.target.cuda.tiles.wgmma import GROUP_LANES, group_number
from tessera.lowering.tile.attributes import dropped_axes

_LINE: Final = 128
_GROUP_BITS: Final = 2
_FIRST_BARRIER: Final = 4
"""Of the warp groups' hardware barriers: those before it are the block's, the team's, and for turns (`overlap`)."""
_MOST_ROWS: Final = 128
_COORDINATES: Final = 1 << 31
"""What the copy engine counts in: signed words."""


class Host(RoomHost, Protocol):
    """What stores ask of the code around them."""

    stages: Stages


def store_copied(host: Host, op: Any, tile: RegisterTile) -> bool:
    """Store a tile through the copy engine, where it may; False, having done nothing, where not."""
    if not host.stages.copies_stores:
        return False
    if copied_panels(op, tile.layout, host.stages.array(host.stages.parameter(op.operands[0]))) is None:
        return False
    Gathering.of(host, op, tile, [host.env[v] for v in list(op.operands)[2:]]).store_all()
    return True


def copied_panels(op: Any, layout: Layout, array: Array) -> Panels | None:
    """How one column block of a stored tile is gathered for the copy engine; None where that may not store it.

    It takes tiles of at most 128 rows whose lanes hold parts of every column block: the results of products.  It would
    store the padding of a tile too.
    """
    kind = op.operands[1].type
    if len(layout.shape) != 2 or layout.shape[0] > _MOST_ROWS or tuple(kind.shape) != layout.shape:
        return None
    if not may_copy(op, array):
        return None
    size = width(str(kind.element_type)) // 8
    panels = Panels(layout.shape[0], min(layout.shape[1], _LINE // size), size)
    outer = [bit for bit in axis_bits(layout.shape, 1) if bit >= panels.columns]
    return panels if panels.swizzle == _LINE and all(bit in layout.registers for bit in outer) else None


def may_copy(op: Any, array: Array) -> bool:
    """Whether the copy engine may store a tile, as far as the place goes: it faults elsewhere.

    It takes aligned places in aligned arrays that certainly begin inside.  Along axes that the tile lacks nothing has
    to be known: a lane looks whether `is_there`.
    """
    dropped = dropped_axes(op)
    if not array.aligned or len(array.shape) - 1 in dropped or not begins_aligned(array, list(op.operands)[-1]):
        return False
    return before_array(op) <= dropped


def is_there(build: Build, op: Any, starts: Sequence[Any]) -> list[Any]:
    """Return conditions (i1) under which the copy engine may store what begins at `starts`; see `may_copy`."""
    return [build.inside(starts[axis], _COORDINATES) for axis in sorted(before_array(op))]


def own_rows(layout: Layout, warps: int) -> bool:
    """Whether each warp group holds rows of its own: the first part of them, the second, and so on."""
    groups = warps >> _GROUP_BITS
    if groups < 2 or len(layout.shape) != 2:
        return False
    part = math.prod(layout.shape) // groups
    inner, outer = layout.warps[:_GROUP_BITS], layout.warps[_GROUP_BITS:]
    return outer == tuple(part << bit for bit in range(len(outer))) and all(
        basis < part for basis in (*layout.registers, *layout.lanes, *inner)
    )


@dataclass(frozen=True, slots=True)
class _Crew:
    """Who gathers and stores rows of a tile together: the team, or one of its warp groups, which waits for nobody else.

    team: these warps; groups: how many of them share the tile's rows
    row, offset: where its rows begin, an index, and where its part of the memory for stores does, an i32
    """

    team: Team
    groups: int
    row: Any
    offset: Any

    @staticmethod
    def of(host: Host, rows: int) -> "_Crew":
        """The crew of a lane, for a tile of so many rows."""
        build, team = host.build, host.team
        if not host.stages.apart:
            return _Crew(team, 1, 0, build.word(0))
        groups = team.lanes // GROUP_LANES
        number = group_number(build, team)
        part = build.word(host.stages.store_blocks * BLOCK_BYTES // groups)
        offset = build.value("arith.muli", [number, part], "i32")
        barrier = build.value("arith.addi", [number, build.word(_FIRST_BARRIER)], "i32")
        group = Team(build, build.remainder(team.thread, GROUP_LANES), _GROUP_BITS, barrier)
        return _Crew(group, groups, build.mul(build.to_index(number), rows // groups), offset)


@dataclass(frozen=True, slots=True)
class Gathering:
    """A tile on its way into an array: `store` takes its column blocks one after the other.

    pointer: the tensor map; places: where the crew's rows begin in the array; base: its memory for stores, an i32
    conditions: i1 values; where one is false, all of it lies outside the array
    """

    host: Host
    tile: RegisterTile
    panels: Panels
    crew: _Crew
    pointer: Any
    places: tuple[Any, ...]
    base: Any
    conditions: tuple[Any, ...]

    @staticmethod
    def of(host: Host, op: Any, tile: RegisterTile, starts: Sequence[Any]) -> "Gathering":
        """The store `op` of a tile that the copy engine may store, to what begins at `starts`."""
        build, stages = host.build, host.stages
        parameter = stages.parameter(op.operands[0])
        panels = copied_panels(op, tile.layout, stages.array(parameter))
        if panels is None:
            message = "the copy engine does not store such tiles"
            raise AssertionError(message)
        dropped = dropped_axes(op)
        crew = _Crew.of(host, panels.rows)
        mine = replace(panels, rows=panels.rows // crew.groups)
        box = box_of((mine.rows, mine.columns), dropped, len(starts))
        pointer = stages.tensor_map(parameter, TensorMap(box, mine.swizzle, stored=True))
        outer = next(axis for axis in range(len(starts)) if axis not in dropped)
        places = [build.add(start, crew.row) if axis == outer else start for axis, start in enumerate(starts)]
        base = build.value("arith.addi", [stages.store_address, crew.offset], "i32")
        conditions = is_there(build, op, starts)
        return Gathering(host, tile, mine, crew, pointer, tuple(places), base, tuple(conditions))

    @property
    def blocks(self) -> int:
        """Number of column blocks."""
        return self.tile.shape[1] // self.panels.columns

    def store_all(self) -> None:
        """One column block after the other: one is copied while the next one is gathered."""
        for block in range(self.blocks):
            self.store(block)

    def store(self, block: int) -> None:
        """Gather a column block, then let one lane start its copy."""
        build, team, panels = self.host.build, self.crew.team, self.panels
        blocks, buffers = self.blocks, self.host.stages.store_blocks
        if not block or blocks > buffers:  # the buffer's last copy has been read
            in_turn = blocks > buffers and (block > 0 or self.host.stages.fills_buffers_in_turn)
            with build.when(team.first()):
                assembly.bulk_wait_read(build, buffers - 1 if in_turn else 0)
            team.wait()
        target = build.value("arith.addi", [self.base, build.word(block % buffers * panels.panel_bytes)], "i32")
        write_panels(build, team, _part(self.tile, block, panels, self.crew.groups), panels, target)
        assembly.fence_async_shared(build)
        team.wait()
        with build.when(build.all_of([team.first(), *self.conditions])):
            inner = build.add(self.places[-1], block * panels.columns)
            indices = [build.to_word(v) for v in (inner, *reversed(self.places[:-1]))]
            assembly.tensor_store(build, self.pointer, indices, target)
            assembly.bulk_commit(build)


def _part(tile: RegisterTile, block: int, panels: Panels, groups: int) -> RegisterTile:
    """The block of `panels.columns` columns with this number, of the rows of one of `groups` crews."""
    part = _columns(tile, block, panels.columns)
    if groups == 1:
        return part
    registers, lanes, warps = part.layout.registers, part.layout.lanes, part.layout.warps[:_GROUP_BITS]
    return replace(part, layout=Layout((panels.rows, panels.columns), registers, lanes, warps))


def _columns(tile: RegisterTile, block: int, columns: int) -> RegisterTile:
    """The part of a tile with columns [block * columns, (block + 1) * columns)."""
    layout = tile.layout
    rows = tile.shape[0]
    chosen = [r for r in range(layout.count) if coordinates(layout.element(r), tile.shape)[1] // columns == block]

    def short(basis: int) -> int:
        row, column = coordinates(basis, tile.shape)
        return row * columns + column

    registers = tuple(short(b) for b in layout.registers if coordinates(b, tile.shape)[1] < columns)
    part = Layout((rows, columns), registers, tuple(map(short, layout.lanes)), tuple(map(short, layout.warps)))
    return RegisterTile(part, tile.element, tuple(tile.values[r] for r in chosen))
