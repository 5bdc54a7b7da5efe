"""Declare what each part of the consumers' lowering needs of the emitter; `kernel.emitter.RoleEmitter` is all of it.

A part names the smallest protocol that it can do with, and extends it by what no other part needs.
"""

from collections.abc import Sequence
from typing import Protocol

from tessera.core.layouts import Layout
from tessera.core.mlir import AnyOp, ir
from tessera.lowering.cuda.base.index_builder import IndexBuilder
from tessera.lowering.cuda.storage.environment import Environment
from tessera.lowering.cuda.storage.global_access import Window
from tessera.lowering.cuda.storage.register_tiles import RegisterTile
from tessera.lowering.cuda.storage.shared_scratch import SharedScratch
from tessera.lowering.cuda.storage.warps import WarpSet


class EmitContext(Protocol):
    """Code emission for one role; `env`: what each value of the Tile IR has become."""

    build: IndexBuilder
    env: Environment

    @property
    def warp_set(self) -> WarpSet:
        """Return the consumer warps."""
        ...


class ScratchContext(EmitContext, Protocol):
    """A context with shared memory to lend."""

    scratch: SharedScratch


class TileContext(ScratchContext, Protocol):
    """A context that knows the tiles in registers."""

    def tile(self, value: ir.Value, layout: Layout | None = None) -> RegisterTile:
        """Return a tile in a layout, its own if none is given."""
        ...

    def define(self, value: ir.Value, tile: RegisterTile) -> None:
        """Define a tile."""
        ...

    def layout(self, value: ir.Value) -> Layout:
        """Return the layout that the schedule gives a tile."""
        ...


class DeferredStore(Protocol):
    """A result that is stored while the MMAs of the next group run."""

    def meanwhile(self) -> None:
        """Store a part of it behind an MMA in flight."""
        ...


class WindowContext(ScratchContext, Protocol):
    """A context that knows the arrays."""

    def window(self, op: AnyOp, memory: ir.Value, starts: Sequence[ir.Value], extents: Sequence[int]) -> Window:
        """Return the part of an array that `op` touches."""
        ...

    def repeat(self, op: AnyOp) -> None:
        """Emit an operation with the operands that are in `env` now."""
        ...
