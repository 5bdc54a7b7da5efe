"""Write the operations of stages as JSON, and back: each record once, however many stages it stays the same in.

An operation that a pass leaves alone keeps its identity and with it its whole record, so a stage is a list of numbers
into one table.  Only strings and numbers are read.
"""

from collections.abc import Sequence
from typing import TypeAlias

from tessera.core.base.source import Span
from tessera.core.record import AttributeData, OpRecord, Row, Verbatim, of_row

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
"""A parsed JSON document."""


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


def unpack_rows(stored: Json, spans: Sequence[Span]) -> list[OpRecord]:
    """Return the records of `RecordTable.rows`.

    Raises:
        TypeError: JSON of another form.
        IndexError: a record names a place that is not in `spans`.
    """
    return [of_row(_row(each, spans)) for each in items(stored)]


def items(stored: Json) -> list[Json]:
    """Return a JSON array.

    Raises:
        TypeError: it is none.
    """
    if isinstance(stored, list):
        return stored
    raise _mismatch(stored, "array")


def integers(stored: Json) -> list[int]:
    """Return a JSON array of integers.

    Raises:
        TypeError: it is none.
    """
    found = items(stored)
    numbers = [number for number in found if isinstance(number, int)]
    if len(numbers) == len(found):
        return numbers
    raise _mismatch(stored, "array of integers")


def texts(stored: Json) -> list[str]:
    """Return a JSON array of strings.

    Raises:
        TypeError: it is none.
    """
    found = items(stored)
    strings = [text for text in found if isinstance(text, str)]
    if len(strings) == len(found):
        return strings
    raise _mismatch(stored, "array of strings")


def _row(stored: Json, spans: Sequence[Span]) -> Row:
    match stored:
        case [
            str(identity), str(name), str(parent), int(region), operands, results, list(arguments),
            dict(attributes), places, numbers, origin,
        ]:  # fmt: skip
            return (
                identity, name, parent, region, tuple(texts(operands)), _pairs(results),
                tuple([_pairs(each) for each in arguments]),
                tuple([(key, _unpacked(value)) for key, value in attributes.items()]),
                tuple([spans[place] for place in integers(places)]), tuple(integers(numbers)), tuple(texts(origin)),
            )  # fmt: skip
        case _:
            raise _mismatch(stored, "record")


def _pairs(stored: Json) -> tuple[tuple[str, str], ...]:
    """Return the type and the name of each value."""
    return tuple([(kind, name) for kind, name in map(texts, items(stored))])


def _packed(value: AttributeData) -> object:
    if isinstance(value, Verbatim):
        return {"": value.text}
    return [_packed(item) for item in value] if isinstance(value, tuple) else value


def _unpacked(stored: Json) -> AttributeData:
    match stored:
        case {"": str(text)}:
            return Verbatim(text)
        case list():
            return tuple(_unpacked(item) for item in stored)
        case int() | float() | str():
            return stored
        case _:
            raise _mismatch(stored, "attribute")


def _mismatch(stored: Json, wanted: str) -> TypeError:
    return TypeError(f"a JSON {type(stored).__name__} is no {wanted}")
