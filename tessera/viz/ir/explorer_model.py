"""The contents of the IR explorer as plain data: every level of one compilation, linked line by line.

Two lines are counterparts when they stand for a common operation, or, where one of them names no operation, when they
came from a common line of the user's text.  `frontend/src/ir` applies the same rule to the same data.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tessera.core.artifact import Artifact
from tessera.core.base.source import NOWHERE, Source, Span
from tessera.core.events import PassRan
from tessera.core.listing import Listing
from tessera.core.targets import every_level
from tessera.viz.base.selection import group_of
from tessera.viz.ir.details import Column, Documentation, PaneDetails, details_of
from tessera.viz.ir.machine_columns import machine_columns, sass_mapping
from tessera.viz.ir.opcodes.lookup import document
from tessera.viz.ir.panes import Pane, ViewLine, make_panes
from tessera.viz.operators.records import LEVELS

CAPTIONS: Final = {
    "graph": "graph of operators, an equation a node",
    "schedule": "the kernels, what each computes, and its cost",
    "tile": "Tile IR: the program of one group, on tiles and lanes",
    "target": "Target IR: loops, vectors and memory of the machine",
    "llvm": "LLVM IR",
    "asm": "machine code of the CPU",
    "ptx": "PTX: NVIDIA's virtual machine code",
    "sass": "SASS: machine code of the GPU",
}
WITH_IDENTITIES: Final = (*LEVELS, "tile")
"""Levels whose operations keep their identities from pass to pass."""


@dataclass(frozen=True, slots=True)
class Life:
    """The panes (indices into `ExplorerModel.panes`) that show an operation of Tile IR first and last."""

    born: int
    last: int


@dataclass(frozen=True, slots=True)
class Story:
    """The fate of one operation.

    place: where the user wrote it (None: a pass made it); born, last: the panes (indices into `ExplorerModel.panes`)
    that show it first and last; lines: how many lines it has in each pane; mates: operations it shares a line with at
    last.
    """

    op: int
    place: Span | None
    born: int
    last: int
    lines: tuple[int, ...]
    mates: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Selection:
    """The selection of a click: operations and lines of the source."""

    ops: frozenset[int] = frozenset()
    sources: frozenset[int] = frozenset()

    def holds(self, line: ViewLine) -> bool:
        """Return whether `line` is a counterpart of what is selected."""
        if self.ops and line.ops:
            return not self.ops.isdisjoint(line.ops)
        return not self.sources.isdisjoint(line.sources)


@dataclass(frozen=True, slots=True)
class ExplorerModel:
    """One compilation, ready to be drawn.

    source: the kernel's own lines, the first of which has number `first_line` in the user's file;
    panes: every level and stage, top of the compiler first; stories: one an operation, by its number in the Program;
    lives: of each operation of Tile IR as the passes made and removed it, by its identity; group: of the selection
    details: what stands beside the lines of each pane; docs: documentation of the operations that occur
    remarks: on a level as a whole, shown while nothing is selected
    measured: shares of time beside the source, of a profile
    kernels: of a function of operators, the names of all; kernel: the one whose levels these are
    links: of captured nodes, the numbers of the kernel's operations that stand for them
    """

    name: str
    target: str
    label: str
    group: str
    first_line: int
    source: tuple[str, ...]
    panes: tuple[Pane, ...]
    stories: Mapping[int, Story]
    lives: Mapping[str, Life] = field(default_factory=dict[str, Life])
    details: tuple[PaneDetails, ...] = ()
    docs: tuple[tuple[str, str], ...] = ()
    remarks: Mapping[str, str] = field(default_factory=dict[str, str])
    measured: Column | None = None
    kernels: tuple[str, ...] = ()
    kernel: int = 0
    links: Mapping[int, tuple[int, ...]] = field(default_factory=dict[int, tuple[int, ...]])

    @property
    def levels(self) -> tuple[str, ...]:
        """The levels that have a pane, in order."""
        return tuple(dict.fromkeys(pane.level for pane in self.panes))

    def stages(self, level: str) -> tuple[Pane, ...]:
        """Return the panes of one level, first stage first."""
        return tuple(pane for pane in self.panes if pane.level == level)

    def select_source(self, number: int) -> Selection:
        """Return the selection of a click on line `number` of the user's file: the line, and the operations on it."""
        ops = (op for op, story in self.stories.items() if story.place is not None and story.place.line == number)
        return Selection(frozenset(ops), frozenset((number,)))

    def select_line(self, pane: int, index: int) -> Selection:
        """Return the selection of a click on line `index` (0-based) of pane number `pane`."""
        line = self.panes[pane].lines[index]
        return Selection(frozenset(line.ops), frozenset(line.sources))

    def made_by(self, record: str) -> Pane | None:
        """Return the pane of the pass that made an operation of Tile IR; None: it was there from the start."""
        born = self.lives[record].born
        return self.panes[born] if born else None

    def removed_by(self, record: str) -> Pane | None:
        """Return the pane of the pass that removed an operation of Tile IR; None: it is there at the level's end."""
        after = self.lives[record].last + 1
        same = after < len(self.panes) and self.panes[after].level == self.panes[after - 1].level
        return self.panes[after] if same else None

    def counterparts(self, selection: Selection) -> tuple[tuple[int, ...], ...]:
        """Return, for each pane, the 0-based indices of the lines that are counterparts of `selection`."""
        return tuple(
            tuple(index for index, line in enumerate(pane.lines) if selection.holds(line)) for pane in self.panes
        )

    def source_counterparts(self, selection: Selection) -> tuple[int, ...]:
        """Return the lines of the user's file that `selection` came from."""
        places = (self.stories[op].place for op in selection.ops if op in self.stories)
        return tuple(sorted({place.line for place in places if place is not None} | selection.sources))


def explorer_model(
    artifact: Artifact, listings: Sequence[Listing], passes: Sequence[PassRan] = (),
    function: tuple[str, Span] | None = None,
) -> ExplorerModel:  # fmt: skip
    """Return the model of `listings`, in compiler order: every line linked to the source and to its operations.

    function: the name and the place of the function that the kernel is a part of, where it is
    """
    ordered = _in_order(listings)
    name, place = function or (artifact.name, artifact.span)
    spans = [span for listing in ordered for line in listing.lines for span in line.spans]
    first, text = _kernel_lines(artifact.source, place, spans)
    panes = make_panes(ordered, artifact.source.name, passes)
    label = artifact.source.label or artifact.source.name
    known = Documentation()
    sass = {number: pane for number, pane in enumerate(panes) if pane.level == "sass"}
    columns = {number: machine_columns(pane, artifact) for number, pane in sass.items()}
    details = details_of(panes, columns, document, known)
    remarks = {pane.level: sass_mapping(pane, artifact.span).text for pane in sass.values()}
    return ExplorerModel(
        name, str(artifact.target), label, group_of(name, artifact.source), first, text, panes,
        _stories(panes), _lives(panes), details, tuple(known.places), remarks,
    )  # fmt: skip


def _in_order(listings: Sequence[Listing]) -> list[Listing]:
    """Return levels in the compiler's order; a final listing that repeats the last stage is left out."""
    ordered = [listing for level in (*LEVELS, *every_level()[1:]) for listing in listings if listing.level == level]
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


def _stories(panes: Sequence[Pane]) -> dict[int, Story]:
    """Return one story an operation, by identity, in the order in which the listings name them."""
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


def _lives(panes: Sequence[Pane]) -> dict[str, Life]:
    """Return when each operation of Tile IR and graphs came and went; those below are read off one text each."""
    found: dict[str, Life] = {}
    for number, pane in enumerate(panes):
        if pane.level in WITH_IDENTITIES:
            for line in pane.lines:
                if line.record:
                    known = found.get(line.record)
                    found[line.record] = Life(known.born if known is not None else number, number)
    return found
