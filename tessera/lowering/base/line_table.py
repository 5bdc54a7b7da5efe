"""Lines of the user's file that the instructions of an object file come from: its DWARF line table."""

import io
from dataclasses import dataclass
from typing import Final

from elftools.dwarf.lineprogram import LineProgram
from elftools.dwarf.structs import DWARFStructs
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

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


def read_instructions(code: bytes, entry: str) -> Instructions:
    """Return the machine code of an ELF object, with the table of lines that a listed compilation has (DWARF)."""
    elf = ELFFile(io.BytesIO(code))
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
