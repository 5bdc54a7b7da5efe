"""The structure of a level's text, read off its lines: regions that fold, lines the filter leaves out, branches."""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tessera.core.base.plurals import counted

LANES: Final = 6
"""Columns in which arrows of branches run beside each other; what needs more is told without a line."""

_SASS: Final = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s*(@!?U?P\w+)?\s*(.*?)\s*;?\s*$")
_QUIET: Final = {
    "ptx": re.compile(r"^\s*(?://.*|\.(?:loc|file|section|version|target|address_size|b8|b16|b32|b64)\b.*|)$"),
    "sass": re.compile(r"^(?!\s*/\*[0-9a-f]{4,}\*/)(?![.$\w]+:).*$"),
    "asm": re.compile(r"^\s*(?:#.*|//.*|\.[\w.]+(?:[ \t].*)?|)$"),
    "llvm": re.compile(r"^\s*(?:;.*|!.*|source_filename.*|target (?:datalayout|triple).*|attributes #.*|)$"),
    "target": re.compile(r"^\s*(?:#\w+ = .*|//.*|)$"),
    "tile": re.compile(r"^\s*(?:#\w+ = .*|)$"),
}
"""What stands in a text for tools: directives, comments, metadata, blank lines."""
_LABEL: Final = {
    "ptx": re.compile(r"^\s*(\$[\w$]+):"),
    "sass": re.compile(r"^\s*(\.L_\w+):"),
    "asm": re.compile(r"^(\.?L[\w$]+):"),
    "llvm": re.compile(r'^([\w.$-]+|"[^"]+"):'),
}
_DEBUG_LABEL: Final = re.compile(
    r"\$?L__(?:tmp|func|info|section|debug|pubTypes)|\.Ltmp|\.Lfunc|\.Ldebug|\.Linfo|\.Lcst"
)
"""Labels that nothing jumps to: places that debug information names."""
_JUMP: Final = {
    "ptx": re.compile(r"\bbra(?:\.uni)?\s+(\$[\w$]+)"),
    "sass": re.compile(r"\b(?:BRA(?:\.\w+)*|JMP|WARPSYNC\.COLLECTIVE)\b[^`]*`\((\.L_\w+)\)"),
    "asm": re.compile(r"^\s*(?:j\w+|loop\w*|b(?:\.\w+)?|cbn?z|tbn?z)\s+(?:[^#]*,\s*)?(\.?L[\w$]+)"),
    "llvm": re.compile(r"\blabel %([\w.$-]+|\"[^\"]+\")"),
}
_BRANCHES: Final = {"llvm": re.compile(r"^\s*(?:br|switch|invoke|indirectbr|i\d+ -?\d+, label)\b")}


@dataclass(frozen=True, slots=True)
class Fold:
    """A region that folds: its first line stays, the lines up to `last` go."""

    head: int
    last: int


@dataclass(frozen=True, slots=True)
class Branch:
    """The jumps to one label: lines they stand on, the label's line, the column of the arrow (-1: none is free)."""

    target: int
    sources: tuple[int, ...]
    lane: int = -1


def displayed(level: str, text: str) -> str:
    """Return a line as it is shown: instructions of SASS without the columns of blanks that push operands aside."""
    if level != "sass":
        return text
    found = _SASS.match(text)
    if found is None:
        return text.strip()
    address, predicate, rest = found.groups()
    return f"/*{address}*/ {predicate or '':>5} {rest}"


def quiet_lines(level: str, lines: Sequence[str]) -> tuple[int, ...]:
    """Return the lines that the filter leaves out: directives, comments, metadata, and labels that nothing jumps to."""
    pattern, label = _QUIET.get(level), _LABEL.get(level)
    if pattern is None:
        return ()
    called = {target for _, target in _jumps(level, lines)} if label is not None else set[str]()
    found: list[int] = []
    for number, text in enumerate(lines):
        name = label.match(text) if label is not None else None
        if name is not None:
            if name[1] not in called and (level == "sass" or _DEBUG_LABEL.match(name[1])):
                found.append(number)
        elif pattern.match(text):
            found.append(number)
    return tuple(found)


def folds(level: str, lines: Sequence[str]) -> tuple[Fold, ...]:
    """Return what folds: regions in braces, and basic blocks from their label to the next."""
    found: list[Fold] = []
    label = _LABEL.get(level)
    open_: list[tuple[int, bool]] = []  # line, whether it is a label

    def close_block(last: int) -> None:
        if open_ and open_[-1][1]:
            head, _ = open_.pop()
            if last > head:
                found.append(Fold(head, last))

    for number, text in enumerate(lines):
        bare = text.strip()
        if bare.startswith("}"):
            close_block(number - 1)
            if open_:
                head, _ = open_.pop()
                # The closing line of `} else {` opens a region of its own, so it stays.
                last = number - 1 if bare.endswith("{") else number
                if last > head:
                    found.append(Fold(head, last))
        name = label.match(text) if label is not None else None
        if name is not None and not _DEBUG_LABEL.match(name[1]):
            close_block(number - 1)
            open_.append((number, True))
        elif bare.endswith("{"):
            open_.append((number, False))
    close_block(len(lines) - 1)
    return tuple(sorted(found, key=lambda fold: (fold.head, -fold.last)))


def branches(level: str, lines: Sequence[str]) -> tuple[Branch, ...]:
    """Return the jumps of a text by the label they go to, each with a column for its arrow: short ones innermost."""
    label = _LABEL.get(level)
    if label is None:
        return ()
    places = {name[1].strip('"'): number for number, text in enumerate(lines) if (name := label.match(text))}
    sources: dict[int, list[int]] = {}
    for number, target in _jumps(level, lines):
        if target in places:
            sources.setdefault(places[target], []).append(number)
    return _in_lanes([Branch(target, tuple(rows)) for target, rows in sources.items()])


def _jumps(level: str, lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    jump, only = _JUMP[level], _BRANCHES.get(level)
    for number, text in enumerate(lines):
        if only is None or only.match(text):
            for found in jump.finditer(text):
                yield number, found[1].strip('"')


def _in_lanes(found: Sequence[Branch]) -> tuple[Branch, ...]:
    """Give each arrow the first column in which no other one is in its way, shortest arrows first."""
    taken: list[list[tuple[int, int]]] = [[] for _ in range(LANES)]
    placed: list[Branch] = []
    for branch in sorted(found, key=lambda one: (_extent(one)[1] - _extent(one)[0], one.target)):
        low, high = _extent(branch)
        lane = next((n for n, column in enumerate(taken) if _free(column, low, high)), -1)
        if lane >= 0:
            taken[lane].insert(bisect_left(taken[lane], (low, high)), (low, high))
        placed.append(Branch(branch.target, branch.sources, lane))
    return tuple(sorted(placed, key=lambda one: one.target))


def _extent(branch: Branch) -> tuple[int, int]:
    return min(branch.target, *branch.sources), max(branch.target, *branch.sources)


def _free(column: Sequence[tuple[int, int]], low: int, high: int) -> bool:
    at = bisect_left(column, (low, high))
    return (at == 0 or column[at - 1][1] < low) and (at == len(column) or column[at][0] > high)


def filter_text(level: str, count: int) -> str:
    """Say what the filter leaves out of a level."""
    what = {"sass": "headers and labels that nothing jumps to", "llvm": "comments and metadata"}
    return f"{counted(count, 'line')} of {what.get(level, 'directives and comments')} hidden"
