"""Listings of the levels below Tile IR: upstream MLIR in its own syntax, and LLVM IR."""

import re
from typing import Final

from tessera.core.base.source import Span, known_file
from tessera.core.listing import Line, Listing
from tessera.core.mlir import AnyOp, ir
from tessera.core.program.program import Program
from tessera.core.tile import location

_DBG: Final = re.compile(r",? !dbg !(\d+)")
_NODE: Final = re.compile(r"!(\d+) = (?:distinct )?!(\w+)\((.*)\)\s*$")
_METADATA: Final = re.compile(r"!(?:\d+|[\w.]+) = ")
_MAX_DEPTH: Final = 64


def listing_of_mlir(module: ir.Module, level: str, stage: str) -> Listing:
    """Print `module` as MLIR does, without locations, each line linked to what its operation came from.

    The printed text is parsed again: the locations of that copy are the lines.
    """
    text = str(module.operation.get_asm(enable_debug_info=False))
    lines = [Line(line) for line in text.rstrip("\n").split("\n")]
    copy = ir.Module.parse(text)
    for op, printed in zip(_walk(module), _walk(copy), strict=True):
        if isinstance(printed.location, ir.FileLineColLoc):
            number = int(printed.location.start_line) - 1
            lines[number] = _linked(lines[number], op.location)
    return Listing(level, stage, tuple(lines))


def listing_of_llvm(text: str, stage: str = "", program: Program | None = None) -> Listing:
    """LLVM IR without its debug metadata, each line linked to the place that metadata named.

    Debug metadata knows only where an operation starts; with `program`, ends and identities are looked up.
    """
    nodes: dict[str, tuple[str, str]] = {}
    raw = text.rstrip("\n").split("\n")
    for line in raw:
        if (node := _NODE.match(line)) is not None:
            nodes[node[1]] = (node[2], node[3])
    known = _starts(program)
    lines = [_llvm_line(line, nodes, known) for line in raw if not _METADATA.match(line)]
    while lines and not lines[-1].text:
        lines.pop()
    return Listing("llvm", stage, tuple(lines))


def _walk(module: ir.Module) -> list[AnyOp]:
    found: list[AnyOp] = []

    def visit(op: AnyOp) -> ir.WalkResult:
        found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def _linked(line: Line, place: ir.Location) -> Line:
    spans = dict.fromkeys((*line.spans, *location.spans(place)))
    ops = dict.fromkeys((*line.ops, *location.identities(place)))
    return Line(line.text, tuple(spans), tuple(ops))


def _starts(program: Program | None) -> dict[tuple[str, int, int], tuple[Span, list[int]]]:
    """Return where operations start: the longest span that starts there, and the operations with that span."""
    starts: dict[tuple[str, int, int], tuple[Span, list[int]]] = {}
    for number, op in enumerate(program.body.walk() if program is not None else ()):
        key = (op.span.file, op.span.line, op.span.column)
        span, numbers = starts.setdefault(key, (op.span, []))
        numbers.append(number)
        starts[key] = (max(span, op.span), numbers)
    return starts


def _llvm_line(
    line: str, nodes: dict[str, tuple[str, str]], known: dict[tuple[str, int, int], tuple[Span, list[int]]]
) -> Line:
    found = _DBG.search(line)
    shown = _DBG.sub("", line).rstrip()
    if found is None:
        return Line(shown)
    kind, fields = nodes.get(found[1], ("", ""))
    number, column = _integer(fields, "line"), _integer(fields, "column")
    if kind not in ("DILocation", "DISubprogram") or not number:
        return Line(shown)
    key = (_file(found[1], nodes, {file for file, *_ in known}), number, column)
    if key in known:
        span, ops = known[key]
        return Line(shown, (span,), tuple(ops))
    return Line(shown, (Span(key[0], number, column, number, column + 1),))


def _file(node: str, nodes: dict[str, tuple[str, str]], known: set[str]) -> str:
    """The file a location or scope belongs to: its own, or its scope's."""
    for _ in range(_MAX_DEPTH):
        kind, fields = nodes.get(node, ("", ""))
        if kind == "DIFile":
            return known_file(_text(fields, "filename"), _text(fields, "directory"), known)
        above = re.search(r"\bfile: !(\d+)", fields) or re.search(r"\bscope: !(\d+)", fields)
        if above is None:
            return ""
        node = above[1]
    return ""


def _text(fields: str, name: str) -> str:
    match = re.search(rf'\b{name}: "((?:[^"\\]|\\.)*)"', fields)
    return _unescaped(match[1]) if match else ""


def _unescaped(text: str) -> str:
    """LLVM writes bytes outside printable ASCII, quotes and backslashes as `\\` and two hexadecimal digits."""
    raw = re.sub(rb"\\([0-9A-Fa-f]{2})", lambda m: bytes([int(m[1], 16)]), text.encode())
    return raw.decode(errors="replace")


def _integer(fields: str, name: str) -> int:
    match = re.search(rf"\b{name}: (\d+)", fields)
    return int(match[1]) if match else 0
