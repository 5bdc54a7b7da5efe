"""Sizes of object files."""

from typing import Final

from llvmlite import binding

_LOADED: Final = (b".text", b".rodata", b".data")


def loaded_bytes(code: bytes) -> int:
    """Return the bytes of an ELF object that a process needs to run it: neither symbols nor tables of lines."""
    if not code:
        return 0
    sections = binding.ObjectFileRef.from_data(code).sections()
    return sum(section.size() for section in sections if (section.name() or b"").startswith(_LOADED))
