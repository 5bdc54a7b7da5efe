"""The stages of a compilation as views need them: operations, text and facts, from the Program to machine code."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from tessera.core.events import PassRan
from tessera.core.line_records import records_of_lines
from tessera.core.listing import Line, Listing
from tessera.core.record import OpRecord

PROGRAM: Final = "program"
"""The level of the first stage, which has no text."""


@dataclass(frozen=True)
class Stage:
    """The state of a kernel at one level, after one pass.  Everything but the facts is made when it is asked for.

    level: "program", or one of the levels of `Listing`; name: of the pass that left it so, "" for the end of a level
    ran: the pass, with its time and options; None for the Program, and where no pass of ours did it
    listing: its text; `lines` says which operation is on which line
    above: the last stage of Tile IR, for levels whose operations are read off their text
    """

    level: str
    name: str
    ran: PassRan | None = None
    listing: Listing | None = None
    known: tuple[OpRecord, ...] = ()
    above: tuple[OpRecord, ...] = ()

    @cached_property
    def records(self) -> tuple[OpRecord, ...]:
        """The operations, in order; see `tessera.core.record`."""
        return self.known or tuple(record for record in self._on_lines if record is not None)

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """The text, each line with the identity of its operation."""
        if self.listing is None or self.known:
            return () if self.listing is None else self.listing.lines
        pairs = zip(self.listing.lines, self._on_lines, strict=True)
        return tuple(line if record is None else replace(line, record=record.id) for line, record in pairs)

    @cached_property
    def _on_lines(self) -> tuple[OpRecord | None, ...]:
        return () if self.listing is None else records_of_lines(self.level, self.listing.lines, self.above)


def stages_of(program: tuple[OpRecord, ...], listings: Sequence[Listing], passes: Sequence[PassRan]) -> Iterator[Stage]:
    """Yield the stages of a compilation that was observed, in order; the user's own text is none of them.

    program: the operations of the Program
    """
    ran = passes_by_place(passes)
    yield Stage(PROGRAM, "", known=program)
    above: tuple[OpRecord, ...] = ()
    for listing in listings:
        if listing.level == "source":
            continue
        did = ran.get((listing.level, listing.stage))
        above = listing.records or above
        yield Stage(listing.level, listing.stage, did, listing, listing.records, () if listing.records else above)


def passes_by_place(passes: Sequence[PassRan]) -> dict[tuple[str, str], PassRan]:
    """Return the passes by level and name; that of a whole level below Tile IR, by the level and "".

    A kernel in phases goes through a pass once for each: that is one pass here, with the time of all.
    """
    found: dict[tuple[str, str], PassRan] = {}
    for each in passes:
        place = (each.level, each.name)
        known = found.get(place)
        if known is None:
            found[place] = each
        else:
            changed = known.changed or each.changed if None not in (known.changed, each.changed) else None
            found[place] = replace(each, seconds=known.seconds + each.seconds, changed=changed)
    whole = {(level, ""): each for (level, _), each in found.items() if level != "tile"}
    return {**found, **whole}
