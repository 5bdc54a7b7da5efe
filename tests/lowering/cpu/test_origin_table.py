"""Origins as the lines and columns of debug information."""

import pytest

from support.origins import KERNEL, numbered_origins
from tessera.core.base.source import Span
from tessera.core.mlir import AnyOp, ir
from tessera.lowering.cpu.origin_table import FILE, OriginTable

pytestmark = pytest.mark.usefixtures("mlir")


def test_lines_are_sets_of_lines_and_columns_are_origins():
    module, table = numbered_origins()
    locations: dict[str, tuple[int, int]] = {}

    def visit(op: AnyOp) -> ir.WalkResult:
        location = op.location
        if isinstance(location, ir.FileLineColLoc):
            assert str(location.filename) == FILE
            locations[op.name] = location.start_line, location.start_col
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    add, multiply, subtract, divide = (locations[f"arith.{name}"] for name in ("addf", "mulf", "subf", "divf"))
    assert add == divide
    assert add[0] == multiply[0] != subtract[0]
    assert add[1] != multiply[1]
    first, second = Span("cell.py", 2, 5, 2, 9), Span("cell.py", 2, 12, 2, 20)
    line = table.line("addss", *add)
    assert (line.text, line.spans, line.ops) == ("addss", (first,), (3,))
    fused = table.line("subss", *subtract)
    assert fused.spans == (Span("cell.py", 5, 1, 5, 2), Span("other.py", 6, 1, 6, 3))
    assert fused.ops == (6, 7)
    merged = table.line("vfmadd", add[0], 0)  # LLVM keeps the line of two instructions that it makes one
    assert (merged.spans, merged.ops) == ((first, second), (3, 4))


def test_what_has_no_origin_is_of_the_kernel_as_a_whole():
    line = OriginTable(KERNEL).line("retq", 0, 7)
    assert (line.spans, line.ops) == ((KERNEL,), ())
