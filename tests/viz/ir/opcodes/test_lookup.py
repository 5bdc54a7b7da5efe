"""Documentation of operations: found by name and modifiers, and complete for the shipped kernels."""

import pytest

from support.programs import softmax_rows
from tessera.core.targets import Target
from tessera.core.tile.dialect import OPERATIONS
from tessera.core.tile.spec import LEGAL_OPERATIONS
from tessera.lowering.driver.compile import compile_program
from tessera.viz.ir.opcodes import lookup, mlir, sass
from tessera.viz.ir.opcodes.lookup import document

NOT_IN_TEXT = {"builtin.module"}


@pytest.mark.parametrize(
    ("level", "line", "name", "text"),
    [
        ("tile", "  %4 = arith.mulf %alpha, %3 : f32", "arith.mulf", "floating-point product"),
        ("tile", "  scf.if %2 {", "scf.if", mlir.OTHERS["scf.if"]),
        ("target", '  "tessera.barrier"() : () -> ()', "tessera.barrier", mlir.TILE["barrier"]),
        ("llvm", "  %3 = fadd <8 x float> %1, %2", "fadd", "floating-point sum"),
        ("llvm", "  %3 = tail call float @llvm.sqrt.f32(float %2)", "call llvm.sqrt", "an intrinsic: square root"),
        ("ptx", "\t@%p1 bra \t$L__BB0_2;", "bra", "branches"),
        ("ptx", "\tcvt.rn.bf16.f32 \t%rs1, %f1;", "cvt.rn.bf16.f32",
         "converts a value; .rn: to the nearest; .bf16: bfloat16; .f32: float of 32 bits"),
        ("ptx", "\tld.shared.v4.b32 \t{%r1}, [%r2];", "ld.shared.v4.b32",
         "loads from shared memory; .v4: 4 values; .b32: 32 bits"),
        ("sass", "/*0010*/   @P0 BRA `(.L_x_1)", "BRA", "branches"),
        ("sass", "/*0010*/       UIADD3.X UR5, URZ", "UIADD3.X",
         "sum of three integers; once a warp, on uniform registers; .X: with carry"),
        ("sass", "/*0010*/       HGMMA.64x256x16.F32.BF16 R24", "HGMMA.64x256x16.F32.BF16",
         f"{sass.OPCODES['HGMMA']}; 64 x 256 x 16 (M x N x K); .F32: f32; .BF16: bf16"),
        ("asm", "\tvfmadd213ps\t%zmm0, %zmm1, %zmm2", "vfmadd213ps", "a * b + c, rounded once, f32 lanes"),
        ("asm", "\tjne\t.LBB0_1", "jne", "jumps if a flag says so: not equal"),
        ("asm", "\tretq", "retq", "returns"),
    ],
)  # fmt: skip
def test_operations_are_found(level: str, line: str, name: str, text: str):
    assert document(level, line) == (name, text)


@pytest.mark.parametrize(
    ("level", "line"),
    [("tile", "}"), ("ptx", "$L__BB0_1:"), ("ptx", "\t.loc\t1 2 3"), ("sass", ".L_x_1:"), ("asm", ".LBB0_1:"),
     ("asm", "\t.cfi_startproc"), ("sass", "/*0010*/       NOSUCHTHING R1"), ("source", "y = x")],
)  # fmt: skip
def test_what_is_no_operation_has_no_documentation(level: str, line: str):
    assert document(level, line) is None


def test_every_operation_of_tile_ir_is_documented():
    assert set(mlir.TILE) == set(OPERATIONS)
    missing = {name for name in LEGAL_OPERATIONS - NOT_IN_TEXT if document("tile", f"  {name} %0") is None}
    assert missing == set()


@pytest.mark.parametrize("target", [Target("cpu", "x86-64-v4"), Target("cuda", "sm_90a")], ids=str)
def test_every_operation_that_came_from_a_line_is_documented(target: Target):
    listings = compile_program(softmax_rows(256, 8), target, observe=True).listings
    for level in {listing.level for listing in listings} - {"source"}:
        lines = [line.text for listing in listings if listing.level == level for line in listing.lines if line.spans]
        named = [line for line in lines if lookup._name(level, line) is not None]
        assert len(named) > 5
        assert [line for line in named if document(level, line) is None] == []
