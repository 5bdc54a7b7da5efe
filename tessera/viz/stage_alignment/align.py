"""Set two stages beside each other: which operation is which, what became of the others, and the rows of two columns.

Tile IR is compared by the identities of operations (`core/stage_diff.py`), levels below by what their lines say.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Final

from tessera.core.errors.catalog import NothingToShow
from tessera.core.listing import Line
from tessera.core.record import OpRecord
from tessera.core.stage import Stage
from tessera.core.stage_diff import (
    ADDED,
    CHANGED,
    KEPT,
    MOVED,
    REMOVED,
    Rewrite,
    StageChange,
    aligned,
    diff,
    rewrites,
)
from tessera.core.subsequences import longest_common, longest_rising
from tessera.viz.operators.records import LEVELS
from tessera.viz.stage_alignment.changes import FUSED, LOCATIONS, SPLIT, Change, Comparison, DiffLine, Marks, Row
from tessera.viz.stage_alignment.texts import Renaming, Text, blanked, gaps, text_fields, text_pairs

BY_IDENTITY: Final = (*LEVELS, "tile")
_CONSTANTS: Final = ("arith.constant", "tessera.const")


class Related(Enum):
    """How two stages are related: of one compilation, of two of one Program, or not at all."""

    COMPILATION = "compilation"
    PROGRAM = "program"
    NOT = "not"


def compare(before: Stage, after: Stage, related: Related) -> Comparison:
    """Compare two stages of the same level, or of a graph and its schedule.  Raises NothingToShow for other levels."""
    if before.level != after.level and not {before.level, after.level} <= set(LEVELS):
        message = f"{before.level!r} and {after.level!r} are different levels, and a diff is between two states of one"
        raise NothingToShow(message, hint="tessera.viz.explore shows levels beside each other")
    aligner = _by_identity if before.level in BY_IDENTITY else _by_text
    return aligner(before, after, related)


@dataclass(frozen=True, slots=True)
class _Aligned:
    """Counterparts among lines, and the changes with their lines; `ids`: the identity of each line after."""

    pairs: list[tuple[int, int]]
    changes: list[Change]
    ids: Sequence[str]
    kept: int


def _by_identity(before: Stage, after: Stage, related: Related) -> Comparison:
    same = related is Related.COMPILATION
    one_program = related is not Related.NOT
    records = after.records if same else aligned(before.records, after.records, one_program=one_program)
    names = {old.id: new.id for old, new in zip(after.records, records, strict=True)}
    ids = [names.get(line.record, "") for line in after.lines]
    mine, theirs = _places([line.record for line in before.lines]), _places(ids)
    changes = diff(before.records, records)
    made = rewrites(changes) if one_program else ()
    pairs = [
        pair for change in changes if change.before and change.after
        for pair in zip(mine[change.before.id], theirs[change.after.id], strict=False)
    ]  # fmt: skip
    for rewrite in made:
        if len(rewrite.before) == len(rewrite.after) == 1:
            pairs += zip(mine[rewrite.before[0].id], theirs[rewrite.after[0].id], strict=False)
    pairs += _without_records(before.lines, after.lines, pairs)
    renaming = Renaming(_texts(before.lines, after.lines, pairs))
    constants = (_constants(before.records), _constants(records))
    writer = _Writer(before.lines, after.lines, mine, theirs, renaming, constants)
    found, kept = writer.changes(changes, made, places=related is not Related.NOT)
    return _comparison(before.lines, after.lines, _Aligned(pairs, found, ids, kept))


def _places(ids: Sequence[str]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = defaultdict(list)
    for place, identity in enumerate(ids):
        if identity:
            found[identity].append(place)
    return found


def _constants(records: Sequence[OpRecord]) -> dict[str, str]:
    """Return what each constant is, by the identity of its value."""
    return {
        record.results[0].id: f"{record.attributes.get('value')!r} {record.results[0].type}"
        for record in records if record.name in _CONSTANTS and record.results
    }  # fmt: skip


def _texts(before: Sequence[Line], after: Sequence[Line], pairs: Sequence[tuple[int, int]]) -> list[tuple[str, str]]:
    return [(before[i].text, after[j].text) for i, j in pairs]


def _without_records(
    before: Sequence[Line], after: Sequence[Line], pairs: Sequence[tuple[int, int]]
) -> list[tuple[int, int]]:
    """Match lines without operations between neighbours that stayed."""
    found: list[tuple[int, int]] = []
    for a, b, c, d in gaps(_in_order(pairs), len(before), len(after)):
        mine = [i for i in range(a, b) if not before[i].record]
        theirs = [j for j in range(c, d) if not after[j].record]
        common = longest_common(
            [blanked(before[i].text, "tile") for i in mine], [blanked(after[j].text, "tile") for j in theirs]
        )
        found += [(mine[i], theirs[j]) for i, j in common]
    return found


def _in_order(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return as many pairs as do not cross."""
    ordered = sorted(pairs)
    stayed = longest_rising([j for _, j in ordered])
    return [ordered[place] for place in sorted(stayed)]


@dataclass(frozen=True, slots=True)
class _Writer:
    """Makes changes of operations into changes of lines, with words."""

    before: Sequence[Line]
    after: Sequence[Line]
    mine: Mapping[str, list[int]]
    theirs: Mapping[str, list[int]]
    renaming: Renaming
    constants: tuple[Mapping[str, str], Mapping[str, str]]

    def changes(
        self, changes: Sequence[StageChange], made: Sequence[Rewrite], *, places: bool
    ) -> tuple[list[Change], int]:
        """Return every change, and how many operations there are without one.

        places: whether another place in the user's text is a change
        """
        group = {record.id: number for number, one in enumerate(made) for record in (*one.before, *one.after)}
        found: list[Change] = []
        told: set[int] = set()
        kept = 0
        for change in changes:
            number = group.get(change.id) if change.kind in (ADDED, REMOVED) else None
            if number is not None:
                if number not in told:
                    told.add(number)
                    found += self._rewritten(made[number])
                continue
            one = self._one(change, group, places=places)
            kept += one is None
            found += [] if one is None else [one]
        return found, kept

    def _one(self, change: StageChange, group: Mapping[str, int], *, places: bool) -> Change | None:
        old, new = change.before, change.after
        if old is None or new is None:
            record = old or new
            assert record is not None
            return Change(change.kind, record.name, "", self._mine(old), self._theirs(new))
        follows = self._follows(old.operands, new.operands, group)
        fields = tuple(field for field in change.fields if field != "operands")
        fields = fields if follows else ("operands", *fields)
        kind = CHANGED if fields else MOVED if change.moved else KEPT
        if kind == KEPT and places and old.spans != new.spans:
            kind, fields = CHANGED, (LOCATIONS,)
        if kind == KEPT:
            return None
        moved = self._moved(new) if change.moved else ""
        words = "; ".join(filter(None, (_said(old, new, fields), moved)))
        marks = self._marks(old, new) if fields else ((), ())
        # What an operation says is on its first line; the others only close its regions.
        last = None if change.moved else 1
        before, after = self._mine(old)[:last], self._theirs(new)[:last]
        return Change(kind, new.name, words, before, after, fields, change.moved, *marks)

    def _follows(self, old: Sequence[str], new: Sequence[str], group: Mapping[str, int]) -> bool:
        """Return whether operands are the same values: equal constants, or made by what was rewritten for the other."""
        if len(old) != len(new):
            return False
        mine, theirs = self.constants
        for a, b in zip(old, new, strict=True):
            if mine.get(a) != theirs.get(b):
                return False
            if a == b or a in mine:
                continue
            made = [group.get(value.partition(":")[0].partition("^")[0]) for value in (a, b)]
            if made[0] is None or made[0] != made[1]:
                return False
        return True

    def _rewritten(self, made: Rewrite) -> list[Change]:
        """Return what was made of what: a replacement, a fusion, a split, or several for several."""
        if len(made.before) == len(made.after) == 1:
            old, new = made.before[0], made.after[0]
            words = f"{old.name} became {new.name}" if old.name != new.name else f"{old.name} was made anew"
            fields = ("name",) if old.name != new.name else ("text",)
            marks = self._marks(old, new)
            return [Change(CHANGED, new.name, words, self._mine(old), self._theirs(new), fields, False, *marks)]
        gone = ", ".join(record.name for record in made.before)
        come = ", ".join(record.name for record in made.after)
        words = f"{gone} became {come}"
        if 1 in (len(made.before), len(made.after)):
            kind = SPLIT if len(made.before) == 1 else FUSED
            name = made.before[0].name if kind == SPLIT else made.after[0].name
            return [Change(kind, name, words, self._mine(*made.before), self._theirs(*made.after))]
        return [
            *(Change(REMOVED, each.name, words, self._mine(each), ()) for each in made.before),
            *(Change(ADDED, each.name, words, (), self._theirs(each)) for each in made.after),
        ]

    def _mine(self, *records: OpRecord | None) -> tuple[int, ...]:
        return tuple(place for record in records if record is not None for place in self.mine.get(record.id, ()))

    def _theirs(self, *records: OpRecord | None) -> tuple[int, ...]:
        return tuple(place for record in records if record is not None for place in self.theirs.get(record.id, ()))

    def _moved(self, record: OpRecord) -> str:
        mine, theirs = self.mine.get(record.id), self.theirs.get(record.id)
        if not mine or not theirs:
            return "moved"
        return f"moved from line {mine[0] + 1} to line {theirs[0] + 1}"

    def _marks(self, old: OpRecord, new: OpRecord) -> tuple[Marks, Marks]:
        mine, theirs = self.mine.get(old.id), self.theirs.get(new.id)
        if not mine or not theirs:
            return (), ()
        return self.renaming.marks(self.before[mine[0]].text, self.after[theirs[0]].text)


def _said(old: OpRecord, new: OpRecord, fields: Sequence[str]) -> str:
    """Return what differs, in words: fields, and the attributes by name."""
    parts: list[str] = []
    for field in fields:
        if field != "attributes":
            parts.append(f"{field} changed")
            continue
        names = {**old.attributes, **new.attributes}
        for name in names:
            short = name.removeprefix("tessera.")
            if name not in old.attributes:
                parts.append(f"attribute {short} added")
            elif name not in new.attributes:
                parts.append(f"attribute {short} removed")
            elif old.attributes[name] != new.attributes[name]:
                parts.append(f"attribute {short} changed")
    return ", ".join(parts)


def _by_text(before: Stage, after: Stage, _: Related) -> Comparison:
    mine, theirs = _text(before), _text(after)
    old, new = [line.text for line in before.lines], [line.text for line in after.lines]
    pairs = text_pairs(mine, theirs)
    renaming = Renaming((old[i], new[j]) for i, j in pairs if mine.said[i] == theirs.said[j])
    stayed = set(_in_order(pairs))
    partner, taken = dict(pairs), {j for _, j in pairs}
    changes: list[Change] = []
    kept = 0
    ids = [""] * len(new)
    for i, name in enumerate(mine.names):
        j = partner.get(i)
        if j is not None:
            ids[j] = before.lines[i].record
        if not name:
            continue
        if j is None:
            changes.append(Change(REMOVED, name, "", (i,)))
            continue
        if mine.said[i] != theirs.said[j]:
            fields = text_fields(old[i], new[j], before.level)
        else:
            fields = () if renaming.same_values(old[i], new[j]) else ("operands",)
        moved = (i, j) not in stayed
        if fields or moved:
            marks = renaming.marks(old[i], new[j]) if fields else ((), ())
            changes.append(_text_change(name, (i, j), fields, marks, moved=moved))
        else:
            kept += 1
    for j, name in enumerate(theirs.names):
        if name and j not in taken:
            changes.append(Change(ADDED, name, "", (), (j,)))
    return _comparison(before.lines, after.lines, _Aligned(pairs, changes, ids, kept))


def _text(stage: Stage) -> Text:
    names = {record.id: record.name for record in stage.records}
    return Text(
        [blanked(line.text, stage.level) for line in stage.lines],
        [names.get(line.record, "") for line in stage.lines],
    )


def _text_change(
    name: str, places: tuple[int, int], fields: tuple[str, ...], marks: tuple[Marks, Marks], *, moved: bool
) -> Change:
    """Return the change of an operation that is on both sides."""
    where = f"moved from line {places[0] + 1} to line {places[1] + 1}" if moved else ""
    said = f"{', '.join(fields)} changed" if fields else ""
    words = "; ".join(filter(None, (said, where)))
    return Change(CHANGED if fields else MOVED, name, words, (places[0],), (places[1],), fields, moved, *marks)


def _comparison(before: Sequence[Line], after: Sequence[Line], found: _Aligned) -> Comparison:
    # In the order of the text after, what is gone where it stood.
    chain = _in_order(found.pairs)
    at = dict(chain)
    where = _rising(len(before), at)
    changes = sorted(found.changes, key=lambda each: _order(each, where))
    return Comparison(
        tuple(_line(line, line.record) for line in before),
        tuple(_line(line, identity) for line, identity in zip(after, found.ids, strict=True)),
        _rows(len(before), len(after), chain, changes),
        tuple(changes),
        found.kept,
    )


def _rising(count: int, at: Mapping[int, int]) -> list[int]:
    """Return, for each line before, the line after that it stands at or behind."""
    found: list[int] = []
    last = -1
    for i in range(count):
        last = at.get(i, last)
        found.append(last)
    return found


def _order(change: Change, where: Sequence[int]) -> tuple[int, int]:
    if change.after:
        return change.after[0], 1
    return (where[change.before[0]], 2) if change.before else (len(where), 3)


def _line(line: Line, identity: str) -> DiffLine:
    lines = tuple(sorted({span.line for span in line.spans})) if line.spans else ()
    return DiffLine(line.text, lines, line.ops, identity)


def _rows(before: int, after: int, chain: Sequence[tuple[int, int]], changes: Sequence[Change]) -> tuple[Row, ...]:
    """Return the rows: pairs that stayed in order beside each other, between them what is on one side alone."""
    old, new = [-1] * before, [-1] * after
    for number, change in enumerate(changes):
        for i in change.before:
            old[i] = number
        for j in change.after:
            new[j] = number
    rows: list[Row] = []
    for (a, c), (i, j) in pairwise(((-1, -1), *chain, (before, after))):
        gone, come = list(range(a + 1, i)), list(range(c + 1, j))
        for number in range(max(len(gone), len(come))):
            left = gone[number] if number < len(gone) else -1
            right = come[number] if number < len(come) else -1
            rows.append(Row(left, right, old[left] if left >= 0 else -1, new[right] if right >= 0 else -1))
        if i < before:
            rows.append(Row(i, j, old[i], new[j]))
    return tuple(rows)
