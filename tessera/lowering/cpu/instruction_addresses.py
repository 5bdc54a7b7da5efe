"""Find where the instructions of printed assembly are in an object: assemble them once more, each after a label.

LLVM assembles what a module holds as inline assembly (`module asm`) and keeps labels in the table of symbols.
"""

import re
from collections.abc import Mapping
from typing import Final

from llvmlite import binding

from tessera.core.object_files import machine_text
from tessera.lowering.cpu.assembly_rows import rows_of_code

_LABEL: Final = "instruction."
"""No name of a kernel has a dot."""
_UNPRINTABLE: Final = re.compile(r"[^ !#-\[\]-~]")


def instruction_addresses(assembly: str, code: bytes, machine: binding.TargetMachine) -> Mapping[int, int]:
    """Return the offset in `.text` of the instruction on each row of assembly, by the row's number from 0 on.

    code: the object that was made of the same module; nothing is returned where assembling gives other instructions
    """
    binding.initialize_native_asmparser()
    rows = assembly.split("\n")
    for row in rows_of_code(assembly):
        if row.kind == "instruction":
            rows[row.number] = f"{_LABEL}{row.number}:\n{rows[row.number]}"
    text = "\n".join(f'module asm "{_escaped(row)}"' for row in "\n".join(rows).split("\n"))
    module = binding.parse_assembly(f'target triple = "{machine.triple}"\n{text}')
    assembled = machine_text(machine.emit_object(module))
    if assembled.code != machine_text(code).code:
        return {}
    return {
        int(name.removeprefix(_LABEL)): offset
        for name, offset in assembled.symbols.items()
        if name.startswith(_LABEL)
    }  # fmt: skip


def _escaped(text: str) -> str:
    """Write text as LLVM IR does: what is not printable, quotes and backslashes as two hexadecimal digits."""
    return _UNPRINTABLE.sub(lambda match: "".join(f"\\{byte:02X}" for byte in match[0].encode()), text)
