"""Number the origins of instructions, so that LLVM's debug information carries them.

A `!DILocation` has room for a line and a column.  A fused operation comes from several places of the text, and a
compiled kernel that the cache keeps may have moved to another line or file since.  So a "line" here is the number of a
set of source lines, and a "column" that of the operations and places on them; both count from 1, as 0 is nothing to
LLVM.  Where LLVM merges instructions of one line, the column is lost, and the origin is everything on that line.
"""

from typing import Final

from tessera.core.base.source import Span
from tessera.core.listing import Line
from tessera.core.mlir import AnyOp, ir
from tessera.core.tile.location import Origins, origins

FILE: Final = "origins"
"""The file that debug information names."""

_Lines = frozenset[tuple[str, int]]


class OriginTable:
    """The origins of one kernel's instructions.  kernel: where it is defined, the origin of what has no other."""

    def __init__(self, kernel: Span) -> None:
        self._kernel = kernel
        self._lines: dict[_Lines, int] = {}
        self._columns: list[dict[Origins, int]] = []

    def number_origins(self, module: ir.Module) -> None:
        """Replace every location in a module of Target IR by the numbers of its line and column."""

        def visit(op: AnyOp) -> ir.WalkResult:
            op.operation.location = self._numbered(op.location)
            for region in op.regions:
                for block in region:
                    for argument in block.arguments:  # it becomes a phi
                        argument.set_location(self._numbered(argument.location))
            return ir.WalkResult.ADVANCE

        module.operation.walk(visit)

    def _numbered(self, location: ir.Location) -> ir.Location:
        origin = origins(location)
        return ir.Location.file(FILE, *(self._numbers(origin) if origin[1] else (0, 0)))

    def _numbers(self, origin: Origins) -> tuple[int, int]:
        lines = frozenset((span.file, span.line) for span in origin[1])
        line = self._lines.setdefault(lines, len(self._lines) + 1)
        if line > len(self._columns):
            self._columns.append({})
        columns = self._columns[line - 1]
        return line, columns.setdefault(origin, len(columns) + 1)

    def line(self, text: str, line: int, column: int) -> Line:
        """Return a printed line that came from there; 0 as a line: the kernel as a whole."""
        if not line:
            return Line(text, (self._kernel,))
        origins = tuple(self._columns[line - 1])
        chosen = origins[column - 1 : column] if column else origins
        operations = dict.fromkeys(number for numbers, _ in chosen for number in numbers)
        spans = dict.fromkeys(span for _, places in chosen for span in places)
        return Line(text, tuple(spans), tuple(operations))
