"""Stores by the copy engine: the team gathers a tile in shared memory, column block by column block."""

from typing import Any, Final, Protocol

from tessera.core.artifact import TensorMap
from tessera.core.layouts import Layout, axis_bits, coordinates
from tessera.core.mlir import ir
from tessera.lowering.target.cuda.build import Build, width
from tessera.lowering.target.cuda.tiles import assembly
from tessera.lowering.target.cuda.tiles.panels import write_panels
from tessera.lowering.target.cuda.tiles.room import Room
from tessera.lowering.target.cuda.tiles.stages import BLOCK_BYTES, Panels, Stages
from tessera.lowering.target.cuda.tiles.team import Team
from tessera.lowering.target.cuda.tiles.values import RegisterTile

_LINE: Final = 128
_MOST_ROWS: Final = 128


class Host(Protocol):
    """What stores ask of the code around them."""

    build: Build
    env: dict[Any, Any]
    stages: Stages
    room: Room

    @property
    def team(self) -> Team:
        """The team."""
        ...


def store_copied(host: Host, op: Any, tile: RegisterTile) -> bool:
    """Store a tile through the copy engine, where it may; False, having done nothing, where not.

    It takes aligned arrays and tiles of at most 128 rows whose lanes hold parts of every column block: the results of
    products.
    """
    memory, _, *starts = op.operands
    if not host.stages.copies_stores or len(tile.shape) != 2 or tile.shape[0] > _MOST_ROWS:
        return False
    parameter = host.stages.parameter(memory)
    dropped = set(ir.DenseI64ArrayAttr(op.attributes["dropped"]))
    if not host.stages.array(parameter).aligned or len(starts) - 1 in dropped:
        return False
    size = width(tile.element) // 8
    panels = Panels(tile.shape[0], min(tile.shape[1], _LINE // size), size)
    outer = [bit for bit in axis_bits(tile.shape, 1) if bit >= panels.columns]
    if panels.swizzle < _LINE or any(bit not in tile.layout.registers for bit in outer):
        return False
    _store(host, op, tile, panels, TensorMap(_box(panels, dropped, len(starts)), panels.swizzle))
    return True


def _box(panels: Panels, dropped: set[int], rank: int) -> tuple[int, ...]:
    extents = iter((panels.rows, panels.columns))
    return tuple(1 if axis in dropped else next(extents) for axis in range(rank))


def _store(host: Host, op: Any, tile: RegisterTile, panels: Panels, box: TensorMap) -> None:
    """As many column blocks at a time as there are buffers: write them, then let one lane start their copies."""
    build, team, stages = host.build, host.team, host.stages
    memory, _, *starts = op.operands
    pointer = stages.tensor_map(stages.parameter(memory), box)
    places = [host.env[v] for v in starts]
    blocks = tile.shape[1] // panels.columns
    for first in range(0, blocks, stages.store_blocks):
        together = range(first, min(blocks, first + stages.store_blocks))
        targets = [build.value("arith.addi", [stages.store_address, build.word(n * BLOCK_BYTES)], "i32")
                   for n in range(len(together))]  # fmt: skip
        with build.when(team.first()):
            assembly.bulk_wait_read(build, 0)
        team.wait()
        for block, target in zip(together, targets, strict=True):
            write_panels(build, team, _columns(tile, block, panels.columns), panels, target)
        assembly.fence_async_shared(build)
        team.wait()
        with build.when(team.first()):
            for block, target in zip(together, targets, strict=True):
                inner = build.add(places[-1], block * panels.columns)
                indices = [build.to_word(v) for v in (inner, *reversed(places[:-1]))]
                assembly.tensor_store(build, pointer, indices, target)
            assembly.bulk_commit(build)


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
