"""Stores by the copy engine: the team gathers a tile in shared memory, column block by column block."""

from typing import Any, Final, Protocol

from tessera.core.artifact import TensorMap
from tessera.core.layouts import Layout, axis_bits, coordinates
from tessera.core.mlir import ir
from tessera.lowering.target.cuda.build import Build, width
from tessera.lowering.target.cuda.tiles import assembly
from tessera.lowering.target.cuda.tiles.panels import write_panels
from tessera.lowering.target.cuda.tiles.room import Room
from tessera.lowering.target.cuda.tiles.stages import Panels, Stages
from tessera.lowering.target.cuda.tiles.team import Team
from tessera.lowering.target.cuda.tiles.values import RegisterTile

_BUFFERS: Final = 2
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
    if not host.stages.copies_stores or len(tile.shape) != 2 or tile.shape[0] > _MOST_ROWS:  # noqa: PLR2004
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
    build, team = host.build, host.team
    memory, _, *starts = op.operands
    pointer = host.stages.tensor_map(host.stages.parameter(memory), box)
    places = [host.env[v] for v in starts]
    address = host.stages.store_address
    blocks = tile.shape[1] // panels.columns
    for block in range(blocks):
        target = address
        if block % _BUFFERS:
            target = build.value("arith.addi", [address, build.word(panels.bytes)], "i32")
        with build.when(team.first()):
            assembly.bulk_wait_read(build, _BUFFERS - 1)
        team.wait()
        write_panels(build, team, _columns(tile, block, panels.columns), panels, target)
        assembly.fence_async_shared(build)
        team.wait()
        inner = build.add(places[-1], block * panels.columns)
        coordinates_ = [build.to_word(v) for v in (inner, *reversed(places[:-1]))]
        with build.when(team.first()):
            assembly.tensor_store(build, pointer, coordinates_, target)
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
