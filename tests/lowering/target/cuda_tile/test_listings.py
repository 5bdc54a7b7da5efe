"""SASS linked to the user's lines."""

from support import programs
from support.tile_machine import lowered
from tessera.lowering.target.cuda_tile.listings import places_of, sass_listing

SASS = """\t.target\tsm_90a
saxpy:
\t//## File "./cell.py", line 5
        /*0010*/                   LDG.E R2, desc[UR6][R2.64] ;
\t//## File "./cell.py", line 999
        /*0020*/                   STG.E desc[UR6][R2.64], R9 ;
"""


def test_instructions_lead_to_operations():
    program = programs.tile_copy()
    places = places_of(lowered(program)[1])
    load = next(number for number, op in enumerate(program.body.walk()) if op.opcode == "load")
    line = next(op for op in program.body.walk() if op.opcode == "load").span.line
    lines = sass_listing(SASS.replace("line 5", f"line {line}"), places).lines
    assert [row.text.strip()[:8] for row in lines] == [".target\t", "saxpy:", "/*0010*/", "/*0020*/"]
    assert lines[2].ops == (load,)
    assert lines[2].spans[0].line == line
    assert [row.ops for row in (lines[0], lines[1], lines[3])] == [(), (), ()]
