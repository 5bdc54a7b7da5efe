"""SASS of a CUDA Tile kernel, every instruction linked to the user's line that `tileiras` says it came from."""

import re
from typing import Any, Final

from tessera.core.listing import Line, Listing
from tessera.core.source import Span
from tessera.core.tile.location import identities, spans
from tessera.lowering.target.cuda_tile.instructions import Entry, instructions_of
from tessera.lowering.target.places import Places

_FILE: Final = re.compile(r'//## File "([^"]*)", line (\d+)')
_CODE: Final = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/")


def places_of(entry: Entry) -> Places:
    """Which operations stand on which line of the user's text."""
    ops: dict[tuple[str, int], dict[int, tuple[int, ...]]] = {}
    where: dict[tuple[str, int], dict[int, tuple[Span, ...]]] = {}
    for instruction in instructions_of(entry.body):
        location: Any = instruction.location
        numbers = identities(location) if location is not None else ()
        for span in spans(location) if numbers else ():
            key = (span.file, span.line)
            known = ops.setdefault(key, {}).get(span.column, ())
            ops[key][span.column] = tuple(sorted({*known, *numbers}))
            seen = where.setdefault(key, {}).get(span.column, ())
            where[key][span.column] = tuple(sorted({*seen, span}))
    return Places(ops, where)


def sass_listing(text: str, places: Places) -> Listing:
    """SASS without the disassembler's `//## File` lines; each instruction is linked to the line named before it."""
    lines: list[Line] = []
    current: tuple[str, int] | None = None
    for row in text.rstrip("\n").split("\n"):
        if match := _FILE.search(row):
            current = (match[1], int(match[2]))
            continue
        code = _CODE.match(row)
        lines.append(places.line(row, *current) if code and current is not None else Line(row))
    return Listing("sass", "", tuple(lines))
