from dataclasses import replace

import pytest

from support import programs
from support.product_programs import matrix_product
from support.simulate import compile_ptx
from tessera.core.targets import Target
from tessera.lowering.base import sass
from tessera.lowering.base.host_cpu import host_target
from tessera.lowering.cuda.resources import instructions, resource_report, spill_note
from tessera.lowering.driver.compile import compile_program

SASS = """
kernel:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/              @!P0 LDG.E.128 R8, desc[UR4][R8.64] ;
        /*0020*/                   LDG.E.U8 R8, desc[UR4][R8.64] ;
        /*0030*/                   LDG.E R8, desc[UR4][R8.64+0x400] ;
        /*0040*/              @UP0 UTMALDG.2D [UR8], [UR4] ;
        /*0050*/                   HGMMA.64x256x16.F32.BF16 R24, gdesc[UR4], R24, gsb0 ;
        /*0060*/                   SYNCS.PHASECHK.TRANS64.TRYWAIT P0, [UR4], R0 ;
        /*0070*/                   MUFU.EX2 R0, R0 ;
        /*0080*/                   STG.E.64 desc[UR4][R2.64], R4 ;
        /*0090*/                   REDG.E.ADD.F32.FTZ.RN.STRONG.GPU desc[UR4][R2.64], R5 ;
.L_x_1:
        /*00a0*/                   BRA `(.L_x_1);
        /*00b0*/                   NOP;
"""


def test_instructions_by_kind_and_width():
    assert [(kind.name, kind.count) for kind in instructions(SASS)] == [
        ("HGMMA", 1), ("UTMALDG", 1), ("LDG.128", 1), ("LDG.32", 1), ("LDG.8", 1), ("STG.64", 1), ("RED", 1),
        ("SYNCS", 1), ("MUFU", 1), ("other", 2),
    ]  # fmt: skip


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
def test_the_report_of_a_kernel(arch: str):
    artifact = compile_program(programs.group_sum(), Target("cuda", arch), observe=False).artifact
    found = resource_report(artifact)
    assert (found.kernel, found.target, found.threads) == ("group_sum", f"cuda:{arch}", 128)
    assert found.registers == artifact.resources.registers
    assert (found.spill_bytes, found.stack_bytes) == (0, 0)
    assert found.shared_bytes == artifact.resources.shared_bytes
    assert found.occupancy.limited_by == ("warps",)
    assert found.count("SHFL") > 0
    assert found.count("BAR") > 0
    assert found.total == sum(kind.count for kind in found.instructions)
    assert found.notes == ()


def test_vectors_show_in_the_counts():
    artifact = compile_program(programs.saxpy(), Target("cuda", "sm_90a"), observe=False).artifact
    found = resource_report(artifact)
    assert (found.count("LDG.128"), found.count("STG.128"), found.elements) == (2, 1, 4)


def test_spilled_registers_are_named_with_what_to_do():
    artifact = compile_program(programs.saxpy(), Target("cuda", "sm_80"), observe=False).artifact
    assert spill_note(artifact) == ""
    spilling = replace(artifact, resources=replace(artifact.resources, spill_bytes=1272))
    (note,) = resource_report(spilling).notes
    assert note.startswith("each lane of saxpy stores and loads 1,272 bytes for want of registers on sm_80")
    assert note.endswith("several numbers of warps, of which more may spill more: autotune(num_warps=[4, 8, 16])")


def test_without_the_tools_the_report_says_what_is_missing(monkeypatch: pytest.MonkeyPatch):
    artifact = compile_ptx(programs.saxpy())
    found = resource_report(artifact)
    assert found.registers is None
    assert found.occupancy is None
    assert any("nvidia-cuda-nvcc" in note for note in found.notes)
    cubin = compile_program(programs.saxpy(), Target("cuda", "sm_90a"), observe=False).artifact
    assert resource_report(cubin).notes == ()
    monkeypatch.setattr(sass, "find_tool", lambda name: None)
    (note,) = resource_report(cubin).notes
    assert "nvidia-cuda-nvdisasm" in note


def test_what_the_assembler_said_is_in_the_report():
    artifact = compile_program(programs.saxpy(), Target("cuda", "sm_90a"), observe=False).artifact
    noted = replace(artifact, resources=replace(artifact.resources, notes=("'setmaxnreg' ignored",)))
    assert resource_report(noted).notes == ("'setmaxnreg' ignored",)


def test_copies_before_the_kernel_are_in_the_report():
    program = matrix_product((128, 128, 64), aligned=False, turned=(True, False))
    (note,) = [note for note in resource_report(compile_ptx(program)).notes if "copied" in note]
    assert note.startswith("before each launch A and B are copied to aligned rows")
    assert not any("copied" in note for note in resource_report(compile_ptx(matrix_product((128, 128, 64)))).notes)


def test_a_kernel_for_the_cpu_has_little_to_report():
    artifact = compile_program(programs.saxpy(), host_target(), observe=False).artifact
    found = resource_report(artifact)
    assert found.registers is None
    assert found.instructions == ()
    assert 0 < found.code_bytes < len(artifact.code)  # without its symbols
