"""Rows of printed assembly."""

from tessera.lowering.cpu.assembly_rows import rows_of_code

TEXT = """\
\t.file\t"module"
\t.section\t.rodata.cst4,"aM",@progbits,4
.LCPI0_0:
\t.long\t3
\t.text
\t.globl\ttessera_saxpy
tessera_saxpy:                          # @tessera_saxpy

\tmovq\t(%rdi), %rax # a comment
\t.section\t".text.unlikely","ax",@progbits
\tud2
\t.section\t".note.GNU-stack","",@progbits
"""


def test_rows_of_sections_that_hold_code():
    assert [(row.number, row.kind, row.text.strip()) for row in rows_of_code(TEXT)] == [
        (5, "directive", ".globl\ttessera_saxpy"),
        (6, "label", "tessera_saxpy:"),
        (8, "instruction", "movq\t(%rdi), %rax"),
        (10, "instruction", "ud2"),
    ]
