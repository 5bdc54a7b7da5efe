"""The stages of a compilation as views need them: operations, text and facts, from the Program to machine code."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from tessera.core.events import PassRan
from tessera.core.line_records import records_of_lines
from tessera.core.listing import Line, Listing
from tessera.core.program.program import Program
from tessera.core.program_records import records_of_program
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


def stages_of(program: Program, listings: Sequence[Listing], passes: Sequence[PassRan]) -> Iterator[Stage]:
    """Yield the stages of a compilation that was observed, in order; the user's own text is none of them."""
    ran = {(each.level, each.name): each for each in passes}
    whole = {each.level: each for each in passes if each.level != "tile"}
    yield Stage(PROGRAM, "", known=records_of_program(program))
    above: tuple[OpRecord, ...] = ()
    for listing in listings:
        if listing.level == "source":
            continue
        did = ran.get((listing.level, listing.stage)) if listing.stage else whole.get(listing.level)
        above = listing.records or above
        yield Stage(listing.level, listing.stage, did, listing, listing.records, () if listing.records else above)
