"""Differences between two stages by the identities of operations: renumbered values and other texts are no change."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tessera.core.lineage import Lineage
from tessera.core.record import OpRecord
from tessera.core.subsequences import longest_rising

ADDED: Final = "added"
REMOVED: Final = "removed"
CHANGED: Final = "changed"
MOVED: Final = "moved"
KEPT: Final = "kept"
KINDS: Final = (ADDED, REMOVED, CHANGED, MOVED, KEPT)


@dataclass(frozen=True, slots=True)
class StageChange:
    """The change of one operation.

    kind: one of KINDS; what is changed may have moved as well
    before, after: the operation in both stages; None where it is not there
    fields: what differs of one that is changed: "name", "operands", "results", "arguments" or "attributes"
    moved: whether it stands in another operation, or in another order among those that stayed where they were
    """

    kind: str
    before: OpRecord | None
    after: OpRecord | None
    fields: tuple[str, ...] = ()
    moved: bool = False

    @property
    def id(self) -> str:
        """The operation's identity."""
        record = self.after or self.before
        return record.id if record is not None else ""


def diff(before: Sequence[OpRecord], after: Sequence[OpRecord]) -> tuple[StageChange, ...]:
    """Compare two stages of one compilation; changes in the order of `after`, each removed one where it was.

    Stages of two compilations share no identities: give `aligned(before, after)` for `after`.
    """
    old, new = {record.id: record for record in before}, {record.id: record for record in after}
    moved = _moved(before, after)
    changes: list[StageChange] = []
    behind: dict[str, list[StageChange]] = defaultdict(list)  # what was removed, by what was in front of it
    last = ""
    for record in before:
        if record.id in new:
            last = record.id
        else:
            behind[last].append(StageChange(REMOVED, record, None))
    changes += behind[""]
    for record in after:
        known = old.get(record.id)
        changes.append(
            StageChange(ADDED, None, record) if known is None else _compared(known, record, record.id in moved)
        )
        changes += behind[record.id]
    return tuple(changes)


def aligned(before: Sequence[OpRecord], after: Sequence[OpRecord], *, one_program: bool = True) -> tuple[OpRecord, ...]:
    """Return `after`, of another compilation, with the identities of `before` where the operations are the same.

    What has no counterpart gets identities that `before` does not have.  one_program: see `lineage.match`.
    """
    lineage = Lineage(before)
    for record in before:
        base, _, number = record.id.partition(".")
        lineage.counts[base] = max(lineage.counts[base], int(number or 0))
    return lineage.next(after, one_program=one_program)


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Operations that a pass rewrote: operations that went and came for the same operations of the Program.

    One for one is a replacement, several for one a fusion, one for several a split.
    """

    before: tuple[OpRecord, ...]
    after: tuple[OpRecord, ...]


def rewrites(changes: Sequence[StageChange]) -> tuple[Rewrite, ...]:
    """Group what was removed and what was added by the operations of the Program that they stand for."""
    gone = [change.before for change in changes if change.kind == REMOVED and change.before is not None]
    come = [change.after for change in changes if change.kind == ADDED and change.after is not None]
    root: dict[int, int] = {}

    def find(number: int) -> int:
        while root.setdefault(number, number) != number:
            number = root[number]
        return number

    for record in (*gone, *come):
        for number in record.numbers[1:]:
            root[find(number)] = find(record.numbers[0])
    groups: dict[int, tuple[list[OpRecord], list[OpRecord]]] = defaultdict(lambda: ([], []))
    for side, records in enumerate((gone, come)):
        for record in records:
            if record.numbers:
                groups[find(record.numbers[0])][side].append(record)
    return tuple(Rewrite(tuple(old), tuple(new)) for old, new in groups.values() if old and new)


def _compared(before: OpRecord, after: OpRecord, moved: bool) -> StageChange:
    fields: list[str] = []
    if before.name != after.name:
        fields.append("name")
    if before.operands != after.operands:
        fields.append("operands")
    if before.results != after.results and [v.type for v in before.results] != [v.type for v in after.results]:
        fields.append("results")
    if before.arguments != after.arguments and [[v.type for v in region] for region in before.arguments] != [
        [v.type for v in region] for region in after.arguments
    ]:
        fields.append("arguments")
    if before.attributes != after.attributes:
        fields.append("attributes")
    kind = CHANGED if fields else MOVED if moved else KEPT
    return StageChange(kind, before, after, tuple(fields), moved)


def _moved(before: Sequence[OpRecord], after: Sequence[OpRecord]) -> set[str]:
    """Identities of what stands elsewhere: as few of the siblings as explain the new order."""
    places = {record.id: (place, record.parent, record.region) for place, record in enumerate(before)}
    moved: set[str] = set()
    siblings: dict[tuple[str, int], list[str]] = defaultdict(list)
    for record in after:
        if record.id in places:
            if places[record.id][1:] == (record.parent, record.region):
                siblings[record.parent, record.region].append(record.id)
            else:
                moved.add(record.id)
    for ids in siblings.values():
        stayed = longest_rising([places[identity][0] for identity in ids])
        moved |= {identity for number, identity in enumerate(ids) if number not in stayed}
    return moved
