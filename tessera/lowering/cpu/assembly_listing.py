"""Assembly as a listing: the instructions and their labels, each linked to the user's line it came from."""

import re
from typing import Final

from tessera.core.base.source import Span, known_file
from tessera.core.listing import Line, Listing
from tessera.core.program.program import Op, Program

_LOC: Final = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)")
_FILE: Final = re.compile(r'\s*\.file\s+(\d+)\s+"((?:[^"\\]|\\.)*)"(?:\s+"((?:[^"\\]|\\.)*)")?')
_LABEL: Final = re.compile(r"(\.?\w+):")
_COMMENT: Final = re.compile(r"\s*#.*$")
_DEBUG_LABELS: Final = re.compile(r"\.L(tmp|func_begin|func_end|info_|line_|debug|sec_end)\w*:")

_Ops = tuple[tuple[int, Op], ...]


def listing_of_assembly(text: str, program: Program) -> Listing:
    """List one module's assembly, without directives; `.loc` says where instructions come from.

    What was made for the whole kernel (its first and last instructions, who does which group) leads to where the kernel
    is defined, and stands for none of its operations, as in SASS.
    """
    places = _places(program)
    known = {file for file, _ in places}
    files: dict[str, str] = {}
    lines: list[Line] = []
    here: _Ops = ()
    code = False
    for row in text.split("\n"):
        shown = _COMMENT.sub("", row).rstrip()
        if (file := _FILE.match(row)) is not None:
            folder, name = (file[2], file[3]) if file[3] else ("", file[2])
            files[file[1]] = known_file(name, folder, known)
        elif (place := _LOC.match(row)) is not None:
            here = _at(places, files.get(place[1], ""), int(place[2]), int(place[3]))
        elif ".section" in row or shown.strip() == ".text":
            code = shown.strip() == ".text" or ',"ax' in shown
        elif code and shown:
            line = _line(shown, here, program.span)
            if line is not None:
                lines.append(line)
    return Listing("asm", "", tuple(lines))


def _places(program: Program) -> dict[tuple[str, int], list[tuple[int, Op]]]:
    """Return the operations, with their numbers, that are written on each line."""
    places: dict[tuple[str, int], list[tuple[int, Op]]] = {}
    for number, op in enumerate(program.body.walk()):
        places.setdefault((op.span.file, op.span.line), []).append((number, op))
    return places


def _at(places: dict[tuple[str, int], list[tuple[int, Op]]], file: str, line: int, column: int) -> _Ops:
    """Return the operations written at a place; those of the whole line where none starts at that column."""
    found = places.get((file, line), [])
    exact = [entry for entry in found if entry[1].span.column == column]
    return tuple(exact or found)


def _line(text: str, here: _Ops, kernel: Span) -> Line | None:
    """Return a line of code or a label; None of a directive."""
    if _LABEL.match(text):
        return None if _DEBUG_LABELS.match(text) else Line(text)
    if text.lstrip().startswith("."):
        return None
    spans = tuple(dict.fromkeys(op.span for _, op in here)) or (kernel,)
    return Line(text.expandtabs(8), spans, tuple(number for number, _ in here))
