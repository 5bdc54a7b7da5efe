"""Records of a profiled launch on the CPU (see `core/profile.py`): written by the thread that ran the group.

One look at the clock a group: the end of one group is the beginning of the next that the same thread takes.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Final

from tessera.core.artifact import Slot
from tessera.core.mlir import ir
from tessera.core.profile import END, NO_PLACE, PLACE, RAN, RECORD_BYTES, START, WORD, WORKER
from tessera.lowering.cpu.simt.entry_point import EntryPoint

_POINTER: Final = "!llvm.ptr"
# The number of CLOCK_MONOTONIC (time.h).
_MONOTONIC: Final = 6 if sys.platform == "darwin" else 1
_SECOND: Final = 1_000_000_000
_TIMESPEC_BYTES: Final = 16
# Functions of the C library: their types.  `sched_getcpu` is Linux's own.
_CLOCK: Final = ("clock_gettime", "i32 (i32, ptr)")
_THREAD: Final = ("pthread_self", "i64 ()")
_CORE: Final = ("sched_getcpu", "i32 ()")


class ProfileRecorder:
    """Emits the record of each group, or of every `every`-th one, into an open entry point.

    `carried` is what the loop over groups hands from one group to the next: when the one before ended.
    """

    def __init__(self, kernel: EntryPoint, module_block: ir.Block, every: int) -> None:
        self._kernel = kernel
        self._every = every
        self._module_block = module_block
        self._records = kernel.slot(Slot("profile"), _POINTER)
        self._timespec = kernel.scratch(_TIMESPEC_BYTES)
        self._thread = self._call(_THREAD, [], "i64")
        self._place = self._where()
        self._declare(_CLOCK)
        self.carried: list[ir.Value] = [self._now()] if every == 1 else []

    def group(self, number: ir.Value, began: Sequence[ir.Value], body: Callable[[], None]) -> list[ir.Value]:
        """Emit `body`, the code of group `number`, and its record; `began` and the result are what is carried."""
        if self._every == 1:
            body()
            return [self._write(number, began[0])]
        flow, vectors = self._kernel.flow, self._kernel.vectors
        zero = vectors.constant(0, "i64")
        place = vectors.integer("andi", number, vectors.constant(self._every - 1, "i64"))
        chosen = vectors.compare("eq", place, zero)
        (start,) = flow.branch(chosen, lambda: [self._now()], lambda: [zero], ["i64"])
        body()

        def record() -> list[ir.Value]:
            self._write(number, start)
            return []

        flow.branch(chosen, record)
        return []

    def _write(self, group: ir.Value, began: ir.Value) -> ir.Value:
        """Write the record of `group`, which began at `began`; return the time at which it ended."""
        kernel, vectors = self._kernel, self._kernel.vectors
        size = vectors.constant(RECORD_BYTES, "i64")
        record = kernel.element(self._records, vectors.integer("muli", group, size), "i8")
        ended = self._now()
        for word, value in ((START, began), (END, ended), (WORKER, self._thread), (PLACE, self._place)):
            kernel.store(value, kernel.offset(record, word * WORD), WORD)
        return ended

    def _where(self) -> ir.Value:
        """Return the record's PLACE: asked for once a chunk of groups."""
        kernel, vectors = self._kernel, self._kernel.vectors
        ran = vectors.constant(RAN, "i64")
        if not sys.platform.startswith("linux"):
            return vectors.constant(RAN + NO_PLACE, "i64")
        core = kernel.emit.value("arith.extui", [self._call(_CORE, [], "i32")], "i64")
        return vectors.integer("ori", core, ran)

    def _now(self) -> ir.Value:
        """Return the clock, in ns."""
        kernel, vectors = self._kernel, self._kernel.vectors
        self._call(_CLOCK, [vectors.constant(_MONOTONIC, "i32"), self._timespec], "i32", declare=False)
        seconds = kernel.load(self._timespec, "i64", WORD)
        fraction = kernel.load(kernel.offset(self._timespec, WORD), "i64", WORD)
        return vectors.integer("addi", vectors.integer("muli", seconds, vectors.constant(_SECOND, "i64")), fraction)

    def _call(
        self, function: tuple[str, str], operands: Sequence[ir.Value], result: str, *, declare: bool = True
    ) -> ir.Value:
        if declare:
            self._declare(function)
        attributes: dict[str, ir.Attribute | str] = {
            "callee": ir.FlatSymbolRefAttr.get(function[0]),
            "operandSegmentSizes": f"array<i32: {len(operands)}, 0>",
            "op_bundle_sizes": "array<i32>",
        }
        return self._kernel.emit.value("llvm.call", operands, result, attributes)

    def _declare(self, function: tuple[str, str]) -> None:
        """Make a function of the C library known to the module."""
        name, kind = function
        emit = self._kernel.emit
        attributes = {
            "sym_name": ir.StringAttr.get(name),
            "function_type": f"!llvm.func<{kind}>",
            "linkage": "#llvm.linkage<external>",
            "CConv": "#llvm.cconv<ccc>",
        }
        before, emit.point = emit.point, ir.InsertionPoint.at_block_begin(self._module_block)
        emit.create("llvm.func", attributes=attributes, regions=1)
        emit.point = before
