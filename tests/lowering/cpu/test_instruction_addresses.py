"""Addresses of printed instructions: in every program the printed assembly is the code that runs."""

from dataclasses import replace

import pytest
from llvmlite import binding

from support import programs
from tessera.core.listing import NO_ADDRESS
from tessera.core.object_files import machine_text
from tessera.core.program.program import Program
from tessera.lowering.base.host_cpu import host_target
from tessera.lowering.cpu.instruction_addresses import instruction_addresses
from tessera.lowering.driver.compile import compile_program

PROGRAMS = (
    programs.saxpy(), programs.matmul(), programs.softmax_rows(), programs.fused_mlp(), programs.warp_reduce(),
    programs.countdown(), programs.pipeline(),
)  # fmt: skip


@pytest.mark.parametrize("name", ["row_max", "instruction_1", "tessera_row_2"])
def test_names_of_kernels_are_no_labels_of_instructions(name: str):
    lines = compile_program(replace(programs.saxpy(), name=name), host_target(), observe=True).listings[-1].lines
    assert all(line.address != NO_ADDRESS for line in lines if not line.text.endswith(":"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_every_instruction_has_its_address(program: Program):
    made = compile_program(program, host_target(), observe=True)
    code = machine_text(made.artifact.code)
    lines = next(listing for listing in made.listings if listing.level == "asm").lines
    labels = [number for number, line in enumerate(lines) if line.text.endswith(":")]
    addresses = [line.address for line in lines if line.address != NO_ADDRESS]
    assert len(addresses) + len(labels) == len(lines)
    assert addresses == sorted(set(addresses))
    entry = next(number for number in labels if lines[number].text == f"{made.artifact.entry}:")
    assert lines[entry + 1].address == code.symbols[made.artifact.entry]
    returns = [line.address for line in lines if line.text.split() == ["retq"]]
    assert returns
    assert all(code.code[address] == 0xC3 for address in returns)


def test_other_code_has_no_addresses():
    made = compile_program(programs.saxpy(), host_target(), observe=False)  # which initializes LLVM
    machine = binding.Target.from_default_triple().create_target_machine()
    assert instruction_addresses("\t.text\nf:\n\tnop\n\tretq\n", made.artifact.code, machine) == {}
