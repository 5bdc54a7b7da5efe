"""SASS is made when somebody looks, and leads to the user's lines."""

from dataclasses import replace
from pathlib import Path

import pytest

from support import programs
from support.artifacts import scale_artifact
from support.tile_machine import lowered
from tessera.core.base.source import Span
from tessera.core.errors.catalog import ToolMissing
from tessera.core.listing import Line, Listing
from tessera.core.targets import Target
from tessera.lowering.base import cuda_toolkit, sass
from tessera.lowering.cuda_tile.text import target_listing
from tessera.lowering.driver.compile import compile_program

HERE, THERE = Span("cell.py", 3, 5, 3, 9), Span("cell.py", 4, 5, 4, 9)
HEAD = Span("cell.py", 2, 1, 2, 9)
PTX = Listing(
    "ptx", "", (Line("mov.u32 %r1, 1;"), Line("add.s32 %r1, 1;", (HERE,), (7,)), Line("ret;", (THERE,), (8,)))
)
OF_PTX = """
        /*0000*/   LDC R1 ;
//## File ".nv_debug_ptx_txt", line 3
        /*0010*/   EXIT ;
//## File ".nv_debug_ptx_txt", line 2
        /*0020*/   IADD3 R1 ;
.L_x_1:
//## File ".nv_debug_ptx_txt", line 1
        /*0030*/   MOV R1 ;
//## File ".nv_debug_ptx_txt", line 99
        /*0040*/   NOP ;
"""[1:]
OF_SOURCE = """\t.target\tsm_90a
saxpy:
\t//## File "./cell.py", line 5
        /*0010*/                   LDG.E R2, desc[UR6][R2.64] ;
\t//## File "./cell.py", line 999
        /*0020*/                   STG.E desc[UR6][R2.64], R9 ;
"""


def test_instructions_follow_the_line_of_the_ptx_they_were_made_from():
    lines = sass.sass_listing(OF_PTX, sass.ptx_origin(PTX), HEAD).lines
    assert [(line.text.split("*/")[-1].strip(), line.ops) for line in lines] == [
        ("LDC R1 ;", ()), ("EXIT ;", (8,)), ("IADD3 R1 ;", (7,)), (".L_x_1:", ()), ("MOV R1 ;", ()), ("NOP ;", ()),
    ]  # fmt: skip
    assert [line.spans for line in lines] == [(HEAD,), (THERE,), (HERE,), (), (HEAD,), (HEAD,)]


def test_instructions_of_a_tile_program_follow_the_line_of_the_source():
    program = programs.tile_copy()
    load = next(number for number, op in enumerate(program.body.walk()) if op.opcode == "load")
    line = next(op for op in program.body.walk() if op.opcode == "load").span.line
    origin = sass.source_origin(target_listing(lowered(program)[1], program))
    lines = sass.sass_listing(OF_SOURCE.replace("line 5", f"line {line}"), origin, HEAD).lines
    assert [row.text.strip()[:8] for row in lines] == [".target\t", "saxpy:", "/*0010*/", "/*0020*/"]
    assert lines[2].ops == (load,)
    assert lines[2].spans[0].line == line
    assert [row.ops for row in (lines[0], lines[1], lines[3])] == [(), (), ()]
    assert lines[3].spans == (HEAD,)


def test_code_that_is_no_cubin_has_no_sass():
    artifact = scale_artifact()
    assert not sass.has_machine_code(artifact)
    assert sass.with_machine_code(artifact, (PTX,)) == (PTX,)
    assert not sass.has_machine_code(replace(artifact, target=Target("cuda", "sm_90a"), code=b".version 8.0\0"))


def test_no_process_starts_before_somebody_looks(monkeypatch: pytest.MonkeyPatch):
    looked: list[str] = []
    monkeypatch.setattr(sass, "disassemble", lambda _, lines: looked.append(lines) or OF_PTX)
    compilation = compile_program(programs.saxpy(), Target("cuda", "sm_90a"), observe=True)
    assert sass.has_machine_code(compilation.artifact)
    assert not looked
    *_, last = full = sass.with_machine_code(compilation.artifact, compilation.listings)
    assert (last.level, looked) == ("sass", ["ptx"])
    assert sass.with_machine_code(compilation.artifact, full) == full


def test_without_the_level_above_there_is_nothing_to_link():
    artifact = replace(scale_artifact(), target=Target("cuda", "sm_90a"), code=b"\x7fELF")
    assert sass.with_machine_code(artifact, ()) == ()


def test_a_cubin_is_disassembled_once():
    cubin = cuda_toolkit.assemble(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k() .reqntid 32, 1, 1 { ret; }\n", "sm_90a"
    ).cubin
    assert cuda_toolkit.disassemble(cubin) is cuda_toolkit.disassemble(cubin)


def test_without_a_tool_its_package_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(cuda_toolkit, "find_tool", lambda name: None if name == "nvdisasm" else Path("/bin/true"))
    with pytest.raises(ToolMissing, match="nvdisasm is neither in") as caught:
        sass.require_tools(Target("cuda", "sm_90a"))
    assert "nvidia-cuda-nvdisasm" in caught.value.hint
    sass.require_tools(Target("cpu", ""))
