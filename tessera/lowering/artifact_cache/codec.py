"""Artifacts, listings and pass records as JSON, and back: what the disk cache holds.

Nothing that is read back can name a class that is not in the table below, so a damaged or forged entry can be refused
but can run nothing (the machine code aside, which the checksum guards).  Spans are written relative to the kernel's
first line: an entry made from one cell serves the same kernel in another.
"""

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, cast

from tessera.core.artifact import Artifact, Binding, LaunchRule, Remark, Resources, Slot, TensorMap
from tessera.core.base.dtypes import BY_NAME, DType
from tessera.core.base.source import Source, Span
from tessera.core.compilation import Compilation
from tessera.core.events import Attempted, PassRan
from tessera.core.listing import Line, Listing
from tessera.core.program.types import Array, Scalar
from tessera.core.record import OpRecord
from tessera.core.resources import Buffers
from tessera.core.targets import Target
from tessera.core.tile.text import lines_of_tile
from tessera.lowering.artifact_cache.record_codec import RecordTable, unpack_rows

_CLASSES: Final[dict[str, type]] = {
    kind.__name__: kind
    for kind in (
        Artifact, Binding, Buffers, LaunchRule, Remark, Resources, Slot, TensorMap, Array, Scalar, Target, PassRan,
        Attempted,
    )
}  # fmt: skip


class Malformed(ValueError):
    """The text does not describe what it should."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where the kernel stands now: its source and the span of its definition."""

    source: Source
    span: Span


def pack_artifact(artifact: Artifact) -> bytes:
    """Return `artifact` without its code as JSON."""
    place = Place(artifact.source, artifact.span)
    stored = {f.name: _encode(getattr(artifact, f.name), place) for f in fields(artifact) if f.name != "code"}
    return json.dumps(stored, separators=(",", ":")).encode()


def unpack_artifact(data: bytes, code: bytes, place: Place) -> Artifact:
    """Return the artifact that `pack_artifact` wrote, as if it had been compiled from `place`."""
    try:
        stored: dict[str, Any] = {name: _decode(value, place) for name, value in json.loads(data).items()}
        stored |= {"code": code, "source": place.source, "span": place.span}
        return Artifact(**stored)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Malformed(str(error)) from error


def pack_levels(compilation: Compilation) -> bytes:
    """Return listings and pass records, compressed; empty when nobody looked."""
    if not compilation.listings and not compilation.passes:
        return b""
    place = Place(compilation.artifact.source, compilation.artifact.span)
    spans: dict[Span, int] = {}
    table = RecordTable(spans)
    listings = [_pack_listing(listing, spans, table) for listing in compilation.listings]
    document = {
        "spans": [_encode(span, place) for span in spans],
        "records": table.rows,
        "listings": listings,
        "passes": [_encode(record, place) for record in compilation.passes],
    }
    return zlib.compress(json.dumps(document, separators=(",", ":")).encode(), level=1)


def unpack_levels(data: bytes, place: Place) -> tuple[tuple[Listing, ...], tuple[PassRan, ...]]:
    """Return the listings and pass records that `pack_levels` wrote, with spans in `place`."""
    if not data:
        return (), ()
    try:
        document = json.loads(zlib.decompress(data))
        spans: list[Span] = [_decode(span, place) for span in document["spans"]]
        records = unpack_rows(document["records"], spans)
        listings = tuple(_unpack_listing(listing, spans, records) for listing in document["listings"])
        return listings, tuple(_decode(record, place) for record in document["passes"])
    except (ValueError, TypeError, KeyError, IndexError, zlib.error) as error:
        raise Malformed(str(error)) from error


def _pack_listing(listing: Listing, spans: dict[Span, int], table: RecordTable) -> list[object]:
    if listing.printer is not None:
        return [listing.level, listing.stage, table.numbers(listing.records)]
    # Columns, not rows: a quarter of the size and of the time.
    where = [[spans.setdefault(span, len(spans)) for span in line.spans] for line in listing.lines]
    texts, ops = [line.text for line in listing.lines], [line.ops for line in listing.lines]
    return [listing.level, listing.stage, texts, where, ops]


def _unpack_listing(stored: list[Any], spans: list[Span], records: list[OpRecord]) -> Listing:
    level, stage, *columns = stored
    if len(columns) == 1:
        return Listing(
            level, stage, records=tuple([records[n] for n in cast("list[int]", columns[0])]), printer=lines_of_tile
        )
    texts, where, ops = columns
    rows: list[tuple[str, list[int], list[int]]] = list(zip(texts, where, ops, strict=True))
    return Listing(level, stage, tuple(Line(text, tuple(spans[i] for i in at), tuple(made)) for text, at, made in rows))


def _encode(value: object, place: Place) -> object:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case tuple():
            return [_encode(item, place) for item in cast("tuple[object, ...]", value)]
        case DType():
            return {"dtype": value.name}
        case Span():
            return {"span": _relative(value, place.span)}
        case Source():
            return None
        case Mapping():
            items = cast("Mapping[str, object]", value).items()
            return {"map": {key: _encode(item, place) for key, item in items}}
        case _:
            kind = type(value).__name__
            if _CLASSES.get(kind) is not type(value):
                raise TypeError(f"{kind} cannot be stored")
            return {"is": kind, **{f.name: _encode(getattr(value, f.name), place) for f in fields(_CLASSES[kind])}}


def _decode(stored: Any, place: Place) -> Any:
    if isinstance(stored, list):
        return tuple(_decode(item, place) for item in cast("list[Any]", stored))
    if not isinstance(stored, dict):
        return stored
    table = cast("dict[str, Any]", stored)
    if "is" in table:
        kind = _CLASSES[table.pop("is")]
        return kind(**{key: _decode(item, place) for key, item in table.items()})
    if "dtype" in table:
        return BY_NAME[table["dtype"]]
    if "span" in table:
        return _absolute(table["span"], place.span)
    return {key: _decode(item, place) for key, item in table["map"].items()}


def _relative(span: Span, origin: Span) -> list[object]:
    if span.file != origin.file:
        return [span.file, span.line, span.column, span.end_line, span.end_column]
    return [None, span.line - origin.line, span.column, span.end_line - origin.line, span.end_column]


def _absolute(stored: list[Any], origin: Span) -> Span:
    file, line, column, end_line, end_column = stored
    if file is not None:
        return Span(file, line, column, end_line, end_column)
    return Span(origin.file, line + origin.line, column, end_line + origin.line, end_column)
