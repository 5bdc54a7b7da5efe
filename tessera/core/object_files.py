"""ELF objects: the symbols that they need from outside, the bytes that a process loads of them, and their code.

Symbols are asked for before an object is loaded, because LLVM ends the process over a missing one.  Libraries for this
take 50 ms to import, which every first launch would pay.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_MAGIC: Final = b"\x7fELF\x02\x01"
_SYMBOL_TABLE: Final = 2
_UNDEFINED: Final = 0
_LOADED: Final = 2  # SHF_ALLOC
_SECTION_NAMES: Final = 0x3E
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")


def undefined_symbols(code: bytes) -> tuple[str, ...]:
    """Return the names that a 64-bit little-endian ELF object refers to and does not define.

    Raises ValueError when `code` is no such object.
    """
    try:
        sections = _sections(code)
        tables = [section for section in sections if section[1] == _SYMBOL_TABLE]
        return tuple(name for table in tables for name in _undefined(code, table, sections))
    except (struct.error, IndexError) as error:
        raise ValueError(f"damaged ELF object: {error}") from error


def loaded_bytes(code: bytes) -> int:
    """Return the bytes of an ELF object that a process needs to run it: neither symbols nor tables of lines.

    Code in another form, as a target may have, counts whole.
    """
    if not code.startswith(_MAGIC):
        return len(code)
    return sum(size for _, _, flags, _, _, size, *_ in _sections(code) if flags & _LOADED)


@dataclass(frozen=True, slots=True)
class MachineText:
    """The machine code of an object, and the offsets in it of the symbols that it defines."""

    code: bytes
    symbols: Mapping[str, int]


def machine_text(code: bytes) -> MachineText:
    """Return the section `.text` of a 64-bit little-endian ELF object.  Raises ValueError where there is none."""
    try:
        sections = _sections(code)
        (names,) = struct.unpack_from("<H", code, _SECTION_NAMES)
        texts = [n for n, section in enumerate(sections) if _name(code, sections[names], section[0]) == ".text"]
        (number,) = texts
        symbols = {
            _name(code, sections[table[6]], name): value
            for table in sections
            if table[1] == _SYMBOL_TABLE
            for name, _, _, section, value, _ in _symbols(code, table)
            if section == number
        }
    except (struct.error, IndexError, ValueError) as error:
        raise ValueError(f"damaged ELF object: {error}") from error
    start, size = sections[number][4], sections[number][5]
    return MachineText(code[start : start + size], symbols)


def _sections(code: bytes) -> list[tuple[int, ...]]:
    if not code.startswith(_MAGIC):
        raise ValueError("not a 64-bit little-endian ELF object")
    (at,) = struct.unpack_from("<Q", code, 0x28)
    size, count = struct.unpack_from("<HH", code, 0x3A)
    return [_SECTION.unpack_from(code, at + index * size) for index in range(count)]


def _undefined(code: bytes, table: tuple[int, ...], sections: list[tuple[int, ...]]) -> list[str]:
    strings = sections[table[6]]
    return [_name(code, strings, name) for name, _, _, at, _, _ in _symbols(code, table) if at == _UNDEFINED and name]


def _symbols(code: bytes, table: tuple[int, ...]) -> list[tuple[int, ...]]:
    start, size = table[4], table[5]
    return [_SYMBOL.unpack_from(code, at) for at in range(start, start + size, _SYMBOL.size)]


def _name(code: bytes, strings: tuple[int, ...], offset: int) -> str:
    begin = strings[4] + offset
    return code[begin : code.index(b"\0", begin)].decode()
