"""Tiles that are in registers, written to shared memory as products read them there."""

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from tessera.lowering.cuda.base.index_builder import width
from tessera.lowering.cuda.isa.sm90 import fence_async_shared
from tessera.lowering.cuda.storage.emit_context import TileContext
from tessera.lowering.cuda.storage.register_tiles import RegisterTile
from tessera.lowering.cuda.storage.shared_tile import SharedTile, SwizzledPanels
from tessera.lowering.cuda.storage.swizzle_atom import write_panels


@contextmanager
def staged_operands(host: TileContext, values: Sequence[Any]) -> Generator[list[SharedTile]]:
    """Factors where lanes read them, for use inside the `with`: they are written there if they are not there yet."""
    tiles = {value: host.tile(value) for value in values if not isinstance(host.env[value], SharedTile)}
    with _parked(host, list(tiles.values()), generic=True) as parked:
        found = dict(zip(tiles, parked, strict=True))
        yield [found[value] if value in found else host.env[value] for value in values]


def stage_operand(host: TileContext, tile: RegisterTile) -> SharedTile:
    """Write a tile where warp groups' tensor cores read it, until the team waits again."""
    with _parked(host, [tile], generic=False) as (parked,):
        return parked


@contextmanager
def _parked(host: TileContext, tiles: Sequence[RegisterTile], *, generic: bool) -> Generator[list[SharedTile]]:
    """Tiles in shared memory; `generic`: lanes read them, who see each other's stores without a fence."""
    build, team = host.build, host.team
    parked: list[SharedTile] = []
    with ExitStack() as stack:
        for tile in tiles:
            rows, columns = tile.shape
            panels = SwizzledPanels(rows, columns, width(tile.element) // 8)
            pointer = stack.enter_context(host.room.exchange(team, panels.bytes))
            address = build.value("llvm.ptrtoint", [pointer], "i32")
            write_panels(build, team, tile, panels, address)
            parked.append(SharedTile(address, panels, tile.element))
        if tiles:
            if not generic:
                fence_async_shared(build)
            team.wait()
            host.room.waited()
        yield parked
