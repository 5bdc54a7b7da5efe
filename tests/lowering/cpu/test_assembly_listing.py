"""Assembly text to a listing."""

from support import programs
from tessera.lowering.cpu.assembly_listing import listing_of_assembly

TEXT = """\
\t.file\t"module"
\t.section\t.rodata.cst4,"aM",@progbits,4
.LCPI0_0:
\t.long\t3
\t.text
\t.globl\ttessera_saxpy
\t.type\ttessera_saxpy,@function
tessera_saxpy:
.Lfunc_begin0:
\t.file\t1 "/nb" "cell.py"
\t.loc\t1 3 5 prologue_end # cell.py:3:5
\tmovq\t(%rdi), %rax # a comment
.Ltmp0:
\t.loc\t1 6 5
.LBB0_1:
\tvmulps\t%ymm0, %ymm1, %ymm2
\t.loc\t1 0 5
\tretq
.Lfunc_end0:
\t.size\ttessera_saxpy, .Lfunc_end0-tessera_saxpy
\t.section\t".note.GNU-stack","",@progbits
"""


def test_directives_are_dropped_and_instructions_linked():
    program = programs.saxpy()
    listing = listing_of_assembly(TEXT, program)
    assert listing.level == "asm"
    assert [line.text.split() for line in listing.lines] == [
        ["tessera_saxpy:"],
        ["movq", "(%rdi),", "%rax"],
        [".LBB0_1:"],
        ["vmulps", "%ymm0,", "%ymm1,", "%ymm2"],
        ["retq"],
    ]
    operations = list(program.body.walk())
    for line, number in ((listing.lines[1], 3), (listing.lines[3], 6)):
        assert [operations[n].span.line for n in line.ops] == [number] * len(line.ops)
        assert line.ops
        assert {span.line for span in line.spans} == {number}
    assert listing.lines[4].ops == ()
    assert listing.lines[4].spans == (program.span,)  # the kernel as a whole
