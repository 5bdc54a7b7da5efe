"""From the LLVM dialect to a parsed LLVM module: the guard, and literals bit for bit."""

import ast
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llvmlite import binding

from tessera.core.errors.catalog import CompilerCrash
from tessera.core.mlir import ir
from tessera.lowering.base.llvm_ir import down_level, parse, to_llvm_text

WIDTHS = {"f64": 64, "f32": 32, "f16": 16, "bf16": 16}
SPECIAL = {
    "f64": [
        0x7FF0000000000000,
        0xFFF0000000000000,
        0x7FF8000000000000,
        0xFFF8000000000001,
        0x7FF0000000000001,
        1 << 63,
    ],
    "f32": [0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00123, 0x7F800001, 0x80000000, 1, 0x3DCCCCCD, 0x3F800000],
    "f16": [0x7C00, 0xFC00, 0x7E00, 0xFE01, 0x7C01, 0x8000, 1, 0x2E66, 0x3C00],
    "bf16": [0x7F80, 0xFF80, 0x7FC0, 0xFFC1, 0x7F81, 0x8000, 1, 0x3DCD, 0x3F80],
}
pytestmark = pytest.mark.usefixtures("mlir")


def stored(kind: str, patterns: list[int]) -> list[int]:
    """The bits LLVM parses for constants with the given bits, in order."""
    lines = [
        f"%c{i} = llvm.mlir.constant(0x{bits:0{WIDTHS[kind] // 4}X} : {kind}) : {kind}\n"
        f"llvm.store volatile %c{i}, %o : {kind}, !llvm.ptr"
        for i, bits in enumerate(patterns)
    ]
    module = ir.Module.parse("llvm.func @f(%o: !llvm.ptr) {\n" + "\n".join(lines) + "\nllvm.return }")
    parsed = parse(to_llvm_text(module.operation))
    (function,) = parsed.functions
    (block,) = function.blocks
    texts = [str(i).split("store volatile ")[1].split(",")[0] for i in block.instructions if "store" in str(i)]
    return [read(*text.split()) for text in texts]


def read(kind: str, literal: str) -> int:
    """The bits of a literal as LLVM 22 prints it."""
    width = {"double": 64, "float": 32, "half": 16, "bfloat": 16}[kind]
    if literal[2:3] in ("H", "R"):
        return int(literal[3:], 16)
    if literal.startswith("0x"):
        double = int(literal, 16)
        if width == 64:
            return double
        if double >> 52 & 0x7FF == 0x7FF:
            return (double >> 63) << 31 | 0x7F800000 | (double >> 29) & 0x7FFFFF
        value = struct.unpack("<d", struct.pack("<Q", double))[0]
    else:
        value = float(literal)
    if width == 64:
        return struct.unpack("<Q", struct.pack("<d", value))[0]
    return int(np.float32(value).view(np.uint32))


@pytest.mark.parametrize("kind", WIDTHS)
def test_special_values_keep_their_bits(kind: str):
    assert stored(kind, SPECIAL[kind]) == SPECIAL[kind]


@pytest.mark.parametrize("kind", WIDTHS)
@settings(max_examples=5)
@given(st.data())
def test_every_pattern_keeps_its_bits(kind: str, data: st.DataObject):
    patterns = data.draw(st.lists(st.integers(0, (1 << WIDTHS[kind]) - 1), min_size=50, max_size=50))
    assert stored(kind, patterns) == patterns


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("ret double 1.000000e-01", "ret double 0x3FB999999999999A"),
        ("%r = fcmp ogt float %q, +inf", "%r = fcmp ogt float %q, 0x7FF0000000000000"),
        ("<2 x half> <half 1.0, half -inf>", "<2 x half> <half 0xH3C00, half 0xHFC00>"),
        (
            "phi float [ 1.000000e-01, %a1.5 ], [ f0x3EAAAAAB, %x ]",
            "phi float [ 0x3FB99999A0000000, %a1.5 ], [ 0x3FD5555560000000, %x ]",
        ),
        (
            'call float asm "// 1.5 float +inf", "=f,f"(float 1.0)',
            'call float asm "// 1.5 float +inf", "=f,f"(float 0x3FF0000000000000)',
        ),
        ("store bfloat -qnan, ptr %p ; 1.5 bfloat", "store bfloat 0xRFFC0, ptr %p ; 1.5 bfloat"),
        ("store float +nan(0x123), ptr %p", "store float 0x7FF8002460000000, ptr %p"),
        ("store float +snan(0x1), ptr %p", "store float 0x7FF0000020000000, ptr %p"),
        ("store half 1.0e+10, ptr %p", "store half 0xH7C00, ptr %p"),
        ('source_filename = "f0x12 1.5"', 'source_filename = "f0x12 1.5"'),
        ("%x.1 = add i32 %float.2, 15", "%x.1 = add i32 %float.2, 15"),
        ("%z = fpext float 1.000000e+00 to double", "%z = fpext float 0x3FF0000000000000 to double"),
        (
            "@c = constant [2 x double] [double 1.5, double 2.5]",
            "@c = constant [2 x double] [double 0x3FF8000000000000, double 0x4004000000000000]",
        ),
    ],
)
def test_literals_in_their_places(before: str, after: str):
    assert down_level(before) == after
    assert down_level(after) == after


def test_what_cannot_be_translated_is_refused_with_its_place():
    module = ir.Module.parse('func.func @f(%a: f32) { %0 = math.exp %a : f32 loc("cell.py":3:1)\n return }')
    with pytest.raises(CompilerCrash, match=r"no LLVM IR for func\.func, func\.return, math\.exp") as caught:
        to_llvm_text(module.operation)
    assert (caught.value.span.file, caught.value.span.line) == ("cell.py", 3)


@pytest.mark.parametrize(
    "op",
    ['%0 = "ub.poison"() {value = #ub.poison} : () -> f32', "%0 = builtin.unrealized_conversion_cast %a : f32 to i32"],
)
def test_leftovers_of_conversions_are_refused(op: str):
    module = ir.Module.parse(f"llvm.func @f(%a: f32) {{ {op}\n llvm.return }}")
    with pytest.raises(CompilerCrash, match="no LLVM IR for"):
        to_llvm_text(module.operation)


def test_text_llvm_refuses_is_our_fault():
    with pytest.raises(CompilerCrash, match="LLVM refused the generated code: LLVM IR parsing error"):
        parse("define void @f( {")


def test_a_whole_function_parses():
    module = ir.Module.parse("""llvm.func @f(%a: f32) -> f32 {
      %c = llvm.mlir.constant(0.1 : f32) : f32
      %v = llvm.mlir.constant(dense<[0.1, 0xFF800000]> : vector<2xf32>) : vector<2xf32>
      %0 = llvm.fmul %a, %c : f32
      llvm.return %0 : f32 }""")
    parsed = parse(to_llvm_text(module.operation))
    assert parsed.get_function("f").name == "f"


STUB = ast.parse((Path(__file__).parents[3] / "typings/llvmlite/binding.pyi").read_text(encoding="utf-8"))


def test_the_stub_of_llvmlite_names_what_llvmlite_has():
    wanted = [node.name for node in STUB.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    methods = [
        (getattr(binding, kind.name), method.name)
        for kind in STUB.body
        if isinstance(kind, ast.ClassDef)
        for method in kind.body
        if isinstance(method, ast.FunctionDef)
    ]
    assert [name for name in wanted if not hasattr(binding, name)] == []
    assert [(kind, name) for kind, name in methods if not hasattr(kind, name)] == []
    assert len(wanted) > 20
    assert len(methods) > 15
