"""ELF objects: the symbols that they need from outside, and the bytes that a process loads of them.

Symbols are asked for before an object is loaded, because LLVM ends the process over a missing one.  Libraries for this
take 50 ms to import, which every first launch would pay.
"""

import struct
from typing import Final

_MAGIC: Final = b"\x7fELF\x02\x01"
_SYMBOL_TABLE: Final = 2
_UNDEFINED: Final = 0
_LOADED: Final = 2  # SHF_ALLOC
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


def _sections(code: bytes) -> list[tuple[int, ...]]:
    if not code.startswith(_MAGIC):
        raise ValueError("not a 64-bit little-endian ELF object")
    (at,) = struct.unpack_from("<Q", code, 0x28)
    size, count = struct.unpack_from("<HH", code, 0x3A)
    return [_SECTION.unpack_from(code, at + index * size) for index in range(count)]


def _undefined(code: bytes, table: tuple[int, ...], sections: list[tuple[int, ...]]) -> list[str]:
    start, size, strings = table[4], table[5], sections[table[6]][4]
    names: list[str] = []
    for at in range(start, start + size, _SYMBOL.size):
        name, _, _, section, _, _ = _SYMBOL.unpack_from(code, at)
        if section == _UNDEFINED and name:
            names.append(code[strings + name : code.index(b"\0", strings + name)].decode())
    return names
