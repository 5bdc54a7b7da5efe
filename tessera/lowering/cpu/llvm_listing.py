"""LLVM IR as a listing: without debug metadata, each line linked to the origins that its metadata numbers."""

import re
from typing import Final

from tessera.core.listing import Line, Listing
from tessera.lowering.cpu.origin_table import OriginTable

_DBG: Final = re.compile(r",? !dbg !(\d+)")
_LOCATION: Final = re.compile(r"!(\d+) = (?:distinct )?!DILocation\(line: (\d+)(?:, column: (\d+))?")
_SUBPROGRAM: Final = re.compile(r"!(\d+) = (?:distinct )?!DISubprogram\(")
_METADATA: Final = re.compile(r"!(?:\d+|[\w.]+) = ")


def listing_of_llvm(text: str, stage: str, table: OriginTable) -> Listing:
    """List a module of LLVM IR as it stood after `stage`, a pass of LLVM ("": the end)."""
    rows = text.rstrip("\n").split("\n")
    numbers: dict[str, tuple[int, int]] = {}
    for row in rows:
        if (match := _LOCATION.match(row)) is not None:
            numbers[match[1]] = int(match[2]), int(match[3] or 0)
        elif (match := _SUBPROGRAM.match(row)) is not None:
            numbers[match[1]] = 0, 0  # the kernel
    lines = [_line(row, numbers, table) for row in rows if not _METADATA.match(row)]
    while lines and not lines[-1].text:
        lines.pop()
    return Listing("llvm", stage, tuple(lines))


def _line(row: str, numbers: dict[str, tuple[int, int]], table: OriginTable) -> Line:
    shown = _DBG.sub("", row).rstrip()
    match = _DBG.search(row)
    return table.line(shown, *numbers[match[1]]) if match is not None and match[1] in numbers else Line(shown)
