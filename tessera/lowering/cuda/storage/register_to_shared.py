"""Stage MMA operands: write tiles from registers to shared memory in the layout that MMAs read."""

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager

from tessera.core.mlir import ir
from tessera.lowering.cuda.base.index_builder import width
from tessera.lowering.cuda.isa.sm90 import fence_async_shared
from tessera.lowering.cuda.storage.emit_context import TileContext
from tessera.lowering.cuda.storage.register_tiles import RegisterTile
from tessera.lowering.cuda.storage.shared_tile import SharedTile, SwizzledPanels
from tessera.lowering.cuda.storage.swizzle_atom import write_panels


@contextmanager
def staged_operands(host: TileContext, values: Sequence[ir.Value]) -> Generator[list[SharedTile]]:
    """Return operands in shared memory, for use inside the `with`; those in registers are written there."""
    tiles = {value: host.tile(value) for value in values if not isinstance(host.env[value], SharedTile)}
    with _staged(host, list(tiles.values()), generic=True) as staged:
        found = dict(zip(tiles, staged, strict=True))
        yield [found[value] if value in found else host.env.shared(value) for value in values]


def stage_operand(host: TileContext, tile: RegisterTile) -> SharedTile:
    """Write a tile to shared memory for `wgmma`; it stays until the next barrier of the consumers."""
    with _staged(host, [tile], generic=False) as (staged,):
        return staged


@contextmanager
def _staged(host: TileContext, tiles: Sequence[RegisterTile], *, generic: bool) -> Generator[list[SharedTile]]:
    """Write tiles to shared memory; `generic`: lanes read them, which see each other's stores without a fence."""
    build, warp_set = host.build, host.warp_set
    staged: list[SharedTile] = []
    with ExitStack() as stack:
        for tile in tiles:
            rows, columns = tile.shape
            panels = SwizzledPanels(rows, columns, width(tile.element) // 8)
            pointer = stack.enter_context(host.scratch.exchange(warp_set, panels.bytes))
            address = build.value("llvm.ptrtoint", [pointer], "i32")
            write_panels(build, warp_set, tile, panels, address)
            staged.append(SharedTile(address, panels, tile.element))
        if tiles:
            if not generic:
                fence_async_shared(build)
            warp_set.wait()
            host.scratch.waited()
        yield staged
