import pytest

from tessera.core.errors.catalog import CompilerCrash
from tessera.core.targets import TARGETS
from tessera.lowering.cuda.ptx import convergent, may_unroll, to_ptx

KERNEL = """
define ptx_kernel void @k(ptr addrspace(1) %x, float %a) {{
  %v = load float, ptr addrspace(1) %x
  {0}
  store float %r, ptr addrspace(1) %x
  ret void
}}
{1}
"""
CHIP = TARGETS["cuda"].architectures["sm_90a"]


@pytest.mark.parametrize("name", TARGETS["cuda"].architectures)
def test_every_architecture_has_its_ptx(name: str):
    chip = TARGETS["cuda"].architectures[name]
    text = to_ptx(KERNEL.format("%r = fadd float %v, %a", ""), chip).text
    assert f".target {name}" in text
    assert f".version {chip.ptx[-2]}.{chip.ptx[-1]}" in text


def test_a_product_and_a_sum_stay_two_operations():
    body = "%p = fmul float %v, %a\n %r = fadd float %p, %a"
    text = to_ptx(KERNEL.format(body, ""), CHIP).text
    assert "mul.rn.f32" in text
    assert "add.rn.f32" in text
    assert "fma" not in text


@pytest.mark.parametrize("function", ["exp", "log2", "sin", "pow"])
def test_what_would_kill_the_process_is_refused(function: str):
    operands = "float %v, float %a" if function == "pow" else "float %v"
    declared = f"declare float @llvm.{function}.f32({operands.replace(' %v', '').replace(' %a', '')})"
    text = KERNEL.format(f"%r = call float @llvm.{function}.f32({operands})", declared)
    with pytest.raises(CompilerCrash, match=f"llvm.{function}.f32"):
        to_ptx(text, CHIP)


def test_a_function_nobody_has_is_refused():
    text = KERNEL.format("%r = call float @expf(float %v)", "declare float @expf(float)")
    with pytest.raises(CompilerCrash, match="expf"):
        to_ptx(text, CHIP)


def test_text_that_is_no_llvm_ir_is_refused():
    with pytest.raises(CompilerCrash, match="LLVM"):
        to_ptx("define void @k() { ret i32 }", CHIP)


def test_the_optimised_ir_is_kept_when_asked_for():
    text = KERNEL.format("%r = fadd float %v, %a", "")
    assert "fadd float" in to_ptx(text, CHIP, keep_optimised=True).optimised
    assert to_ptx(text, CHIP).optimised == ""


TWO_BRANCHES = """
define ptx_kernel void @k(ptr addrspace(1) %x) {{
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %c = icmp eq i32 %t, 0
  br i1 %c, label %a, label %b
a:
  store i32 1, ptr addrspace(1) %x
  br label %b
b:
  call void asm {0} "bar.sync 1, 64;", ""()
  br i1 %c, label %d, label %e
d:
  store i32 2, ptr addrspace(1) %x
  br label %e
e:
  ret void
}}
declare i32 @llvm.nvvm.read.ptx.sreg.tid.x()
"""


def test_a_barrier_between_two_branches_stays_one_barrier():
    assert to_ptx(TWO_BRANCHES.format("sideeffect"), CHIP).text.count("bar.sync") == 1


@pytest.mark.parametrize(
    ("line", "marked"),
    [
        ('  call void asm sideeffect "x;", ""()', '  call void asm sideeffect "x;", ""() convergent'),
        (
            '%1 = call i32 asm sideeffect "f $0, ($1);", "=r,r"(i32 %0), !dbg !12',
            '%1 = call i32 asm sideeffect "f $0, ($1);", "=r,r"(i32 %0) convergent, !dbg !12',
        ),
        ('%1 = call i32 asm "cvt $0, $1;", "=r,r"(i32 %0), !dbg !12', None),
        ("call void @f(), !dbg !3", None),
    ],
)
def test_assembly_that_does_something_is_convergent(line: str, marked: str | None):
    assert convergent(line) == (marked or line)


LOOP = """
define ptx_kernel void @k(ptr addrspace(1) %0, i32 %1) {{
  br label %3

3:                                                ; preds = %7, %2
  %4 = phi i32 [ %9, %7 ], [ 0, %2 ]
  %5 = phi float [ %8, %7 ], [ 0.0, %2 ]
  %6 = icmp slt i32 %4, %1
  br i1 %6, label %7, label %10

7:                                                ; preds = %3
  {0}
  %8 = fadd float %5, %p
  %9 = add i32 %4, 1
  br label %3

10:                                               ; preds = %3
  store float %5, ptr addrspace(1) %0
  ret void
}}
declare void @llvm.nvvm.barrier0()
"""
INSTRUCTION = "%q = uitofp i32 %4 to float\n  %p = fmul float %q, %q"
ASSEMBLY = 'call void asm sideeffect "fence.proxy.async;", ""()'
BARRIER = "call void @llvm.nvvm.barrier0()"


@pytest.mark.parametrize(
    ("body", "unrolled"),
    [(INSTRUCTION, True), (f"{INSTRUCTION}\n  {ASSEMBLY}", False), (f"{INSTRUCTION}\n  {BARRIER}", False)],
)
def test_loops_of_single_lanes_are_unrolled(body: str, unrolled: bool):
    text = LOOP.format(body)
    assert may_unroll(text) == unrolled
    assert (to_ptx(text, CHIP).text.count("mul.rn.f32") > 1) == unrolled


def test_code_without_loops_has_nothing_to_unroll():
    assert not may_unroll(KERNEL.format("%r = fadd float %v, %a", ""))
    assert not may_unroll("  br i1 %1, label %4, label %5\n\n4:\n  br label %5\n\n5:\n  ret void\n")
