"""Factors of products that are in registers: written to shared memory, where all lanes can read them."""

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol

from tessera.core.layouts import Layout
from tessera.lowering.target.cuda.build import Build, width
from tessera.lowering.target.cuda.tiles.panels import write_panels
from tessera.lowering.target.cuda.tiles.room import Room
from tessera.lowering.target.cuda.tiles.stages import Panels, SharedTile, Stages
from tessera.lowering.target.cuda.tiles.team import Team
from tessera.lowering.target.cuda.tiles.values import RegisterTile


class Host(Protocol):
    """What products ask of the code around them."""

    build: Build
    env: dict[Any, Any]
    stages: Stages
    room: Room

    @property
    def team(self) -> Team:
        """The team."""
        ...

    def tile(self, value: Any, layout: Layout | None = None) -> RegisterTile:
        """A tile in a layout, its own if none is given."""
        ...

    def define(self, value: Any, tile: RegisterTile) -> None:
        """Say what a tile is."""
        ...

    def layout(self, value: Any) -> Layout:
        """The layout that the plan gives a tile."""
        ...


@contextmanager
def shared_factors(host: Host, values: Sequence[Any]) -> Generator[list[SharedTile]]:
    """Factors in shared memory, where they are written if they are not there yet; for use inside the `with`."""
    build, team = host.build, host.team
    tiles = {value: host.tile(value) for value in values if not isinstance(host.env[value], SharedTile)}
    parked: dict[Any, SharedTile] = {}
    with ExitStack() as stack:
        for value, tile in tiles.items():
            rows, columns = tile.shape
            panels = Panels(rows, columns, width(tile.element) // 8)
            pointer = stack.enter_context(host.room.exchange(team, panels.bytes))
            address = build.value("llvm.ptrtoint", [pointer], "i32")
            parked[value] = SharedTile(address, panels, tile.element)
            write_panels(build, team, tile, panels, address)
        if tiles:
            team.wait()
            host.room.waited()
        yield [parked[value] if value in parked else host.env[value] for value in values]
