"""Map the values of a tile kernel's Tile IR to the code that stands for them, with one typed reader for each kind."""

from collections.abc import Iterable
from typing import TypeAlias

from tessera.core.mlir import Index, ir
from tessera.lowering.cuda.base.memory import GlobalMemory
from tessera.lowering.cuda.storage.register_tiles import Pending, RegisterTile
from tessera.lowering.cuda.storage.shared_tile import SharedTile

Emitted: TypeAlias = Index | GlobalMemory | RegisterTile | SharedTile | Pending
"""A scalar, an array, or a tile: in registers, in shared memory, or the accumulator of an MMA in flight."""


class Environment(dict[ir.Value, Emitted]):
    """The meaning of each Tile IR value while code is emitted.

    Raises:
        TypeError: a reader meets a value of another kind.
    """

    def scalar(self, value: ir.Value) -> Index:
        """Return the scalar that stands for `value`."""
        found = self[value]
        if isinstance(found, int | ir.Value):
            return found
        raise _mismatch(value, found)

    def scalars(self, values: Iterable[ir.Value]) -> list[Index]:
        """Return the scalars that stand for `values`."""
        return [self.scalar(value) for value in values]

    def memory(self, value: ir.Value) -> GlobalMemory:
        """Return the array that stands for `value`."""
        found = self[value]
        if isinstance(found, GlobalMemory):
            return found
        raise _mismatch(value, found)

    def registers(self, value: ir.Value) -> RegisterTile:
        """Return the tile in registers that stands for `value`."""
        found = self[value]
        if isinstance(found, RegisterTile):
            return found
        raise _mismatch(value, found)

    def shared(self, value: ir.Value) -> SharedTile:
        """Return the tile in shared memory that stands for `value`."""
        found = self[value]
        if isinstance(found, SharedTile):
            return found
        raise _mismatch(value, found)


def _mismatch(value: ir.Value, found: Emitted) -> TypeError:
    return TypeError(f"a value of type {value.type} is kept as {type(found).__name__}")
