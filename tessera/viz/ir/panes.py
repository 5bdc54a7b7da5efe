"""The texts of the explorer as plain data: one pane a level and pass, what each line came from, and what each pass did.

Two lines are counterparts when they stand for a common operation, or, where one of them names no operation, when they
came from a common line of the user's text.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import Match, SequenceMatcher
from typing import Final

from tessera.core.base.source import Span
from tessera.core.events import PassRan
from tessera.core.listing import Line, Listing
from tessera.core.program.program import Attribute
from tessera.core.stage import Stage, passes_by_place
from tessera.core.stage_diff import ADDED, CHANGED, MOVED, REMOVED
from tessera.viz.ir.text_structure import displayed
from tessera.viz.stage_alignment.align import BY_IDENTITY, Related, compare
from tessera.viz.stage_alignment.changes import FUSED, NO_CHANGES, SPLIT, Comparison

_RENUMBERED: Final = re.compile(r"%[\w$.-]+(?:#\d+)?(?::\d+)?|#\w+|\bloc\([^()]*\)|!\d+")
_Key = tuple[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class ViewLine:
    """One line of a pane.

    sources: lines of the user's file it came from (none: the compiler's own); spans: the exact places there;
    ops: numbers of the Program's operations it stands for; change: "", "new", "changed" or "moved" since the stage
    before; record: the identity of the operation that is printed on it
    """

    text: str
    sources: tuple[int, ...] = ()
    spans: tuple[Span, ...] = ()
    ops: tuple[int, ...] = ()
    change: str = ""
    record: str = ""


@dataclass(frozen=True, slots=True)
class Ghost:
    """A line of the stage before that is no more: it stood above the new line number `before` (0-based)."""

    before: int
    text: str


@dataclass(frozen=True, slots=True)
class PassInfo:
    """A pass as it ran: its time, whether it changed anything (None: not looked at), its options."""

    name: str
    seconds: float
    changed: bool | None
    options: Mapping[str, Attribute] = field(default_factory=dict[str, Attribute])


@dataclass(frozen=True, slots=True, kw_only=True)
class PassCounts:
    """How many operations or lines a pass made, changed (or moved, fused, split) and removed, and that in words."""

    new: int
    changed: int
    gone: int
    told: str


@dataclass(frozen=True, slots=True)
class Pane:
    """The text of one level after one stage.

    ghosts: the lines that this stage took away
    compared: its operations beside those of the stage before, where they have identities and differ
    """

    level: str
    stage: str
    lines: tuple[ViewLine, ...]
    ghosts: tuple[Ghost, ...] = ()
    ran: PassInfo | None = None
    compared: Comparison | None = None

    @property
    def changes(self) -> dict[str, int]:
        """How many lines are new, changed, moved, and gone since the stage before."""
        counts = Counter(line.change for line in self.lines if line.change)
        return {**{kind: counts[kind] for kind in ("new", "changed", "moved")}, "gone": len(self.ghosts)}

    @property
    def counts(self) -> PassCounts:
        """Changes of its pass, counted by operations where they have identities, as films do, else by lines."""
        if self.compared is not None:
            of = self.compared.counts
            changed = sum(of[kind] for kind in (CHANGED, MOVED, FUSED, SPLIT))
            return PassCounts(new=of[ADDED], changed=changed, gone=of[REMOVED], told=self.compared.told)
        of = self.changes
        changed = of["changed"] + of["moved"]
        told = f"lines: {of['new']} new, {changed} changed or moved, {of['gone']} gone"
        told = told if any(of.values()) else NO_CHANGES
        return PassCounts(new=of["new"], changed=changed, gone=of["gone"], told=told)

    @property
    def text(self) -> str:
        """The whole text."""
        return "\n".join(line.text for line in self.lines)


def make_panes(listings: Sequence[Listing], file: str, passes: Sequence[PassRan] = ()) -> tuple[Pane, ...]:
    """Make a pane of each listing of `listings`, which are in the compiler's order."""
    ran = passes_by_place(passes)
    panes: list[Pane] = []
    for number, listing in enumerate(listings):
        before = panes[-1] if panes and panes[-1].level == listing.level else None
        did = ran.get((listing.level, listing.stage))
        info = PassInfo(did.name, did.seconds, did.changed, did.options) if did is not None else None
        compared = _compared(listings[number - 1], listing) if before is not None else None
        panes.append(replace(_pane(listing, file, before), ran=info, compared=compared))
    return tuple(panes)


def _compared(before: Listing, after: Listing) -> Comparison | None:
    """Return what became of each operation; None where operations have no identities, or the text stayed."""
    if after.level not in BY_IDENTITY or before.records == after.records:
        return None
    old, new = (Stage(each.level, each.stage, None, each, each.records) for each in (before, after))
    return compare(old, new, Related.COMPILATION)


def _pane(listing: Listing, file: str, before: Pane | None) -> Pane:
    lines = tuple(_view_line(line, listing.level, file) for line in listing.lines)
    if before is None:
        return Pane(listing.level, listing.stage, lines)
    changes, ghosts = _compare(before.lines, lines)
    marked = tuple(
        replace(line, change=change) if change else line for line, change in zip(lines, changes, strict=True)
    )
    return Pane(listing.level, listing.stage, marked, ghosts)


def _view_line(line: Line, level: str, file: str) -> ViewLine:
    spans = tuple(dict.fromkeys(span for span in line.spans if span.file == file))
    sources = tuple(sorted({span.line for span in spans}))
    return ViewLine(displayed(level, line.text), sources, spans, line.ops, record=line.record)


def _compare(old: tuple[ViewLine, ...], new: tuple[ViewLine, ...]) -> tuple[list[str], tuple[Ghost, ...]]:
    """Return the origin of each new line, and the old lines that are gone.

    Lines are the same when they say the same of the same operations, whatever the numbering of values; a line that
    differs but stands for an operation the old text had is "changed".
    """
    old_keys, new_keys = [_key(line) for line in old], [_key(line) for line in new]
    # Popular keys (closing braces) are matched only beside others: that keeps the alignment linear in practice.
    blocks = SequenceMatcher(None, old_keys, new_keys).get_matching_blocks()
    kept_old = {i for block in blocks for i in range(block.a, block.a + block.size)}
    kept_new = {i for block in blocks for i in range(block.b, block.b + block.size)}
    loose = Counter(key for index, key in enumerate(old_keys) if index not in kept_old)
    known = {op for line in old for op in line.ops}
    changes: list[str] = []
    moved: Counter[_Key] = Counter()
    for index, (line, key) in enumerate(zip(new, new_keys, strict=True)):
        if index in kept_new or not _says_something(key):
            changes.append("")
        elif loose[key] > moved[key]:
            moved[key] += 1
            changes.append("moved")
        else:
            changes.append("new" if known.isdisjoint(line.ops) else "changed")
    return changes, tuple(_ghosts(old, old_keys, blocks, moved))


def _ghosts(
    old: tuple[ViewLine, ...], keys: list[_Key], blocks: Sequence[Match], moved: Counter[_Key]
) -> Iterator[Ghost]:
    """Yield the old lines outside the matching `blocks` that did not move, each above what came in its place."""
    at, place = 0, 0
    for block in blocks:
        for index in range(at, block.a):
            key = keys[index]
            if moved[key]:
                moved[key] -= 1
            elif _says_something(key):
                yield Ghost(place, old[index].text)
        at, place = block.a + block.size, block.b + block.size


def _key(line: ViewLine) -> _Key:
    """Return the text of a line without the names of values, its indentation, its location, and its own operation.

    The operations a line has besides (constants written into it) come and go without changing what it says.
    """
    return _RENUMBERED.sub("%", line.text).strip(), line.ops[:1]


def _says_something(key: _Key) -> bool:
    return any(char.isalnum() for char in key[0])
