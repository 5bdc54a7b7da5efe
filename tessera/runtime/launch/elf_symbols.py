"""The symbols an ELF object needs from outside.

Asked before an object is loaded, because LLVM ends the process over a missing one.
"""

import struct
from typing import Final

_SYMBOL_TABLE: Final = 2
_UNDEFINED: Final = 0
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")


def undefined_symbols(code: bytes) -> tuple[str, ...]:
    """Return the names that a 64-bit little-endian ELF object refers to and does not define.

    Raises ValueError when `code` is no such object.
    """
    if code[:6] != b"\x7fELF\x02\x01":
        raise ValueError("not a 64-bit little-endian ELF object")
    try:
        (at,) = struct.unpack_from("<Q", code, 0x28)
        size, count = struct.unpack_from("<HH", code, 0x3A)
        sections = [_SECTION.unpack_from(code, at + index * size) for index in range(count)]
        tables = [section for section in sections if section[1] == _SYMBOL_TABLE]
        return tuple(name for table in tables for name in _undefined(code, table, sections))
    except (struct.error, IndexError) as error:
        raise ValueError(f"damaged ELF object: {error}") from error


def _undefined(code: bytes, table: tuple[int, ...], sections: list[tuple[int, ...]]) -> list[str]:
    start, size, strings = table[4], table[5], sections[table[6]][4]
    names: list[str] = []
    for at in range(start, start + size, _SYMBOL.size):
        name, _, _, section, _, _ = _SYMBOL.unpack_from(code, at)
        if section == _UNDEFINED and name:
            names.append(code[strings + name : code.index(b"\0", strings + name)].decode())
    return names
