"""Differences between two stages as plain data: lines of both sides, rows that set them beside each other, changes."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tessera.core.stage_diff import ADDED, CHANGED, MOVED, REMOVED

FUSED: Final = "fused"
SPLIT: Final = "split"
SIGNS: Final[Mapping[str, str]] = {
    ADDED: "+", REMOVED: "-", CHANGED: "~", MOVED: "\u2195", FUSED: "\u2228", SPLIT: "\u2227",
}  # fmt: skip
"""Kinds of changes in the order in which they are listed, each with its sign."""
NO_CHANGES: Final = "no changes"
LOCATIONS: Final = "locations"
"""The field of a change that is one of places in the user's text only."""

Marks = tuple[tuple[int, int], ...]
"""Ranges of characters of a line."""


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line of one side.

    lines: lines of the user's file that it came from; ops: operations of the Program that it stands for
    record: the identity of its operation, one name for both sides
    """

    text: str
    lines: tuple[int, ...] = ()
    ops: tuple[int, ...] = ()
    record: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """Fate of an operation, or of several together.

    kind: a key of SIGNS; fields: what differs where it is "changed"; moved: whether it stands elsewhere as well
    name: of the operation; words: what happened beyond what the kind says
    before, after: its lines on both sides, none where it is printed inside of others
    marks_before, marks_after: what differs inside the first line of each side
    """

    kind: str
    name: str
    words: str
    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    fields: tuple[str, ...] = ()
    moved: bool = False
    marks_before: Marks = ()
    marks_after: Marks = ()

    @property
    def listed(self) -> bool:
        """Return whether it has a line of its own: constants are printed inside of what uses them."""
        return bool(self.before or self.after)


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the two columns: a line of each side, or of one; -1: none.

    changed_before, changed_after: the number of each line's change; -1: none
    """

    before: int
    after: int
    changed_before: int = -1
    changed_after: int = -1


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two stages, compared.

    kept: operations that are the same on both sides; rows: every line of both sides, once
    """

    before: tuple[DiffLine, ...]
    after: tuple[DiffLine, ...]
    rows: tuple[Row, ...]
    changes: tuple[Change, ...]
    kept: int

    @property
    def counts(self) -> dict[str, int]:
        """How many changes there are of each kind; places in the user's text are none."""
        count = Counter(one.kind for one in self.changes if one.listed and one.fields != (LOCATIONS,))
        return {kind: count[kind] for kind in SIGNS}

    @property
    def told(self) -> str:
        """The counts in words: "2 added, 1 moved"; "no changes"."""
        return ", ".join(f"{count:,} {kind}" for kind, count in self.counts.items() if count) or NO_CHANGES
