"""Write the operations of stages as JSON, and back: each record once, however many stages it stays the same in.

An operation that a pass leaves alone keeps its identity and with it its whole record, so a stage is a list of numbers
into one table.  Nothing is read but texts and numbers.
"""

from collections.abc import Sequence
from typing import Any, cast

from tessera.core.base.source import Span
from tessera.core.record import AttributeData, OpRecord, Row, Verbatim, of_row


class RecordTable:
    """The records of the stages that are written; `spans` numbers the places that they name."""

    def __init__(self, spans: dict[Span, int]) -> None:
        self.rows: list[object] = []
        self._known: dict[Row, int] = {}
        self._spans = spans

    def numbers(self, records: Sequence[OpRecord]) -> list[int]:
        """Return the place of each record in `rows`, where it stands from now on."""
        return [self._number(record.row) for record in records]

    def _number(self, row: Row) -> int:
        found = self._known.get(row)
        if found is None:
            found = self._known[row] = len(self.rows)
            *head, attributes, spans, numbers, origin = row
            places = [self._spans.setdefault(span, len(self._spans)) for span in spans]
            self.rows.append([*head, {name: _packed(value) for name, value in attributes}, places, numbers, origin])
        return found


def unpack_rows(stored: Sequence[Any], spans: Sequence[Span]) -> list[OpRecord]:
    """Return the records of `RecordTable.rows`; raises what JSON of another form makes of it."""
    found: list[OpRecord] = []
    for *head, attributes, places, numbers, origin in stored:
        identity, name, parent, region, operands, results, arguments = head
        table = cast("dict[str, Any]", attributes)
        found.append(of_row((
            identity, name, parent, region, tuple(operands), results, arguments,
            tuple((key, _unpacked(value)) for key, value in table.items()),
            tuple([spans[place] for place in cast("list[int]", places)]), tuple(numbers), tuple(origin),
        )))  # fmt: skip
    return found


def _packed(value: AttributeData) -> object:
    if isinstance(value, Verbatim):
        return {"": value.text}
    return [_packed(item) for item in value] if isinstance(value, tuple) else value


def _unpacked(stored: Any) -> AttributeData:
    match stored:
        case {"": str(text)}:
            return Verbatim(text)
        case list():
            return tuple(_unpacked(item) for item in cast("list[Any]", stored))
        case int() | float() | str():
            return stored
        case _:
            raise TypeError(f"{stored!r} is no attribute")
