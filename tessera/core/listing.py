"""One level of a compilation as text, each line linked to the user's source and to the operations it came from."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from tessera.core.base.source import Span
from tessera.core.record import OpRecord, Row, of_row

NO_ADDRESS: Final = -1


@dataclass(frozen=True, slots=True)
class Line:
    """One printed line.

    `spans` are the places in the user's text it came from (none: the compiler made it up); `ops` are the numbers of
    the Program's operations that it stands for; `record` is the identity of the operation that is printed on it (see
    `tessera.core.record`), empty where none is; `address` is the offset of an instruction in the code of its phase.
    """

    text: str
    spans: tuple[Span, ...] = ()
    ops: tuple[int, ...] = ()
    record: str = ""
    address: int = NO_ADDRESS


Printer = Callable[[Sequence[OpRecord]], tuple[Line, ...]]
"""Makes lines of the operations of a stage."""


@dataclass(frozen=True)
class Listing:
    """The text of one level as it stood after `stage` (a pass name, or "" for the final one).

    given: the lines, of a level whose text is made elsewhere: by upstream MLIR, LLVM or a disassembler
    records: the operations, of a level that `printer` prints; its lines are made when they are read
    """

    level: str
    stage: str
    given: tuple[Line, ...] = ()
    records: tuple[OpRecord, ...] = ()
    printer: Printer | None = field(default=None, compare=False, repr=False)

    def __reduce__(self) -> tuple[object, ...]:
        """Lines and records are pickled as tuples, several times faster than as dataclasses: there are thousands."""
        lines = [_packed(line) for line in self.given]
        return _listing, (self.level, self.stage, lines, [record.row for record in self.records], self.printer)

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """The lines."""
        return self.given if self.printer is None else self.printer(self.records)

    @property
    def text(self) -> str:
        """The whole text, lines joined by newlines."""
        return "\n".join(line.text for line in self.lines)


_Packed = tuple[str, tuple[Span, ...], tuple[int, ...], str, *tuple[int, ...]]
"""The fields of a line; the address is left out where there is none."""


def _packed(line: Line) -> _Packed:
    fields = line.text, line.spans, line.ops, line.record
    return fields if line.address == NO_ADDRESS else (*fields, line.address)


def _listing(
    level: str, stage: str, lines: list[_Packed], rows: list[Row], printer: Printer | None
) -> Listing:  # fmt: skip
    return Listing(level, stage, tuple(Line(*line) for line in lines), tuple(map(of_row, rows)), printer)
