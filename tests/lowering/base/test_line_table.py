"""The line table of an object that was compiled to be listed."""

from support import programs
from tessera.lowering.base.host_cpu import host_target
from tessera.lowering.base.line_table import read_instructions
from tessera.lowering.driver.compile import compile_program


def test_instructions_have_the_lines_of_the_listing():
    program = programs.saxpy()
    found = [compile_program(program, host_target(), observe).artifact for observe in (False, True)]
    plain, listed = (read_instructions(artifact.code, artifact.entry) for artifact in found)
    assert plain.text == listed.text
    assert plain.entry == listed.entry
    assert plain.rows == ()
    offsets = [offset for offset, _, _ in listed.rows]
    assert offsets == sorted(offsets)
    assert max(offsets) < len(listed.text)
    lines = {line for _, file, line in listed.rows if file == program.source.name}
    assert {op.span.line for op in program.body.walk() if op.opcode == "write"} <= lines
