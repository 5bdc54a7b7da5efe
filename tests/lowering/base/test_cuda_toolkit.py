import stat
from pathlib import Path

import pytest

from tessera.core.errors.catalog import CompilerCrash, NotOnCuda, ToolMissing
from tessera.lowering.base import cuda_toolkit

LOG = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'k' for 'sm_90a'
ptxas info    : Function properties for k
    16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 18 registers, used 1 barriers, 516 bytes smem
"""
PTX = """.version 8.0
.target sm_90a
.address_size 64
.visible .entry k() .reqntid 32, 1, 1 { ret; }
"""


def test_what_ptxas_reports_is_read():
    assert cuda_toolkit.read_usage(LOG) == cuda_toolkit.Usage(18, 20, 516, 16, 1)


def test_a_kernel_is_assembled_and_disassembled():
    assembled = cuda_toolkit.assemble(PTX, "sm_90a")
    assert assembled.cubin.startswith(b"\x7fELF")
    assert assembled.usage.spill_bytes == 0
    assert "EXIT" in cuda_toolkit.disassemble(assembled.cubin)


def test_who_does_not_wait_ends_ptxas(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    slow = tmp_path / "ptxas"
    slow.write_text("#!/bin/sh\nexec sleep 600\n")
    slow.chmod(slow.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(cuda_toolkit, "tool", lambda name: slow)

    def abandoned() -> None:
        with cuda_toolkit.assembling("sm_90a") as assembler:
            assembler.begin(PTX)
            raise KeyError

    with pytest.raises(KeyError):
        abandoned()


def test_a_ptxas_that_reads_nothing_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    broken = tmp_path / "ptxas"
    broken.write_text("#!/bin/sh\nexec 0<&-\necho no memory >&2\nexit 1\n")
    broken.chmod(broken.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(cuda_toolkit, "tool", lambda name: broken)
    with pytest.raises(CompilerCrash, match="no memory"):
        cuda_toolkit.assemble(PTX * 10_000, "sm_90a")


def test_a_ptxas_that_gives_up_for_want_of_registers_is_not_our_fault(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    cause = SERIALISED.split(" due to ", maxsplit=1)[0] + " due to insufficient register resources for the function 'k'"
    broken = tmp_path / "ptxas"
    broken.write_text(f'#!/bin/sh\ncat > /dev/null\necho "ptxas info    : {cause}"\nexit 1\n')
    broken.chmod(broken.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(cuda_toolkit, "tool", lambda name: broken)
    with pytest.raises(NotOnCuda, match="its tiles need more registers than lanes have"):
        cuda_toolkit.assemble(PTX, "sm_90a")


def test_versions_are_numbers():
    assert all(len(cuda_toolkit.version(name).split(".")) == 3 for name in cuda_toolkit.PACKAGES)


def test_refused_text_is_our_fault_and_names_no_temporary_file():
    with pytest.raises(CompilerCrash, match=r"kernel\.ptx, line 4") as caught:
        cuda_toolkit.assemble(PTX.replace("ret;", "ret"), "sm_90a")
    assert "/tmp" not in caught.value.message


def test_a_broken_cubin_is_refused():
    with pytest.raises(CompilerCrash, match="nvdisasm"):
        cuda_toolkit.disassemble(b"not an ELF file")


def test_a_missing_tool_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(cuda_toolkit, "find_tool", lambda name: None)
    with pytest.raises(ToolMissing, match="ptxas") as caught:
        cuda_toolkit.tool("ptxas")
    assert "nvidia-cuda-nvcc" in caught.value.hint


def test_a_toolkit_outside_the_environment_serves_as_well(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    program = tmp_path / "bin" / "ptxas"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'Cuda compilation tools, release 12.9, V12.9.41'\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr(cuda_toolkit.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.setattr(cuda_toolkit, "find_tool", cuda_toolkit.find_tool.__wrapped__)
    assert cuda_toolkit.find_tool("ptxas") == program
    assert cuda_toolkit.version.__wrapped__("ptxas") == "12.9.41"


IGNORED = "(C7508) Potential Performance Loss: 'setmaxnreg' ignored; unable to determine register count at entry."
INJECTED = "(C7517) warpgroup.wait is injected in around line 40 by compiler to allow use of registers in function 'k'"
SERIALISED = (
    "(C7514) Potential Performance Loss: wgmma.mma_async instructions are serialized due to non wgmma instructions "
    "reading accumulator registers of a wgmma between start and end of the pipeline stage in the function 'k'"
)


def test_what_a_person_should_know_is_kept():
    log = f"{LOG}ptxas info    : {IGNORED}\nptxas info    : {INJECTED}\nptxas info    : {IGNORED}\n"
    assert cuda_toolkit.read_notes(log) == (IGNORED, INJECTED)
    assert cuda_toolkit.read_notes(LOG) == ()


def test_serialised_matrix_instructions_are_told_of():
    assert cuda_toolkit.read_serialised(f"{LOG}ptxas info    : {SERIALISED}\n") == SERIALISED
    assert cuda_toolkit.read_serialised(f"{LOG}ptxas info    : {INJECTED}\n") == ""


def test_a_kernel_without_registers_for_its_tiles_is_told_what_to_do():
    cause = SERIALISED.split(" due to ", maxsplit=1)[0] + " due to insufficient register resources for the function 'k'"
    with pytest.raises(NotOnCuda, match="its tiles need more registers than lanes have") as caught:
        cuda_toolkit.read_notes(f"{LOG}ptxas info    : {cause}\n")
    assert "smaller blocks" in caught.value.hint


def test_ignored_register_counts_are_noted():
    text = PTX.replace("{ ret; }", "{ setmaxnreg.inc.sync.aligned.u32 232; ret; }")
    (note,) = cuda_toolkit.assemble(text, "sm_90a").notes
    assert "'setmaxnreg' ignored" in note
