"""The order of memory operations: tokens, for CUDA Tile IR promises nothing about the order of what it is told.

Arrays that may be one and the same form a class.  In a class that is written, what reads waits for the last write, and
what writes waits for everything before it; a class that is only read needs no tokens.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tessera.core.mlir import AnyOp, ir
from tessera.core.program.program import Program
from tessera.lowering.analysis.aliasing import parameter_classes
from tessera.lowering.base.ir_walk import operations
from tessera.lowering.cuda_tile.builder import TileBuilder
from tessera.lowering.cuda_tile.instructions import Value

_WRITES = ("tessera.write", "tessera.store", "tessera.masked_store")
_READS = ("tessera.read", "tessera.load", "tessera.gather")


@dataclass
class MemoryTokens:
    """The tokens in force where the lowering stands.

    classes: the class of each memref value that is a parameter
    after_write, after_all: for each class, a token of its last write, and one of all its accesses
    """

    build: TileBuilder
    classes: dict[ir.Value, int] = field(default_factory=dict[ir.Value, int])
    written: frozenset[int] = frozenset()
    after_write: dict[int, Value] = field(default_factory=dict[int, Value])
    after_all: dict[int, Value] = field(default_factory=dict[int, Value])

    def begin(self, function: AnyOp, program: Program) -> None:
        """Sort the parameters into classes, and make a token for each class that is written."""
        self.classes |= parameter_classes(function, program)
        written = (self.classes.get(op.operands[0]) for op in operations(function, *_WRITES))
        self.written = frozenset(number for number in written if number is not None)
        for number in sorted(self.written):
            self.after_write[number] = self.after_all[number] = self.build.token()

    def before_read(self, memory: ir.Value) -> Value | None:
        """Return the token a read of `memory` waits for."""
        return self.after_write.get(self.classes[memory])

    def before_write(self, memory: ir.Value) -> Value:
        """Return the token a write of `memory` waits for."""
        return self.after_all[self.classes[memory]]

    def has_read(self, memory: ir.Value, token: Value) -> None:
        """Record a read that made `token`."""
        number = self.classes[memory]
        if number in self.written:
            self.after_all[number] = self.build.join([self.after_all[number], token])

    def has_written(self, memory: ir.Value, token: Value) -> None:
        """Record a write that made `token`."""
        self.after_write[self.classes[memory]] = self.after_all[self.classes[memory]] = token

    # -- control flow: tokens go in and out of regions as values ---------------------------------------------------

    def touched(self, op: AnyOp) -> tuple[list[int], list[int]]:
        """Return the written classes that code inside `op` accesses, and those it writes."""
        accessed = self._classes(operations(op, *_WRITES, *_READS))
        return accessed, self._classes(operations(op, *_WRITES))

    def _classes(self, found: Iterable[AnyOp]) -> list[int]:
        numbers = {self.classes[op.operands[0]] for op in found if op.operands[0] in self.classes}
        return sorted(numbers & self.written)

    def carried(self, op: AnyOp) -> list[Value]:
        """Return the tokens that `op` changes, as they are now."""
        accessed, written = self.touched(op)
        return [*(self.after_all[n] for n in accessed), *(self.after_write[n] for n in written)]

    def set(self, op: AnyOp, tokens: Sequence[Value]) -> None:
        """Put `tokens`, in the order of `carried`, in their places."""
        accessed, written = self.touched(op)
        self.after_all.update(zip(accessed, tokens[: len(accessed)], strict=True))
        self.after_write.update(zip(written, tokens[len(accessed) :], strict=True))
