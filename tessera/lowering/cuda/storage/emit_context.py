"""What the parts of the team's lowering ask of the code around them: `engine.Engine` is all of it.

A part names the smallest of these protocols that it can do with, and adds what nobody else asks for.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from tessera.core.layouts import Layout
from tessera.lowering.cuda.base.index_builder import IndexBuilder
from tessera.lowering.cuda.storage.global_access import Window
from tessera.lowering.cuda.storage.register_tiles import RegisterTile
from tessera.lowering.cuda.storage.shared_scratch import SharedScratch
from tessera.lowering.cuda.storage.warps import WarpSet


class EmitContext(Protocol):
    """Who emits code for whom; `env`: what each value of the Tile IR has become."""

    build: IndexBuilder
    env: dict[Any, Any]

    @property
    def team(self) -> WarpSet:
        """The team."""
        ...


class ScratchContext(EmitContext, Protocol):
    """A host with shared memory to lend."""

    room: SharedScratch


class TileContext(ScratchContext, Protocol):
    """A host that knows the tiles in registers."""

    def tile(self, value: Any, layout: Layout | None = None) -> RegisterTile:
        """A tile in a layout, its own if none is given."""
        ...

    def define(self, value: Any, tile: RegisterTile) -> None:
        """Say what a tile is."""
        ...

    def layout(self, value: Any) -> Layout:
        """The layout that the plan gives a tile."""
        ...


class DeferredStore(Protocol):
    """A result that is stored while the next group's products run."""

    def meanwhile(self) -> None:
        """Store a part of it, behind a product that runs."""
        ...


class WindowContext(ScratchContext, Protocol):
    """A host that knows the arrays."""

    def window(self, op: Any, memory: Any, starts: Sequence[Any], extents: Sequence[int]) -> Window:
        """The part of an array that `op` touches."""
        ...

    def repeat(self, op: Any) -> None:
        """Emit an operation with the operands that are in `env` now."""
        ...
