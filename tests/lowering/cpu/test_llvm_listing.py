"""LLVM IR as a listing."""

import pytest

from support.origins import KERNEL, numbered_origins
from tessera.core.base.source import Span
from tessera.lowering.cpu.llvm_listing import listing_of_llvm

pytestmark = pytest.mark.usefixtures("mlir")
TEXT = r"""; ModuleID = 'm'
source_filename = "m"

define float @f(float %0) !dbg !3 {
  %2 = fadd float %0, %0, !dbg !7
  %3 = fmul float %2, 0x3FB99999A0000000, !dbg !9
  br label %4
4:
  ret float %3, !dbg !8
}

!llvm.dbg.cu = !{!0}
!llvm.module.flags = !{!2}

!0 = distinct !DICompileUnit(language: DW_LANG_C, file: !1, producer: "MLIR", emissionKind: LineTablesOnly)
!1 = !DIFile(filename: "origins", directory: "")
!2 = !{i32 2, !"Debug Info Version", i32 3}
!3 = distinct !DISubprogram(name: "f", linkageName: "f", scope: !1, file: !1, line: 1, type: !5, unit: !0)
!5 = !DISubroutineType(cc: DW_CC_normal, types: !6)
!6 = !{}
!7 = !DILocation(line: 1, column: 1, scope: !3)
!8 = !DILocation(line: 0, scope: !3)
!9 = !DILocation(line: 1, column: 2, scope: !3)
"""


def test_lines_are_linked_by_their_debug_metadata():
    _, table = numbered_origins()
    listing = listing_of_llvm(TEXT, "licm", table)
    assert (listing.level, listing.stage) == ("llvm", "licm")
    assert "!dbg" not in listing.text
    assert "DILocation" not in listing.text
    assert listing.lines[-1].text == "}"
    linked = {line.text.strip(): (line.spans, line.ops) for line in listing.lines}
    assert linked["define float @f(float %0) {"] == ((KERNEL,), ())
    assert linked["%2 = fadd float %0, %0"] == ((Span("cell.py", 2, 5, 2, 9),), (3,))
    assert linked["%3 = fmul float %2, 0x3FB99999A0000000"] == ((Span("cell.py", 2, 12, 2, 20),), (4,))
    assert linked["br label %4"] == ((), ())
    assert linked["ret float %3"] == ((KERNEL,), ())
