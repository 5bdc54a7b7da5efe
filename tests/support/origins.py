"""A module whose operations come from lines of a user's file, and the table that numbers their origins."""

from typing import Any

from support.mlir import parse
from tessera.core.base.source import Span
from tessera.lowering.cpu.origin_table import OriginTable

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
"""Sets of lines in order: of line 2, and of lines 5 and 6."""


def numbered_origins() -> tuple[Any, OriginTable]:
    """Return the module, and the table that has numbered its origins."""
    module, table = parse(MODULE), OriginTable(KERNEL)
    table.number_origins(module)
    return module, table
