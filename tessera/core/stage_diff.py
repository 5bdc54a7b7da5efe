"""What a pass changed, by the identities of operations: renumbered values and other texts are no change."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tessera.core.lineage import Lineage
from tessera.core.record import OpRecord

ADDED: Final = "added"
REMOVED: Final = "removed"
CHANGED: Final = "changed"
MOVED: Final = "moved"
KEPT: Final = "kept"
KINDS: Final = (ADDED, REMOVED, CHANGED, MOVED, KEPT)


@dataclass(frozen=True, slots=True)
class Change:
    """What became of one operation.

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


def diff(before: Sequence[OpRecord], after: Sequence[OpRecord]) -> tuple[Change, ...]:
    """Compare two stages of one compilation; changes in the order of `after`, each removed one where it was.

    Stages of two compilations share no identities: give `aligned(before, after)` for `after`.
    """
    old, new = {record.id: record for record in before}, {record.id: record for record in after}
    moved = _moved(before, after)
    changes: list[Change] = []
    behind: dict[str, list[Change]] = defaultdict(list)  # what was removed, by what was in front of it
    last = ""
    for record in before:
        if record.id in new:
            last = record.id
        else:
            behind[last].append(Change(REMOVED, record, None))
    changes += behind[""]
    for record in after:
        known = old.get(record.id)
        changes.append(Change(ADDED, None, record) if known is None else _compared(known, record, record.id in moved))
        changes += behind[record.id]
    return tuple(changes)


def aligned(before: Sequence[OpRecord], after: Sequence[OpRecord]) -> tuple[OpRecord, ...]:
    """Return `after`, of another compilation, with the identities of `before` where the operations are the same.

    What has no counterpart gets identities that `before` does not have.
    """
    lineage = Lineage(before)
    for record in before:
        base, _, number = record.id.partition(".")
        lineage.counts[base] = max(lineage.counts[base], int(number or 0))
    return lineage.next(after)


def _compared(before: OpRecord, after: OpRecord, moved: bool) -> Change:
    fields: list[str] = []
    if before.name != after.name:
        fields.append("name")
    if before.operands != after.operands:
        fields.append("operands")
    if [value.type for value in before.results] != [value.type for value in after.results]:
        fields.append("results")
    if [[v.type for v in region] for region in before.arguments] != [
        [v.type for v in region] for region in after.arguments
    ]:
        fields.append("arguments")
    if before.attributes != after.attributes:
        fields.append("attributes")
    kind = CHANGED if fields else MOVED if moved else KEPT
    return Change(kind, before, after, tuple(fields), moved)


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
        stayed = _longest_rising([places[identity][0] for identity in ids])
        moved |= {identity for number, identity in enumerate(ids) if number not in stayed}
    return moved


def _longest_rising(numbers: Sequence[int]) -> set[int]:
    """Places of a longest rising subsequence (patience sorting)."""
    ends: list[int] = []
    at: list[int] = []
    before: list[int] = []
    for place, number in enumerate(numbers):
        pile = bisect_left(ends, number)
        before.append(at[pile - 1] if pile else -1)
        ends[pile : pile + 1] = [number]
        at[pile : pile + 1] = [place]
    found: set[int] = set()
    place = at[-1] if at else -1
    while place >= 0:
        found.add(place)
        place = before[place]
    return found
