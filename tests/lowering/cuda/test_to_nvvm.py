from dataclasses import replace

import pytest

from support import programs
from support.simulate import compile_cuda, compile_ptx, ptx_of
from tessera.core.base.dtypes import f32
from tessera.core.errors.catalog import UnknownArchitecture
from tessera.core.program.program import Program
from tessera.core.targets import TARGETS
from tessera.lowering.cuda import to_nvvm


@pytest.mark.parametrize("arch", TARGETS["cuda"].architectures)
def test_every_architecture_gets_machine_code(arch: str):
    compilation = compile_cuda(programs.group_sum(), arch)
    artifact = compilation.artifact
    assert artifact.code.startswith(b"\x7fELF")
    assert artifact.entry == "group_sum"
    assert artifact.resources.registers > 0
    assert artifact.resources.spill_bytes == 0
    assert artifact.resources.shared_bytes == 128 * 4 + 4
    assert [l.level for l in compilation.listings if not l.stage][-4:] == ["target", "llvm", "ptx", "sass"]


def test_an_unknown_architecture():
    with pytest.raises(UnknownArchitecture):
        compile_ptx(programs.saxpy(), "sm_70")


def test_without_ptxas_the_code_is_ptx_and_sass_is_not_shown(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(to_nvvm, "find_tool", lambda name: None)
    compilation = compile_cuda(programs.saxpy())
    assert compilation.artifact.code.endswith(b"\0")
    assert ".entry saxpy(" in ptx_of(compilation.artifact)
    assert compilation.artifact.resources.registers is None
    assert [l.level for l in compilation.listings if not l.stage][-3:] == ["target", "llvm", "ptx"]


def test_the_parameters_are_the_artifacts_slots():
    artifact = compile_ptx(programs.saxpy(contiguous=False))
    assert [(s.kind, s.parameter, s.symbol) for s in artifact.slots] == [
        ("pointer", 0, ""), ("stride", 0, ""), ("pointer", 1, ""), ("scalar", 2, ""), ("symbol", 0, "n"), ("lanes", 0, ""),
    ]  # fmt: skip
    assert ptx_of(artifact).count(".param ") == len(artifact.slots)


@pytest.mark.parametrize("program", [programs.matmul(), programs.softmax_rows()], ids=lambda p: p.name)
def test_kernels_wait_for_those_in_front_of_them_before_they_look_at_memory(program: Program):
    artifact = compile_ptx(program)
    assert artifact.launch.early
    text = ptx_of(artifact)
    assert text.count("griddepcontrol.wait;") == text.count("griddepcontrol.launch_dependents;") == 1
    first = min(text.index(access) for access in ("ld.global", "st.global") if access in text)
    assert text.index("griddepcontrol.wait;") < text.index("griddepcontrol.launch_dependents;") < first
    # Other chips cannot; and where a block has little to do, beginning it takes longer than what is won.
    for other in (compile_ptx(program, "sm_80"), compile_ptx(programs.saxpy()), compile_ptx(programs.group_sum())):
        assert not other.launch.early
        assert "griddepcontrol" not in ptx_of(other)


def test_how_kernels_are_launched():
    lanes, groups, ranges, single = (
        compile_ptx(p).launch for p in (programs.saxpy(), programs.group_sum(), programs.matmul(), programs.countdown())
    )
    assert (lanes.kind, lanes.lanes_per_group, lanes.threads) == ("lanes", 1024, 256)
    assert (groups.kind, groups.group, groups.lanes_per_group) == ("groups", (128,), 128)
    assert (ranges.kind, ranges.ranges, ranges.lanes_per_group) == ("ranges", (("M", 64), ("N", 64)), 64)
    assert (single.kind, single.lanes_per_group) == ("single", 32)


def test_a_schedule_may_choose_the_lanes():
    program = replace(programs.saxpy(), options={"threads_per_block": 512})
    assert ".reqntid 512" in ptx_of(compile_ptx(program))


def test_big_buffers_are_dynamic_shared_memory():
    small, large = (compile_ptx(programs.matmul(32, 32, bk)) for bk in (32, 128))
    assert small.resources.shared_bytes <= 48 * 1024 < large.resources.shared_bytes
    assert ".extern .shared" not in ptx_of(small)
    assert ".extern .shared" in ptx_of(large)


def test_nothing_is_contracted():
    text = ptx_of(compile_ptx(programs.saxpy(f32)))
    assert "mul.rn.f32" in text
    assert "fma" not in text


def test_a_product_is_a_chain_of_fused_multiply_adds():
    assert "fma.rn.f32" in ptx_of(compile_ptx(programs.matmul(16, 16, 8)))
