"""The level `sass`: what nvdisasm makes of a cubin, each instruction linked to where it came from.

It is made of an artifact and the levels above it on demand, since nvdisasm takes half a second to start.
Needs neither MLIR nor a GPU.
"""

import re
from collections.abc import Callable, Sequence
from pathlib import PurePath
from typing import Final

from tessera.core.artifact import Artifact
from tessera.core.base.source import Span
from tessera.core.listing import Line, Listing
from tessera.core.targets import Target
from tessera.lowering.base.cuda_toolkit import disassemble, find_tool, tool

_ELF: Final = b"\x7fELF"
_ORIGIN: Final = re.compile(r'//## File "([^"]*)", line (\d+)')
_CODE: Final = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/")
_NOWHERE: Final = Line("")

Origin = Callable[[str, int], Line]
"""The line of another level that stands for line n of a file."""


def has_machine_code(artifact: Artifact) -> bool:
    """Return whether there is a cubin, and nvdisasm to read it."""
    return (
        bool(artifact.target.kind.cubin_lines) and artifact.code.startswith(_ELF) and find_tool("nvdisasm") is not None
    )


def require_tools(target: Target) -> None:
    """Raise ToolMissing where `target` has machine code, and a program that makes or reads it is not installed."""
    if target.kind.cubin_lines:
        for name in ("ptxas", "nvdisasm"):
            tool(name)


def machine_code(artifact: Artifact) -> str:
    """Disassemble the machine code of an artifact.

    Raises:
        ToolMissing: no nvdisasm.
        CompilerCrash: nvdisasm refuses the cubin.
    """
    return disassemble(artifact.code, artifact.target.kind.cubin_lines)


def with_machine_code(artifact: Artifact, listings: Sequence[Listing]) -> tuple[Listing, ...]:
    """Append `sass` to the levels of a compilation that has machine code and not this level yet."""
    if not has_machine_code(artifact) or any(listing.level == "sass" for listing in listings):
        return tuple(listings)
    # The level that leads from the lines that nvdisasm names to the user's text.
    above = "ptx" if artifact.target.kind.cubin_lines == "ptx" else "target"
    found = next((listing for listing in listings if listing.level == above and not listing.stage), None)
    if found is None:
        return tuple(listings)
    origin = ptx_origin(found) if above == "ptx" else source_origin(found)
    return (*listings, sass_listing(machine_code(artifact), origin, artifact.span))


def sass_listing(text: str, origin: Origin, kernel: Span) -> Listing:
    """Make the listing of SASS; the disassembler's remarks, which say where instructions come from, become its links.

    kernel: where the kernel is defined: what was made for all of it (its first and last instructions, who does which
    group, how warps take turns) leads there, and stands for none of its operations
    """
    lines: list[Line] = []
    current = _NOWHERE
    for row in text.rstrip("\n").split("\n"):
        if match := _ORIGIN.search(row):
            current = origin(match[1], int(match[2]))
            continue
        lines.append(Line(row, current.spans or (kernel,), current.ops) if _CODE.match(row) else Line(row))
    return Listing("sass", "", tuple(lines))


def ptx_origin(ptx: Listing) -> Origin:
    """Map lines of the PTX as ptxas read it to those of its listing (see `ptx_for_assembler`)."""

    def line(_: str, number: int) -> Line:
        return ptx.lines[number - 1] if 0 < number <= len(ptx.lines) else _NOWHERE

    return line


def source_origin(listing: Listing) -> Origin:
    """Map lines of the user's text to what the listing has of each; tools write file names in ways of their own."""
    found: dict[tuple[str, int], list[Line]] = {}
    for each in listing.lines:
        for span in each.spans if each.ops else ():
            found.setdefault((PurePath(span.file).name, span.line), []).append(each)

    def line(file: str, number: int) -> Line:
        name = PurePath(file).name
        lines = found.get((name, number), [])
        places = {span for one in lines for span in one.spans if PurePath(span.file).name == name}
        spans = sorted(span for span in places if span.line == number)
        return Line("", tuple(spans), tuple(sorted({op for one in lines for op in one.ops})))

    return line
