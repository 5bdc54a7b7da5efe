"""Read the machine code of an object file: its bytes, and where its entry point is in them."""

import io
from dataclasses import dataclass
from typing import Final

from elftools.elf.elffile import ELFFile
from elftools.elf.sections import SymbolTableSection

_TEXT: Final = ".text"


@dataclass(frozen=True, slots=True)
class ObjectText:
    """The machine code of an object.

    entry: offset of the entry point in it
    """

    code: bytes
    entry: int


def object_text(code: bytes, entry: str) -> ObjectText:
    """Return the machine code of an ELF object that defines the symbol `entry`."""
    elf = ELFFile(io.BytesIO(code))
    symbols, text = elf.get_section_by_name(".symtab"), elf.get_section_by_name(_TEXT)
    assert isinstance(symbols, SymbolTableSection)
    assert text is not None
    found = symbols.get_symbol_by_name(entry)
    assert found is not None
    return ObjectText(text.data(), found[0]["st_value"])
