"""Read resource usage from a cubin, an ELF file with facts about the code in sections called `.nv.info`.

A fact is a byte that says its form, a byte that says which fact, two bytes of size or value, and its data.  Source of
the numbers: what `nvdisasm` prints of these sections (EIATTR_REGCOUNT and so on).
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tessera.core.errors.catalog import CompilerCrash

_MAGIC: Final = b"\x7fELF\x02\x01"
_HEADER: Final = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION: Final = struct.Struct("<IIQQQQIIQQ")
_SYMBOL: Final = struct.Struct("<IBBHQQ")
_HAS_DATA: Final = 4
_REGISTERS, _FRAME, _REQUIRED_LANES = 0x2F, 0x11, 0x10


@dataclass(frozen=True, slots=True)
class CubinUsage:
    """Resources of a kernel: registers and bytes of stack a lane, bytes of shared memory a group, lanes of a group."""

    registers: int
    stack_bytes: int
    shared_bytes: int
    lanes: int


@dataclass(frozen=True, slots=True)
class _Section:
    name: str
    data: bytes
    size: int


def read_usage(cubin: bytes, entry: str) -> CubinUsage:
    """Read what the kernel `entry` of a cubin uses.

    Raises:
        CompilerCrash: this is no cubin, or has no such kernel.
    """
    sections = {section.name: section for section in _sections(cubin)}
    symbols = _symbols(sections)
    if entry not in symbols or ".nv.info" not in sections:
        message = f"the machine code has no kernel '{entry}'"
        raise CompilerCrash(message)
    number = symbols.index(entry)
    registers = stack = 0
    for fact, data in _facts(sections[".nv.info"].data):
        if fact in (_REGISTERS, _FRAME) and len(data) >= 8:
            owner, value = struct.unpack_from("<II", data)
            if owner == number:
                registers, stack = (value, stack) if fact == _REGISTERS else (registers, value)
    own = sections.get(f".nv.info.{entry}")
    lanes = 1
    for fact, data in _facts(own.data) if own is not None else ():
        if fact == _REQUIRED_LANES and len(data) >= 12:
            x, y, z = struct.unpack_from("<III", data)
            lanes = x * y * z
    shared = sections.get(f".nv.shared.{entry}")
    return CubinUsage(registers, stack, shared.size if shared is not None else 0, lanes)


def _sections(cubin: bytes) -> Iterator[_Section]:
    if not cubin.startswith(_MAGIC):
        message = "the machine code is no ELF file"
        raise CompilerCrash(message)
    header: tuple[int, ...] = _HEADER.unpack_from(cubin)[1:]
    table, size, count, names = header[5], header[10], header[11], header[12]
    rows: list[tuple[int, ...]] = [_SECTION.unpack_from(cubin, table + size * number) for number in range(count)]
    text = rows[names]
    for row in rows:
        begin = text[4] + row[0]
        name = cubin[begin : cubin.index(b"\0", begin)].decode()
        no_bits = row[1] == 8
        yield _Section(name, b"" if no_bits else cubin[row[4] : row[4] + row[5]], row[5])


def _symbols(sections: dict[str, _Section]) -> list[str]:
    if ".symtab" not in sections or ".strtab" not in sections:
        return []
    table, text = sections[".symtab"].data, sections[".strtab"].data
    starts = [_SYMBOL.unpack_from(table, at)[0] for at in range(0, len(table), _SYMBOL.size)]
    return [text[start : text.index(b"\0", start)].decode() for start in starts]


def _facts(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(data):
        form, fact, size = struct.unpack_from("<BBH", data, at)
        at += 4
        length = size if form == _HAS_DATA else 0
        yield fact, data[at : at + length]
        at += length
