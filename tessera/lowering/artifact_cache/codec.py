"""Artifacts, listings and pass records as JSON, and back: what the disk cache holds.

Nothing that is read back can name a class that is not in the table below, so a damaged or forged entry can be refused
but can run nothing (the machine code aside, which the checksum guards).  Spans are written relative to the kernel's
first line: an entry made from one cell serves the same kernel in another.
"""

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Final, TypeVar, cast

from tessera.core.artifact import Artifact, Binding, LaunchRule, Remark, Resources, Slot, TensorMap
from tessera.core.base.dtypes import BY_NAME, DType
from tessera.core.base.source import Source, Span
from tessera.core.compilation import Compilation
from tessera.core.events import Attempted, PassRan
from tessera.core.listing import NO_ADDRESS, Line, Listing
from tessera.core.program.types import Array, Scalar
from tessera.core.record import OpRecord
from tessera.core.resources import Buffers
from tessera.core.targets import Target
from tessera.core.tile.text import lines_of_tile
from tessera.lowering.artifact_cache.record_codec import Json, RecordTable, integers, items, texts, unpack_rows

T = TypeVar("T")

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
    """The kernel's present place: its source and the span of its definition."""

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
        stored = {name: _decode(value, place) for name, value in json.loads(data).items()}
        return _made(Artifact, stored | {"code": code, "source": place.source, "span": place.span})
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise Malformed(str(error)) from error


def pack_levels(compilation: Compilation) -> bytes:
    """Return listings and pass records, compressed; empty where none were asked for."""
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
        spans = [_absolute(span["span"], place.span) for span in document["spans"]]
        records = unpack_rows(document["records"], spans)
        listings = tuple(_unpack_listing(listing, spans, records) for listing in document["listings"])
        return listings, tuple(_pass_of(_decode(record, place)) for record in document["passes"])
    except (ValueError, TypeError, KeyError, IndexError, zlib.error) as error:
        raise Malformed(str(error)) from error


def _pack_listing(listing: Listing, spans: dict[Span, int], table: RecordTable) -> list[object]:
    if listing.printer is not None:
        return [listing.level, listing.stage, table.numbers(listing.records)]
    # Columns, not rows: a quarter of the size and of the time.
    where = [[spans.setdefault(span, len(spans)) for span in line.spans] for line in listing.lines]
    texts, ops = [line.text for line in listing.lines], [line.ops for line in listing.lines]
    addresses = [line.address for line in listing.lines]
    return [
        listing.level,
        listing.stage,
        texts,
        where,
        ops,
        addresses if any(n != NO_ADDRESS for n in addresses) else [],
    ]


def _unpack_listing(stored: Json, spans: list[Span], records: list[OpRecord]) -> Listing:
    match stored:
        case [str(level), str(stage), numbers]:
            return Listing(level, stage, records=tuple([records[n] for n in integers(numbers)]), printer=lines_of_tile)
        case [str(level), str(stage), lines, where, ops, addresses]:
            printed = texts(lines)
            offsets = integers(addresses) or [NO_ADDRESS] * len(printed)
            rows = zip(printed, map(integers, items(where)), map(integers, items(ops)), offsets, strict=True)
            listed = tuple(
                Line(text, tuple(spans[i] for i in at), tuple(made), address=place) for text, at, made, place in rows
            )
            return Listing(level, stage, listed)
        case _:
            raise Malformed("a listing of another form")


def _pass_of(value: object) -> PassRan:
    if isinstance(value, PassRan):
        return value
    raise Malformed(f"{value!r} is no record of a pass")


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


def _decode(stored: Json, place: Place) -> object:
    match stored:
        case list():
            return tuple(_decode(item, place) for item in stored)
        case {"is": str(name), **rest}:
            return _made(_CLASSES[name], {key: _decode(item, place) for key, item in rest.items()})
        case {"dtype": str(name)}:
            return BY_NAME[name]
        case {"span": span}:
            return _absolute(span, place.span)
        case {"map": dict(mapping)}:
            return {key: _decode(item, place) for key, item in mapping.items()}
        case dict():
            raise Malformed(f"{stored!r} is nothing that is stored")
        case _:
            return stored


def _made(kind: Callable[..., T], values: Mapping[str, object]) -> T:
    """Make an instance of a class of the table from its fields, whose types its text gives no promise of."""
    return kind(**values)


def _relative(span: Span, origin: Span) -> list[object]:
    if span.file != origin.file:
        return [span.file, span.line, span.column, span.end_line, span.end_column]
    return [None, span.line - origin.line, span.column, span.end_line - origin.line, span.end_column]


def _absolute(stored: Json, origin: Span) -> Span:
    match stored:
        case [None, int(line), int(column), int(end_line), int(end_column)]:
            return Span(origin.file, line + origin.line, column, end_line + origin.line, end_column)
        case [str(file), int(line), int(column), int(end_line), int(end_column)]:
            return Span(file, line, column, end_line, end_column)
        case _:
            raise Malformed(f"{stored!r} is no span")
