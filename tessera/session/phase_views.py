"""Views of a kernel that is compiled in phases: one after the other, as one compilation."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tessera.core.base.source import Span
from tessera.core.listing import Line, Listing
from tessera.core.program.program import Program
from tessera.core.record import KERNEL, OpRecord, ValueRecord

_Place = tuple[str, str]
"""A level, and the pass that left it so."""


def joined_listings(parts: Sequence[tuple[Program, Sequence[Listing]]]) -> tuple[Listing, ...]:
    """Return every level of all phases, after each pass that any of them went through.

    Operations are numbered on, so that each keeps a number and an identity of its own.  A phase that did without a
    pass is shown as the pass before left it.
    """
    found: dict[_Place, list[Listing]] = {place: [] for place in _places([listings for _, listings in parts])}
    base = 0
    for number, (program, listings) in enumerate(parts):
        head = Line(phase_head(number, len(parts), program))
        known = {(listing.level, listing.stage): listing for listing in listings}
        last: dict[str, Listing] = {}
        for (level, stage), shown in found.items():
            listing = known.get((level, stage)) or last.get(level)
            if listing is None:
                continue
            if listing is not last.get(level):
                known[level, stage] = last[level] = _renamed(listing, number, base, head)
            shown.append(last[level])
        base += sum(1 for _ in program.body.walk())
    return tuple(
        _source(each) if level == "source" else _joined(level, stage, each) for (level, stage), each in found.items()
    )


def joined_records(parts: Sequence[tuple[Program, Sequence[OpRecord]]]) -> tuple[OpRecord, ...]:
    """Return the operations of all phases, each with a number and an identity of its own."""
    found: list[OpRecord] = []
    base = 0
    for number, (program, records) in enumerate(parts):
        ids = _identities(records, number, base)
        found += [_record(record, ids, number, base) for record in records]
        base += sum(1 for _ in program.body.walk())
    return tuple(found)


def _identities(records: Sequence[OpRecord], phase: int, base: int) -> dict[str, str]:
    return {record.id: _identity(record.id, phase, base) for record in records}


def _places(phases: Sequence[Sequence[Listing]]) -> list[_Place]:
    """Return the levels and passes of all phases, each in the order of those phases that have it."""
    merged: list[_Place] = []
    for listings in phases:
        at = 0
        for listing in listings:
            place = (listing.level, listing.stage)
            if place in merged:
                at = merged.index(place) + 1
            else:
                merged.insert(at, place)
                at += 1
    return merged


def _joined(level: str, stage: str, parts: Sequence[Listing]) -> Listing:
    lines = tuple(line for one in parts for line in one.lines)
    return Listing(level, stage, lines, tuple(record for one in parts for record in one.records))


def _renamed(listing: Listing, phase: int, base: int, head: Line) -> Listing:
    """Return a listing of one phase with numbers and identities that no other phase has."""
    ids = _identities(listing.records, phase, base)
    lines = tuple(
        replace(line, ops=tuple(op + base for op in line.ops), record=ids.get(line.record, line.record))
        for line in listing.lines
    )
    records = tuple(_record(record, ids, phase, base) for record in listing.records)
    return Listing(listing.level, listing.stage, lines if listing.level == "source" else (head, *lines), records)


def _identity(identity: str, phase: int, base: int) -> str:
    """Return `17.1` as `25.1`, where 8 operations are in front, and `kernel.3` as `kernel-2.3`, of the second phase."""
    first, dot, number = identity.partition(".")
    if first == KERNEL:
        return f"{first}-{phase + 1}{dot}{number}" if phase else identity
    return f"{int(first) + base}{dot}{number}"


def _record(record: OpRecord, ids: Mapping[str, str], phase: int, base: int) -> OpRecord:
    own = ids[record.id]

    def value(one: ValueRecord) -> ValueRecord:
        return replace(one, id=own + one.id[len(record.id) :])

    def operand(name: str) -> str:
        owner = name.partition("^")[0] if "^" in name else name.rpartition(":")[0]
        return ids[owner] + name[len(owner) :] if owner in ids else name

    return replace(
        record, id=own, parent=ids.get(record.parent, record.parent), operands=tuple(map(operand, record.operands)),
        results=tuple(map(value, record.results)),
        arguments=tuple(tuple(map(value, region)) for region in record.arguments),
        numbers=tuple(number + base for number in record.numbers),
        origin=tuple(_identity(each, phase, base) for each in record.origin),
    )  # fmt: skip


def phase_head(number: int, count: int, program: Program) -> str:
    """Return the line that stands in front of a phase, counted from 0, in the text of a level."""
    return f"// phase {number + 1} of {count}: {_place(program)}"


def _place(program: Program) -> str:
    """Return the lines of a phase: of its loop, or of what it writes."""
    ops = [op for op in program.body.ops if op.opcode in ("for", "if", "while", "write", "store")] or program.body.ops
    spans = [op.span for op in ops if op.span.file == program.source.name] or [program.span]
    first, last = min(span.line for span in spans), max(span.end_line for span in spans)
    return f"line {first}" if first == last else f"lines {first} to {last}"


def _source(listings: Sequence[Listing]) -> Listing:
    """Return the user's lines once, each with the operations that all phases have of it."""
    merged: dict[Span, Line] = {}
    for listing in listings:
        for line in listing.lines:
            key = line.spans[0]
            known = merged.get(key)
            merged[key] = line if known is None else replace(known, ops=(*known.ops, *line.ops))
    return Listing("source", "", tuple(merged[key] for key in sorted(merged, key=lambda span: span.line)))
