"""Locations of the IR: which operation of the kernel, and which place of the user's text, something came from.

An operation made from operation 17 of a Program carries `loc("op17"("cell.py":3:5 to 3:9))`; several of them fused
carry a FusedLoc.  Columns of a location are 1-based and the end is exclusive, as in `Span`.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from tessera.core.base.source import NOWHERE, Span
from tessera.core.mlir import ir

Origins = tuple[tuple[int, ...], tuple[Span, ...]]
"""Numbers of operations, and places of the text."""
_IDENTITY: Final = re.compile(r"op(\d+)\Z")


def place(span: Span) -> ir.Location:
    """The location of a span, unknown for NOWHERE."""
    if span == NOWHERE:
        return ir.Location.unknown()
    return ir.Location.file(span.file, span.line, span.column, span.end_line, span.end_column)


def origin(identity: int, span: Span) -> ir.Location:
    """The location of operation number `identity` of the kernel, written at `span`."""
    return ir.Location.name(f"op{identity}", place(span))


def named(name: str, span: Span) -> ir.Location:
    """The location of a block argument: the user's variable, and where it is bound."""
    return ir.Location.name(name, place(span)) if name else place(span)


def identities(location: ir.Location) -> tuple[int, ...]:
    """The numbers of the kernel's operations that `location` names, in order, each once."""
    return origins(location)[0]


def spans(location: ir.Location) -> tuple[Span, ...]:
    """The places of the user's text that `location` names, in order, each once."""
    return origins(location)[1]


def origins(location: ir.Location) -> Origins:
    """Both: the kernel's operations and the places of the user's text that `location` names."""
    # Thousands of operations have the same few; a context has one attribute for all locations that are the same.
    known, attribute = _known(location.context), location.attr
    found = known.get(attribute)
    if found is None:
        parts = list(_parts(location))
        numbers = [int(m[1]) for part in parts if (m := _match(part)) is not None]
        places = [_span(part) for part in parts if isinstance(part, ir.FileLineColLoc)]
        found = known[attribute] = tuple(dict.fromkeys(numbers)), tuple(dict.fromkeys(places))
    return found


@lru_cache(maxsize=1)
def _known(_context: ir.Context) -> dict[ir.Attribute, Origins]:
    """Return what locations of a context have been found to name; forgotten with the context, which ends some time."""
    return {}


def name_of(location: ir.Location) -> str:
    """The variable a block argument's location names, or an empty string."""
    return str(location.name_str) if isinstance(location, ir.NameLoc) else ""


def _match(part: ir.Location) -> re.Match[str] | None:
    return _IDENTITY.match(str(part.name_str)) if isinstance(part, ir.NameLoc) else None


def _parts(location: ir.Location) -> Iterator[ir.Location]:
    """Every location inside `location`, outer before inner."""
    if type(location) is ir.Location:  # a diagnostic's: the bindings do not say which kind it is
        location = ir.Location.from_attr(location.attr)
    yield location
    if isinstance(location, ir.NameLoc):
        yield from _parts(location.child_loc)
    elif isinstance(location, ir.FusedLoc):
        for inner in location.locations:
            yield from _parts(inner)
    elif isinstance(location, ir.CallSiteLoc):
        yield from _parts(location.callee)
        yield from _parts(location.caller)


def _span(part: ir.FileLineColLoc) -> Span:
    return Span(str(part.filename), part.start_line, part.start_col, part.end_line, part.end_col)
