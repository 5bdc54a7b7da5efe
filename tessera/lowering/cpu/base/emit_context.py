"""Declare what tile lowering needs of the code around it: the interface between `tile/lowering.py` and `group.py`.

Tile operations are lowered by `TileLowering(context)`; `context` is whatever provides `CpuTileContext`.  Code is
emitted at `context.emitter`'s current point, which is scalar code that runs once a group (or under a branch that a
group takes when any of its lanes is active).  Pointers are `!llvm.ptr`, indices and extents are `i64`.

The carried tiles of one loop are handed over together: every `enter_loop` before the loop, every `yield_to` at the end
of its body, in order, every `leave_loop` after it.  What is yielded to one block argument may read another one of the
same loop (`a, b = b, a`).  The results of an `scf.if` go the same way, with the `scf.if`'s result in the place of the
block argument and no initial value.
"""

from dataclasses import dataclass
from typing import Protocol

from tessera.core.mlir import Index, ir
from tessera.lowering.base.emit import Emitter


@dataclass(frozen=True, slots=True)
class ArrayRef:
    """An array or shared buffer as target code sees it.

    pointer: address of element 0 (`!llvm.ptr`)
    extents: one `i64` value an axis
    strides: one an axis, in elements: an int where it is known at compile time, else an `i64` value
    element: the MLIR type of an element in memory: that of the memref, so a bool is an `i8` of 0 or 1
    """

    pointer: ir.Value
    extents: tuple[ir.Value, ...]
    strides: tuple[Index, ...]
    element: ir.Type


class CpuTileContext(Protocol):
    """Answers questions about Tile IR values; all of them are uniform."""

    @property
    def emitter(self) -> Emitter:
        """Writes target code at the current point."""
        ...

    def scalar(self, value: ir.Value) -> ir.Value:
        """Return the target scalar of a uniform Tile IR scalar."""
        ...

    def array(self, value: ir.Value) -> ArrayRef:
        """Return the array or shared buffer behind a Tile IR memref."""
        ...

    def scratch(self, size: int, align: int = 64) -> ir.Value:
        """Address of `size` bytes at a fixed place of the thread's scratch arena; contents are undefined."""
        ...

    def set_scalar(self, value: ir.Value, scalar: ir.Value) -> None:
        """Define a rank-0 result of a tile operation (a full reduction) as the target scalar `scalar`."""
        ...
