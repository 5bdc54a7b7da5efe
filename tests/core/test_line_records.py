"""Operations read off the texts of MLIR, LLVM, PTX, SASS and assembly."""

from tessera.core.base.source import Span
from tessera.core.line_records import records_of_lines
from tessera.core.listing import Line
from tessera.core.record import OpRecord, ValueRecord

SPAN = Span("cell.py", 3, 5, 3, 9)


def read(level: str, text: str, above: tuple[OpRecord, ...] = (), ops: tuple[int, ...] = ()) -> list[OpRecord | None]:
    return list(records_of_lines(level, [Line(row, (SPAN,), ops) for row in text.strip("\n").split("\n")], above))


def named(level: str, text: str) -> list[tuple[str, tuple[str, ...]] | None]:
    return [None if one is None else (one.name, one.operands) for one in read(level, text)]


def test_target_ir():
    text = """
#loop_unroll = #llvm.loop_unroll<disable = true>
module {
  llvm.func @f(%arg0: !llvm.ptr) {
    %c0 = arith.constant 0 : i64
    %1:2 = scf.for %i = %c0 to %c0 step %c0 iter_args(%a = %c0, %b = %c0) -> (i64, i64) : i64 {
    ^bb0(%arg5: i64):
      %2 = "llvm.intr.fma"(%a, %b) : (vector<16xf32>, f32) -> vector<16xf32>
    } {unroll}
    llvm.store %1#1, %arg0 {alignment = 4 : i64} : i64, !llvm.ptr
  }
}"""
    found = read("target", text, ops=(7,))
    names = [one and one.name for one in found]
    assert names == [
        None, "module", "llvm.func", "arith.constant", "scf.for", None, "llvm.intr.fma", None, "llvm.store", None, None,
    ]  # fmt: skip
    module, function, constant, loop, fma, store = (one for one in found if one is not None)
    assert [one.parent for one in (module, function, loop, fma, store)] == [
        "", module.id, function.id, loop.id, function.id,
    ]  # fmt: skip
    assert constant.id == "7.target.3"
    assert constant.results == (ValueRecord("7.target.3:0", "i64", "%c0"),)
    assert fma.results[0].type == "vector<16xf32>"
    assert fma.results[0].shape == (16,)
    assert store.operands == (f"{loop.id}:1", "%arg0")
    assert (store.spans, store.numbers) == ((SPAN,), (7,))


def test_llvm_ir():
    assert named("llvm", """
; ModuleID = 'k'
target triple = "nvptx64"
define void @f(ptr %0) #0 {
.lr.ph:                                       ; preds = %1
  %5 = tail call float @llvm.fma.f32(float %3, float %3)
  store float %5, ptr %0, align 4
  ret void
}
declare float @llvm.fma.f32(float)
attributes #0 = { nounwind }""") == [
        None, None, ("define", ("%0",)), None, ("call", ("%3", "%3")), ("store", ("kernel.llvm.2:0", "%0")), ("ret", ()),
        None, None, None,
    ]  # fmt: skip


def test_ptx():
    assert named("ptx", """
.visible .entry f(
{
\t.reg .b32 \t%r<3>;
$L__BB0_1:
\t@%p1 bra \t$L__BB0_2;
\tld.global.v2.f32 \t{%f1, %f2}, [%rd1+8];
\t// begin inline asm
\twgmma.fence.sync.aligned;
}""") == [
        None, None, None, None, ("bra", ()), ("ld.global.v2.f32", ("%f1", "%f2", "%rd1")), None,
        ("wgmma.fence.sync.aligned", ()), None,
    ]  # fmt: skip


def test_names_with_two_colons_are_no_labels():
    text = """
$L__BB0_3:
\tcp.async.bulk.tensor.2d.shared::cluster.global [%r134], [%rd45];
"""
    assert named("ptx", text) == [None, ("cp.async.bulk.tensor.2d.shared", ("%r134", "%rd45"))]


def test_sass():
    assert named("sass", """
.text.f:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 IMAD.MOV.U32 R2, RZ, RZ, UR4 ;
        /*0020*/                   HGMMA.64x128x16.F32 R24, gdesc[UR8], R24 ;""") == [
        None, ("LDC", ("R1",)), ("IMAD.MOV.U32", ("R2", "UR4")), ("HGMMA.64x128x16.F32", ("R24", "UR8", "R24")),
    ]  # fmt: skip


def test_assembly():
    assert named("asm", "f:\n        vmulps  64(%r9,%rbp,4), %ymm0, %ymm4\n.LBB0_5:\n        vzeroupper") == [
        None, ("vmulps", ("%r9", "%rbp", "%ymm0", "%ymm4")), None, ("vzeroupper", ()),
    ]  # fmt: skip


def test_the_origin_is_what_stands_for_the_same_in_tile_ir():
    above = (OpRecord("7", "tessera.load", numbers=(7,)), OpRecord("7.2", "arith.addi", numbers=(7, 8)))
    (one,) = read("ptx", "\tadd.s64 \t%rd1, %rd2, 4;", above, ops=(8, 7))
    assert (one.id, one.origin) == ("8.ptx.1", ("7.2", "7"))
    (other,) = read("ptx", "\tret;", above)
    assert (other.id, other.origin) == ("kernel.ptx.1", ())
