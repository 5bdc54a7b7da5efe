"""A Program as records: numbers, structure, values."""

from support.programs import matmul, saxpy
from tessera.core.program_records import records_of_program
from tessera.core.record import KERNEL, ValueRecord, Verbatim


def test_numbers_are_those_of_the_walk():
    for program in (saxpy(), matmul()):
        kernel, *records = records_of_program(program)
        ops = list(program.body.walk())
        assert (kernel.id, kernel.name, kernel.attributes["sym_name"]) == (KERNEL, "kernel", program.name)
        assert [record.id for record in records] == [str(number) for number in range(len(ops))]
        assert [record.numbers for record in records] == [(number,) for number in range(len(ops))]
        assert [record.name for record in records] == [op.opcode for op in ops]
        assert [record.spans for record in records] == [(op.span,) for op in ops]


def test_values_and_structure():
    kernel, index, _, less, branch, read, *_ = records_of_program(saxpy())
    assert kernel.arguments[0][1] == ValueRecord("kernel^0.1", "array<nxf32>", "y")
    assert (index.results, index.attributes["axis"]) == ((ValueRecord("0:0", "i64", "i"),), Verbatim("none"))
    assert less.operands == ("0:0", "1:0")
    assert (branch.name, branch.operands, branch.arguments) == ("if", ("2:0",), ((), ()))
    assert (read.parent, read.region, read.operands) == ("3", 0, ("kernel^0.0", "0:0"))
    loops = [record for record in records_of_program(matmul()) if record.name == "for"]
    assert [[value.name for value in loop.arguments[0]] for loop in loops] == [["m"], ["n"], ["k", "acc"]]
    assert [loop.parent for loop in loops] == [KERNEL, loops[0].id, loops[1].id]
