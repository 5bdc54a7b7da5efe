"""Object files: how large what a process loads is, and which lines of the user's file its instructions come from."""

import io
from dataclasses import dataclass
from typing import Final

from elftools.dwarf.lineprogram import LineProgram
from elftools.dwarf.structs import DWARFStructs
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

_LOADED: Final = (".text", ".rodata", ".data")
_TEXT: Final = ".text"
_LINES: Final = ".debug_line"


@dataclass(frozen=True, slots=True)
class Instructions:
    """The machine code of an object, and where the code of each line begins.

    text: the bytes; entry: offset of the entry point in them
    rows: (offset, file, line), sorted by offset; the line of the instructions from there on, 0 for the compiler's own
    """

    text: bytes
    entry: int
    rows: tuple[tuple[int, str, int], ...] = ()


def loaded_bytes(code: bytes) -> int:
    """Return the bytes of an ELF object that a process needs to run it: neither symbols nor tables of lines.

    Code in another form, as a target may have, counts whole.
    """
    if not code.startswith(b"\x7fELF"):
        return len(code)
    return sum(section["sh_size"] for section in _elf(code).iter_sections() if section.name.startswith(_LOADED))


def read_instructions(code: bytes, entry: str) -> Instructions:
    """Return the machine code of an ELF object, with the table of lines that a listed compilation has (DWARF)."""
    elf = _elf(code)
    symbols, text = elf.get_section_by_name(".symtab"), elf.get_section_by_name(_TEXT)
    assert isinstance(symbols, SymbolTableSection)
    assert text is not None
    found = symbols.get_symbol_by_name(entry)
    assert found is not None
    return Instructions(text.data(), found[0]["st_value"], tuple(_rows(elf)))


def _rows(elf: ELFFile) -> list[tuple[int, str, int]]:
    section = elf.get_section_by_name(_LINES)
    if section is None:
        return []
    structs = DWARFStructs(little_endian=elf.little_endian, dwarf_format=32, address_size=elf.elfclass // 8)
    stream = io.BytesIO(section.data())
    header = structs.Dwarf_lineprog_header.parse_stream(stream)
    end = header["unit_length"] + structs.initial_length_field_size()
    files = [entry.name.decode() for entry in header["file_entry"]]
    states = (entry.state for entry in LineProgram(header, stream, structs, stream.tell(), end).get_entries())
    rows = ((s.address, files[s.file - 1], s.line) for s in states if s is not None and not s.end_sequence)
    return sorted(rows, key=lambda row: row[0])  # of several at an address, the last one counts


def _elf(code: bytes) -> ELFFile:
    return ELFFile(io.BytesIO(code))
