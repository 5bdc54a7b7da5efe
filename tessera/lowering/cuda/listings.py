"""The CUDA target's levels as text, every line linked to the user's source and to the kernel's operations.

Target IR carries its locations; the levels below carry lines and columns: `!DILocation` in LLVM IR, `.loc` in PTX.
ptxas keeps, for each instruction of SASS, the line of the PTX it was made from (see `target/sass`).
`Places` leads from a line and column of the source back to the operations written there.
"""

import re
from typing import Any, Final

from tessera.core.listing import Line, Listing
from tessera.core.mlir import ir
from tessera.core.tile.location import origins, spans
from tessera.lowering.base.source_map import Places

_DEBUG: Final = re.compile(r"!dbg !(\d+)")
_LOCATION: Final = re.compile(r"^!(\d+) = (?:distinct )?!DILocation\(line: (\d+)(?:, column: (\d+))?, scope: !(\d+)")
_SCOPE: Final = re.compile(r"^!(\d+) = (?:distinct )?!DI(?:Subprogram|LexicalBlockFile|LexicalBlock)\(.*?file: !(\d+)")
_FILE: Final = re.compile(r'^!(\d+) = !DIFile\(filename: "([^"]*)", directory: "([^"]*)"\)')
_LOC: Final = re.compile(r"^\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)")
_NAMED_STRUCT: Final = re.compile(r'!llvm\.struct<"[^"]*", \([^()]*\)>')
_WRITTEN: Final = {"// begin inline asm": True, "// end inline asm": False}
_PTX_FILE: Final = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]*)"(?:\s+"([^"]*)")?')


def without_fusions(module: Any) -> None:
    """Give every operation one place of the source: LLVM's debug information has no room for several."""

    def visit(op: Any) -> Any:
        if isinstance(op.location, ir.FusedLoc):
            places = spans(op.location)
            if places:
                first = places[0]
                op.operation.location = ir.Location.file(first.file, first.line, first.column)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)


def target_listing(module: Any) -> Listing:
    """Target IR as MLIR prints it, types with names given once; a line is linked to the operation that begins on it."""
    text = _with_aliases(str(module))
    printed: list[int] = []
    original: list[Any] = []

    def lines(op: Any) -> Any:
        printed.append(_printed_line(op.location))
        return ir.WalkResult.ADVANCE

    def locations(op: Any) -> Any:
        original.append(op.location)
        return ir.WalkResult.ADVANCE

    ir.Module.parse(text).operation.walk(lines, ir.WalkOrder.PRE_ORDER)
    module.operation.walk(locations, ir.WalkOrder.PRE_ORDER)
    by_line: dict[int, Any] = {}
    for number, location in zip(printed, original, strict=False):
        by_line.setdefault(number, location)
    result: list[Line] = []
    for number, content in enumerate(text.rstrip("\n").split("\n"), start=1):
        location = by_line.get(number)
        ops, places = origins(location) if location is not None else ((), ())
        result.append(Line(content, places, ops) if ops else Line(content))
    return Listing("target", "", tuple(result))


def _with_aliases(text: str) -> str:
    """MLIR repeats a named struct's elements, 128 of them for a product's sums, wherever its name stands."""
    found = sorted(set(_NAMED_STRUCT.findall(text)))
    for number, kind in enumerate(found):
        text = text.replace(kind, f"!struct{number}")
    return "".join(f"!struct{number} = {kind}\n" for number, kind in enumerate(found)) + text


def _printed_line(location: Any) -> int:
    return int(location.start_line) if isinstance(location, ir.FileLineColLoc) else 0


def llvm_listing(text: str, places: Places) -> Listing:
    """LLVM IR, with debug metadata resolved and left out."""
    files: dict[str, str] = {}
    scopes: dict[str, str] = {}
    found: dict[str, tuple[str, int, int]] = {}
    rows = text.rstrip("\n").split("\n")
    for row in rows:
        if match := _FILE.match(row):
            files[match[1]] = f"{match[3]}/{match[2]}" if match[3] else match[2]
        elif match := _SCOPE.match(row):
            scopes[match[1]] = match[2]
        elif match := _LOCATION.match(row):
            found[match[1]] = (match[4], int(match[2]), int(match[3] or 0))
    lines: list[Line] = []
    for row in rows:
        if row.startswith("!"):
            continue
        match = _DEBUG.search(row)
        content = re.sub(r",? !dbg !\d+", "", row)
        if match and match[1] in found:
            scope, line, column = found[match[1]]
            lines.append(places.line(content, files.get(scopes.get(scope, ""), ""), line, column))
        else:
            lines.append(Line(content))
    while lines and not lines[-1].text:
        lines.pop()
    return Listing("llvm", "", tuple(lines))


def ptx_listing(text: str, places: Places) -> Listing:
    """PTX without its `.loc` directives; each says where the instructions after it came from."""
    found = _ptx_places(text)
    lines: list[Line] = []
    for number, row in enumerate(text.rstrip("\n").split("\n"), start=1):
        if _is_about_places(row):
            continue
        lines.append(places.line(row, *found[number]) if number in found else Line(row))
    return Listing("ptx", "", tuple(lines))


def ptx_for_assembler(text: str) -> str:
    """The PTX with each directive about places in front of the line that follows it, as PTX allows.

        .loc 1 3 5                  ->      .loc 1 3 5 add.s32 %r1, %r1, 1;
        add.s32 %r1, %r1, 1;

    So the lines that ptxas counts, and remembers for each instruction of SASS, are the lines of the listing.
    """
    lines: list[str] = []
    waiting: list[str] = []
    for row in text.rstrip("\n").split("\n"):
        waiting.append(row)
        if not _is_about_places(row):
            lines.append(" ".join(waiting))
            waiting.clear()
    return "\n".join([*lines, " ".join(waiting)]) + "\n"


def _is_about_places(row: str) -> bool:
    return bool(_LOC.match(row) or _PTX_FILE.match(row)) or ".debug_macinfo" in row


def _ptx_places(text: str) -> dict[int, tuple[str, int, int]]:
    """File, line and column that each instruction (by its line of the PTX, from 1) came from, as far as known."""
    rows = text.rstrip("\n").split("\n")
    files = {m[1]: (f"{m[2]}/{m[3]}" if m[3] else m[2]) for row in rows if (m := _PTX_FILE.match(row))}
    found: dict[int, tuple[str, int, int]] = {}
    current: tuple[str, int, int] | None = None
    written = False  # by hand: only the first line of such a piece begins with a tab
    for number, row in enumerate(rows, start=1):
        if match := _LOC.match(row):
            current = (files.get(match[1], ""), int(match[2]), int(match[3])) if int(match[2]) else current
        elif row.strip() in _WRITTEN:
            written = _WRITTEN[row.strip()]
        elif current is not None and (written or row.startswith("\t")) and not row.strip().startswith((".", "//")):
            found[number] = current
    return found
