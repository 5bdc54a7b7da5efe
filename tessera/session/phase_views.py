"""What the views show of a kernel that is compiled in phases: one after the other, as one compilation."""

from collections.abc import Sequence
from dataclasses import replace

from tessera.core.base.source import Span
from tessera.core.listing import Line, Listing
from tessera.core.program.program import Program


def joined_listings(parts: Sequence[tuple[Program, Sequence[Listing]]]) -> tuple[Listing, ...]:
    """Every level of all phases; operations are numbered on, so that each keeps a number of its own."""
    found: dict[tuple[str, str], list[Listing]] = {}
    base = 0
    for number, (program, listings) in enumerate(parts):
        head = Line(f"// phase {number + 1} of {len(parts)}: {_place(program)}")
        for listing in listings:
            lines = tuple(replace(line, ops=tuple(op + base for op in line.ops)) for line in listing.lines)
            made = Listing(listing.level, listing.stage, lines if listing.level == "source" else (head, *lines))
            found.setdefault((listing.level, listing.stage), []).append(made)
        base += sum(1 for _ in program.body.walk())
    return tuple(
        _source(each) if level == "source" else Listing(level, stage, tuple(line for one in each for line in one.lines))
        for (level, stage), each in found.items()
    )


def _place(program: Program) -> str:
    """The lines of a phase: of its loop, or of what it writes."""
    ops = [op for op in program.body.ops if op.opcode in ("for", "if", "while", "write", "store")] or program.body.ops
    spans = [op.span for op in ops if op.span.file == program.source.name] or [program.span]
    first, last = min(span.line for span in spans), max(span.end_line for span in spans)
    return f"line {first}" if first == last else f"lines {first} to {last}"


def _source(listings: Sequence[Listing]) -> Listing:
    """The user's lines once, each with the operations that all phases have of it."""
    merged: dict[Span, Line] = {}
    for listing in listings:
        for line in listing.lines:
            key = line.spans[0]
            known = merged.get(key)
            merged[key] = line if known is None else replace(known, ops=(*known.ops, *line.ops))
    return Listing("source", "", tuple(merged[key] for key in sorted(merged, key=lambda span: span.line)))
