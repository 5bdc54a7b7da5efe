"""What the IR viewer shows, as plain data: every level of one compilation, linked line by line.

Two lines are counterparts when they stand for a common operation, or, where one of them names no operation, when they
came from a common line of the user's text.  `static/ir.js` applies the same rule to the same data.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import Match, SequenceMatcher
from typing import Final

from tessera.core.artifact import Artifact
from tessera.core.base.source import NOWHERE, Source, Span
from tessera.core.listing import Line, Listing
from tessera.core.targets import every_level

_RENUMBERED: Final = re.compile(r"%[\w$.-]+(?:#\d+)?(?::\d+)?|#\w+|\bloc\([^()]*\)|!\d+")
_Key = tuple[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class ViewLine:
    """One line of a pane.

    sources: lines of the user's file it came from (none: the compiler's own); spans: the exact places there;
    ops: identities of the operations it stands for; change: "", "new", "changed" or "moved" since the stage before.
    """

    text: str
    sources: tuple[int, ...] = ()
    spans: tuple[Span, ...] = ()
    ops: tuple[int, ...] = ()
    change: str = ""


@dataclass(frozen=True, slots=True)
class Ghost:
    """A line of the stage before that is no more: it stood above the new line number `before` (0-based)."""

    before: int
    text: str


@dataclass(frozen=True, slots=True)
class Pane:
    """The text of one level after one stage; `ghosts` are the lines this stage took away."""

    level: str
    stage: str
    lines: tuple[ViewLine, ...]
    ghosts: tuple[Ghost, ...] = ()

    @property
    def changes(self) -> dict[str, int]:
        """How many lines are new, changed, moved, and gone since the stage before."""
        counts = Counter(line.change for line in self.lines if line.change)
        return {**{kind: counts[kind] for kind in ("new", "changed", "moved")}, "gone": len(self.ghosts)}

    @property
    def text(self) -> str:
        """The whole text."""
        return "\n".join(line.text for line in self.lines)


@dataclass(frozen=True, slots=True)
class Story:
    """What became of one operation.

    place: where the user wrote it (None: a pass made it); born, last: the panes (indices into `IrView.panes`) that
    show it first and last; lines: how many lines it has in each pane; mates: operations it shares a line with at last.
    """

    op: int
    place: Span | None
    born: int
    last: int
    lines: tuple[int, ...]
    mates: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Selection:
    """What a click selects: operations and lines of the source."""

    ops: frozenset[int] = frozenset()
    sources: frozenset[int] = frozenset()

    def holds(self, line: ViewLine) -> bool:
        """Return whether `line` is a counterpart of what is selected."""
        if self.ops and line.ops:
            return not self.ops.isdisjoint(line.ops)
        return not self.sources.isdisjoint(line.sources)


@dataclass(frozen=True, slots=True)
class IrView:
    """One compilation, ready to be drawn.

    source: the kernel's own lines, the first of which has number `first_line` in the user's file;
    panes: every level and stage, top of the compiler first; stories: one an operation, by its identity.
    """

    name: str
    target: str
    label: str
    first_line: int
    source: tuple[str, ...]
    panes: tuple[Pane, ...]
    stories: Mapping[int, Story]

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels that have a pane, in order."""
        return tuple(dict.fromkeys(pane.level for pane in self.panes))

    def stages(self, level: str) -> tuple[Pane, ...]:
        """The panes of one level, first stage first."""
        return tuple(pane for pane in self.panes if pane.level == level)

    def select_source(self, number: int) -> Selection:
        """What a click on line `number` of the user's file selects: the line, and the operations written on it."""
        ops = (op for op, story in self.stories.items() if story.place is not None and story.place.line == number)
        return Selection(frozenset(ops), frozenset((number,)))

    def select_line(self, pane: int, index: int) -> Selection:
        """What a click on line `index` (0-based) of pane number `pane` selects."""
        line = self.panes[pane].lines[index]
        return Selection(frozenset(line.ops), frozenset(line.sources))

    def counterparts(self, selection: Selection) -> tuple[tuple[int, ...], ...]:
        """For each pane, the 0-based indices of the lines that are counterparts of `selection`."""
        return tuple(
            tuple(index for index, line in enumerate(pane.lines) if selection.holds(line)) for pane in self.panes
        )

    def source_counterparts(self, selection: Selection) -> tuple[int, ...]:
        """The lines of the user's file that `selection` came from."""
        places = (self.stories[op].place for op in selection.ops if op in self.stories)
        return tuple(sorted({place.line for place in places if place is not None} | selection.sources))


def ir_view(artifact: Artifact, listings: Sequence[Listing]) -> IrView:
    """Return the view of `listings`, in compiler order: every line linked to the source and to its operations."""
    ordered = _in_order(listings)
    spans = [span for listing in ordered for line in listing.lines for span in line.spans]
    first, text = _kernel_lines(artifact.source, artifact.span, spans)
    panes: list[Pane] = []
    for listing in ordered:
        before = panes[-1] if panes and panes[-1].level == listing.level else None
        panes.append(_pane(listing, artifact.source.name, before))
    label = artifact.source.label or artifact.source.name
    return IrView(artifact.name, str(artifact.target), label, first, text, tuple(panes), _stories(panes))


def _in_order(listings: Sequence[Listing]) -> list[Listing]:
    """Levels as the compiler goes through them; a final listing that repeats the last stage is left out."""
    ordered = [listing for level in every_level()[1:] for listing in listings if listing.level == level]
    kept: list[Listing] = []
    for listing in ordered:
        last = kept[-1] if kept else None
        if last and last.level == listing.level and listing.stage == "" and last.lines == listing.lines:
            continue
        kept.append(listing)
    return kept


def _kernel_lines(source: Source, span: Span, spans: Iterable[Span]) -> tuple[int, tuple[str, ...]]:
    """Cut the kernel's own lines out of the cell: number of the first one, and their texts.

    They reach from its decorators to the last place any operation came from, or the end of the indented body.
    """
    lines = re.split(r"\r\n|\r|\n", source.text)
    here = [s for s in (span, *spans) if s != NOWHERE and s.file == source.name]
    if not here:
        return source.first_line, tuple(lines)
    start = max(0, min(s.line for s in here) - source.first_line)
    stop = min(len(lines), max(s.end_line for s in here) - source.first_line + 1)
    while start > 0 and lines[start - 1].lstrip().startswith("@"):
        start -= 1
    while stop < len(lines) and (not lines[stop].strip() or lines[stop][:1].isspace()):
        stop += 1
    while stop > start and not lines[stop - 1].strip():
        stop -= 1
    return source.first_line + start, tuple(lines[start:stop])


def _pane(listing: Listing, file: str, before: Pane | None) -> Pane:
    lines = tuple(_view_line(line, file) for line in listing.lines)
    if before is None:
        return Pane(listing.level, listing.stage, lines)
    changes, ghosts = _compare(before.lines, lines)
    marked = tuple(
        ViewLine(line.text, line.sources, line.spans, line.ops, change)
        for line, change in zip(lines, changes, strict=True)
    )
    return Pane(listing.level, listing.stage, marked, ghosts)


def _view_line(line: Line, file: str) -> ViewLine:
    spans = tuple(dict.fromkeys(span for span in line.spans if span.file == file))
    return ViewLine(line.text, tuple(sorted({span.line for span in spans})), spans, line.ops)


def _compare(old: tuple[ViewLine, ...], new: tuple[ViewLine, ...]) -> tuple[list[str], tuple[Ghost, ...]]:
    """How each new line came about, and the old lines that are gone.

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
    """The old lines outside the matching `blocks` that did not move, each above what came in its place."""
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
    """What a line says, without the names of values, its indentation and its location, and its own operation.

    The operations a line has besides (constants written into it) come and go without changing what it says.
    """
    return _RENUMBERED.sub("%", line.text).strip(), line.ops[:1]


def _says_something(key: _Key) -> bool:
    return any(char.isalnum() for char in key[0])


def _stories(panes: Sequence[Pane]) -> dict[int, Story]:
    """One story an operation, by identity, in the order in which the listings name them."""
    counts: dict[int, list[int]] = {}
    places: dict[int, tuple[int, Span]] = {}
    mates: dict[int, set[int]] = {}
    for number, pane in enumerate(panes):
        fresh: dict[int, set[int]] = {}
        for line in pane.lines:
            for op in line.ops:
                counts.setdefault(op, [0] * len(panes))[number] += 1
                fresh.setdefault(op, set()).update(line.ops)
                _remember_place(places, op, line)
        mates.update(fresh)
    return {
        op: Story(
            op,
            places[op][1] if op in places else None,
            next(i for i, count in enumerate(found) if count),
            max(i for i, count in enumerate(found) if count),
            tuple(found),
            tuple(sorted(mates[op] - {op})),
        )
        for op, found in counts.items()
    }


def _remember_place(places: dict[int, tuple[int, Span]], op: int, line: ViewLine) -> None:
    """Keep the place told by the first line that has only one: a fused line names those of all it was made of."""
    if not line.spans:
        return
    known = places.get(op)
    if known is None or (len(line.spans) == 1 and known[0] > 1):
        places[op] = (len(line.spans), line.spans[0])
