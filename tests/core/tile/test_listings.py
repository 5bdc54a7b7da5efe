"""Listings of the levels below Tile IR."""

from support.mlir import lowered, parse
from support.programs import saxpy
from tessera.core.base.source import Span
from tessera.core.tile.listings import listing_of_llvm, listing_of_mlir

MODULE = """module {
  func.func @f(%a: f32) -> f32 {
    %b = arith.addf %a, %a : f32 loc("op3"("cell.py":2:5 to :9))
    %c = scf.execute_region -> f32 {
      scf.yield %b : f32 loc("op5"("cell.py":4:1 to :2))
    } loc("op4"("cell.py":3:5 to :9))
    return %c : f32 loc(fused["op6"("cell.py":5:1 to :2), "op7"("cell.py":6:1 to :3)])
  } loc("cell.py":1:1)
}"""


def test_upstream_modules_are_printed_as_mlir_does():
    listing = listing_of_mlir(parse(MODULE), "target", "to-cpu")
    assert (listing.level, listing.stage) == ("target", "to-cpu")
    assert "loc(" not in listing.text
    found = {line.text.strip(): (line.ops, [s.line for s in line.spans]) for line in listing.lines}
    assert found["%0 = arith.addf %arg0, %arg0 : f32"] == ((3,), [2])
    assert found["%1 = scf.execute_region -> f32 {"] == ((4,), [3])
    assert found["scf.yield %0 : f32"] == ((5,), [4])
    assert found["return %1 : f32"] == ((6, 7), [5, 6])
    assert found["func.func @f(%arg0: f32) -> f32 {"] == ((), [1])


def test_tile_ir_too():
    program = saxpy()
    lines = listing_of_mlir(lowered(program), "target", "").lines
    (read,) = [line for line in lines if '"tessera.read"(%arg0' in line.text]
    assert read.ops == (4,)


LLVM = r"""; ModuleID = 'm'
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
!1 = !DIFile(filename: "-", directory: "")
!2 = !{i32 2, !"Debug Info Version", i32 3}
!3 = distinct !DISubprogram(name: "f", linkageName: "f", scope: !4, file: !4, line: 1, type: !5, unit: !0)
!4 = !DIFile(filename: "cell \22\C3\A4\22.py", directory: "")
!5 = !DISubroutineType(cc: DW_CC_normal, types: !6)
!6 = !{}
!7 = !DILocation(line: 4, column: 5, scope: !3)
!8 = !DILocation(line: 0, scope: !3)
!9 = !DILocation(line: 9, column: 2, scope: !10)
!10 = distinct !DILexicalBlockFile(scope: !3, file: !4, discriminator: 0)
"""


def test_llvm_lines_are_linked_by_their_debug_metadata():
    listing = listing_of_llvm(LLVM)
    name = 'cell "ä".py'
    assert "!dbg" not in listing.text
    assert "DILocation" not in listing.text
    assert listing.lines[-1].text != ""
    found = {line.text.strip(): line.spans for line in listing.lines}
    assert found["define float @f(float %0) {"] == (Span(name, 1, 0, 1, 1),)
    assert found["%2 = fadd float %0, %0"] == (Span(name, 4, 5, 4, 6),)
    assert found["%3 = fmul float %2, 0x3FB99999A0000000"] == (Span(name, 9, 2, 9, 3),)
    assert found["br label %4"] == ()
    assert found["ret float %3"] == ()


def test_a_program_knows_the_ends_and_the_operations():
    listing = listing_of_llvm(LLVM.replace(r"cell \22\C3\A4\22.py", "cell.py"), "", saxpy())
    (add,) = [line for line in listing.lines if "fadd" in line.text]
    assert add.ops == (2,)
    assert add.spans == (Span("cell.py", 4, 5, 4, 20),)
