"""Assembly text to a listing."""

import pytest

from support.origins import numbered_origins
from tessera.core.listing import NO_ADDRESS
from tessera.lowering.cpu.assembly_listing import listing_of_assembly

pytestmark = pytest.mark.usefixtures("mlir")
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
\t.file\t1 "origins"
\t.loc\t1 1 1 prologue_end # origins:1:1
\tmovq\t(%rdi), %rax # a comment
.Ltmp0:
\t.loc\t1 2 1
.LBB0_1:
\tvmulps\t%ymm0, %ymm1, %ymm2
\t.loc\t1 0 1
\tretq
.Lfunc_end0:
\t.size\ttessera_saxpy, .Lfunc_end0-tessera_saxpy
\t.section\t".note.GNU-stack","",@progbits
"""


def test_directives_are_dropped_and_instructions_linked():
    _, table = numbered_origins()
    listing = listing_of_assembly(TEXT, table, {11: 0, 15: 4, 17: 8})
    assert listing.level == "asm"
    assert [(line.text.split(), line.ops, line.address) for line in listing.lines] == [
        (["tessera_saxpy:"], (), NO_ADDRESS),
        (["movq", "(%rdi),", "%rax"], (3,), 0),
        ([".LBB0_1:"], (), NO_ADDRESS),
        (["vmulps", "%ymm0,", "%ymm1,", "%ymm2"], (6, 7), 4),
        (["retq"], (), 8),
    ]
    assert [[span.line for span in line.spans] for line in listing.lines] == [[], [2], [], [5, 6], [1]]
