"""Origins as the lines and columns of debug information."""

import pytest

from support.mlir import parse
from tessera.core.base.source import Span
from tessera.core.mlir import AnyOp, ir
from tessera.lowering.cpu.origin_table import FILE, OriginTable

pytestmark = pytest.mark.usefixtures("mlir")
KERNEL = Span("cell.py", 1, 1, 9, 1)
MODULE = """module {
  func.func @f(%a: f32) -> f32 {
    %b = arith.addf %a, %a : f32 loc("op3"("cell.py":2:5 to :9))
    %c = arith.mulf %b, %a : f32 loc("op4"("cell.py":2:12 to :20))
    %d = arith.subf %c, %a : f32 loc(fused["op6"("cell.py":5:1 to :2), "op7"("other.py":6:1 to :3)])
    %e = arith.divf %d, %a : f32 loc("op3"("cell.py":2:5 to :9))
    return %e : f32 loc(unknown)
  } loc("cell.py":1:1)
}"""


def test_lines_are_sets_of_lines_and_columns_are_origins():
    module, table = parse(MODULE), OriginTable(KERNEL)
    table.number_origins(module)
    places: dict[str, tuple[int, int]] = {}

    def visit(op: AnyOp) -> ir.WalkResult:
        location = op.location
        if isinstance(location, ir.FileLineColLoc):
            assert str(location.filename) == FILE
            places[op.name] = location.start_line, location.start_col
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    add, multiply, subtract, divide = (places[f"arith.{name}"] for name in ("addf", "mulf", "subf", "divf"))
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
