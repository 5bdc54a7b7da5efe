"""Compile PTX that a person edited: the text of the level `ptx`, in place of what the compiler makes of the kernel.

The text of the level has no directives about source locations.  They are put back in front of the lines that are as the
compiler wrote them (longest common subsequence of lines), so levels stay linked and ptxas counts the lines of the text.
"""

import re
from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import Final

from tessera.core.base.source import Source, Span
from tessera.core.compilation import FROM_PTX
from tessera.core.errors.catalog import BadPtx, CompilerCrash
from tessera.core.program.program import Program
from tessera.lowering.cuda.listings import is_about_places

FILE: Final = "kernel.ptx"
_ENTRY: Final = re.compile(r"\.entry\s+([\w$]+)\s*\(([^)]*)\)", re.DOTALL)
_SPACE: Final = re.compile(r"\s+")
_REFUSED: Final = re.compile(r"line (\d+);\s*(?:fatal\s+error|fatal|error)\s*:\s*(.*)")
_HINT: Final = "begin with the text of the level ptx, and keep the kernel's name and parameters"


def edited_text(program: Program) -> str | None:
    """Return the PTX that is to be compiled in place of the kernel's own; None: that."""
    text = program.options.get(FROM_PTX)
    return text if isinstance(text, str) else None


def with_places(edited: str, generated: str) -> str:
    """Return `edited` with the locations of the lines that it shares with what the compiler made, `generated`.

    Raises BadPtx where the entry has another name or other parameters, which a launch could not know.
    """
    _check_entry(edited, generated)
    pairs = list(_with_directives(generated))
    rows = edited.rstrip("\n").split("\n")
    matcher = SequenceMatcher(None, [row for _, row in pairs], rows, autojunk=False)
    before: list[list[str]] = [[] for _ in rows]
    for block in matcher.get_matching_blocks():
        for offset in range(block.size):
            before[block.b + offset] = pairs[block.a + offset][0]
    kept = {row for directives in before for row in directives}
    every = (row for row in generated.split("\n") if is_about_places(row))
    files = [row for row in every if ".loc" not in row and row not in kept]
    merged = [line for directives, row in zip(before, rows, strict=True) for line in (*directives, row)]
    return "\n".join([*merged, *files]) + "\n"


def _with_directives(text: str) -> Iterator[tuple[list[str], str]]:
    """Yield each line that is no directive about places, with those in front of it."""
    waiting: list[str] = []
    for row in text.rstrip("\n").split("\n"):
        if is_about_places(row):
            waiting.append(row)
        else:
            yield waiting, row
            waiting = []


def _check_entry(edited: str, generated: str) -> None:
    own, found = _ENTRY.search(generated), _ENTRY.search(edited)
    assert own is not None
    if found is None:
        raise _bad(edited, "the text has no .entry: it is not the PTX of a kernel", 1, _HINT)
    line = edited[: found.start()].count("\n") + 1
    if found[1] != own[1]:
        raise _bad(edited, f"the entry is {found[1]}, not {own[1]}", line, _HINT)
    if _SPACE.sub("", found[2]) != _SPACE.sub("", own[2]):
        raise _bad(edited, f"the parameters of {own[1]} are not those that a launch hands over", line, _HINT)


def refused(edited: str, crash: CompilerCrash) -> BadPtx:
    """Return the mistake that ptxas found in the edited text."""
    found = _REFUSED.search(crash.message)
    if found is None:
        return _bad(edited, crash.message, 1, "")
    return _bad(edited, found[2].strip(), int(found[1]), "correct the line, or take the edit back")


def _bad(text: str, message: str, line: int, hint: str) -> BadPtx:
    rows = text.split("\n")
    line = min(line, len(rows))
    row = rows[line - 1]
    start = len(row) - len(row.lstrip()) + 1
    mistake = BadPtx(message, span=Span(FILE, line, start, line, max(start + 1, len(row) + 1)), hint=hint)
    mistake.with_source(Source(FILE, text))
    return mistake
