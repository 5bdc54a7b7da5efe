"""List the CUDA target's levels as text, with every line linked to the user's source and the kernel's operations.

Target IR carries its locations; the levels below carry lines and columns: `!DILocation` in LLVM IR, `.loc` in PTX.
ptxas keeps, for each instruction of SASS, the line of the PTX that it was made from (see `lowering/base/sass`).
`Places` leads from a line and column of the source back to the operations written there.
"""

import re
from typing import Final

from tessera.core.listing import Line, Listing
from tessera.core.mlir import AnyOp, ir
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


def without_fusions(module: ir.Module) -> None:
    """Give every operation one source location: LLVM's debug information cannot hold several."""

    def visit(op: AnyOp) -> ir.WalkResult:
        if isinstance(op.location, ir.FusedLoc):
            places = spans(op.location)
            if places:
                first = places[0]
                op.operation.location = ir.Location.file(first.file, first.line, first.column)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)


def target_listing(module: AnyOp) -> Listing:
    """List Target IR as MLIR prints it, with aliases for named types; each line is linked to its operation."""
    text = _with_aliases(str(module))
    printed: list[int] = []
    original: list[ir.Location] = []

    def lines(op: AnyOp) -> ir.WalkResult:
        printed.append(_printed_line(op.location))
        return ir.WalkResult.ADVANCE

    def locations(op: AnyOp) -> ir.WalkResult:
        original.append(op.location)
        return ir.WalkResult.ADVANCE

    ir.Module.parse(text).operation.walk(lines, ir.WalkOrder.PRE_ORDER)
    module.operation.walk(locations, ir.WalkOrder.PRE_ORDER)
    by_line: dict[int, ir.Location] = {}
    for number, location in zip(printed, original, strict=False):
        by_line.setdefault(number, location)
    result: list[Line] = []
    for number, content in enumerate(text.rstrip("\n").split("\n"), start=1):
        location = by_line.get(number)
        ops, places = origins(location) if location is not None else ((), ())
        result.append(Line(content, places, ops) if ops else Line(content))
    return Listing("target", "", tuple(result))


def _with_aliases(text: str) -> str:
    """Define each named struct once: MLIR repeats its elements (128 for an MMA's accumulators) at every use."""
    found = sorted(set(_NAMED_STRUCT.findall(text)))
    for number, kind in enumerate(found):
        text = text.replace(kind, f"!struct{number}")
    return "".join(f"!struct{number} = {kind}\n" for number, kind in enumerate(found)) + text


def _printed_line(location: ir.Location) -> int:
    return int(location.start_line) if isinstance(location, ir.FileLineColLoc) else 0


def llvm_listing(text: str, places: Places, stage: str = "") -> Listing:
    """List LLVM IR as it stood after `stage`, with debug metadata resolved and left out."""
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
    return Listing("llvm", stage, tuple(lines))


def ptx_listing(text: str, places: Places) -> Listing:
    """List PTX without its `.loc` directives, each of which gives the source of the instructions after it."""
    found = _ptx_places(text)
    lines: list[Line] = []
    for number, row in enumerate(text.rstrip("\n").split("\n"), start=1):
        if is_about_places(row):
            continue
        lines.append(places.line(row, *found[number]) if number in found else Line(row))
    return Listing("ptx", "", tuple(lines))


def ptx_for_assembler(text: str) -> str:
    """Join each directive about source locations with the line that follows it, as PTX allows.

        .loc 1 3 5                  ->      .loc 1 3 5 add.s32 %r1, %r1, 1;
        add.s32 %r1, %r1, 1;

    So the lines that ptxas counts, and records for each instruction of SASS, are the lines of the listing.
    """
    lines: list[str] = []
    waiting: list[str] = []
    for row in text.rstrip("\n").split("\n"):
        waiting.append(row)
        if not is_about_places(row):
            lines.append(" ".join(waiting))
            waiting.clear()
    return "\n".join([*lines, " ".join(waiting)]) + "\n"


def is_about_places(row: str) -> bool:
    """Return whether a line of PTX is a directive about source locations."""
    return bool(_LOC.match(row) or _PTX_FILE.match(row)) or ".debug_macinfo" in row


def _ptx_places(text: str) -> dict[int, tuple[str, int, int]]:
    """Return file, line and column of the source of each instruction, by its line of the PTX (from 1), if known."""
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
