"""Symbols for what a loop carries, and their numbers once it is known which of them are used."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Final

from tessera.core.base.dtypes import DType
from tessera.core.graph.expr import Argument, Expr, arguments, substitute, walk
from tessera.core.schedule.cascade import Anchor, Cascade, Centre, Extremum, Moment, Region

_SECTION: Final = 1 << 20  # symbols of one kind have numbers of one section
_MOMENTS, _ANCHORS, _CENTRES, _EXTREMA, _ATOMS = range(5)


def moment_symbol(number: int, dtype: DType) -> Argument:
    """Return the symbol of a moment."""
    return Argument(_MOMENTS * _SECTION + number, dtype)


def anchor_symbol(number: int, dtype: DType) -> Argument:
    """Return the symbol of an anchor."""
    return Argument(_ANCHORS * _SECTION + number, dtype)


def centre_symbol(number: int, dtype: DType) -> Argument:
    """Return the symbol of a centre that is a running mean."""
    return Argument(_CENTRES * _SECTION + number, dtype)


def extremum_symbol(number: int, dtype: DType) -> Argument:
    """Return the symbol of a maximum or minimum."""
    return Argument(_EXTREMA * _SECTION + number, dtype)


def atom_symbol(number: int, dtype: DType) -> Argument:
    """Return the symbol of an atom that does not vary along the axis."""
    return Argument(_ATOMS * _SECTION + number, dtype)


def extrema_in(expressions: Iterable[Expr | None]) -> set[int]:
    """Return the numbers of the extrema that expressions use."""
    return _used(expressions, _EXTREMA)


def _used(expressions: Iterable[Expr | None], section: int) -> set[int]:
    found = {number for each in expressions if each is not None for number in arguments(each)}
    return {number % _SECTION for number in found if number // _SECTION == section}


@dataclass(frozen=True, slots=True)
class State:
    """Everything that might be carried; places are the numbers of symbols."""

    moments: tuple[Moment, ...]
    anchors: tuple[Anchor, ...]
    centres: tuple[Centre, ...]
    extrema: tuple[Extremum, ...]


def compact(region: Region, state: State, kept_extrema: set[int], lower: tuple[Expr | None, ...]) -> Cascade:
    """Return the cascade that carries what `lower` uses, and what that needs."""
    centres = _used(lower, _CENTRES)
    moments = _closed(state, _used(lower, _MOMENTS), centres)
    anchors = _used(lower, _ANCHORS)
    anchors |= {each.anchor for place in moments if (each := state.moments[place]).anchor is not None}  # pyright: ignore[reportAssignmentType]
    anchors |= {each.anchor for place in centres if (each := state.centres[place]).anchor is not None}  # pyright: ignore[reportAssignmentType]
    anchors |= {each.anchor for place in kept_extrema if (each := state.extrema[place]).anchor is not None}  # pyright: ignore[reportAssignmentType]
    places = [{old: new for new, old in enumerate(sorted(each))} for each in (moments, anchors, centres, kept_extrema)]
    cascade = Cascade(
        region,
        tuple(_moment(state.moments[old], places) for old in places[_MOMENTS]),
        tuple(state.anchors[old] for old in places[_ANCHORS]),
        tuple(_centre(state.centres[old], places) for old in places[_CENTRES]),
        tuple(_extremum(state.extrema[old], places) for old in places[_EXTREMA]),
        (),
    )
    return replace(cascade, lower=tuple(None if each is None else _numbered(each, cascade, places) for each in lower))


def _closed(state: State, moments: set[int], centres: set[int]) -> set[int]:
    """Return moments with those of lower powers and the counts of means; adds to `centres`."""
    place_of = {moment: place for place, moment in enumerate(state.moments)}
    pending = list(moments)
    found: set[int] = set()
    while pending:
        place = pending.pop()
        if place in found:
            continue
        found.add(place)
        moment = state.moments[place]
        for index, (centre, power) in enumerate(moment.centred):
            lowered = ((centre, power - 1),) if power > 1 else ()
            centred = (*moment.centred[:index], *lowered, *moment.centred[index + 1 :])
            pending.append(place_of[replace(moment, centred=centred)])
            centres.add(centre)
    for centre in centres:
        count = state.centres[centre].count
        if count is not None:
            found.add(count)
    return found


def _moment(moment: Moment, places: list[dict[int, int]]) -> Moment:
    centred = tuple((places[_CENTRES][centre], power) for centre, power in moment.centred)
    return replace(moment, centred=centred, anchor=None if moment.anchor is None else places[_ANCHORS][moment.anchor])


def _centre(centre: Centre, places: list[dict[int, int]]) -> Centre:
    count = None if centre.count is None else places[_MOMENTS][centre.count]
    return replace(centre, count=count, anchor=None if centre.anchor is None else places[_ANCHORS][centre.anchor])


def _extremum(extremum: Extremum, places: list[dict[int, int]]) -> Extremum:
    return replace(extremum, anchor=None if extremum.anchor is None else places[_ANCHORS][extremum.anchor])


def _numbered(expr: Expr, cascade: Cascade, places: list[dict[int, int]]) -> Expr:
    numbers = cascade.numbering
    name = (numbers.moment, numbers.anchor, numbers.centre, numbers.extremum)
    values: dict[int, Expr] = {}
    for each in walk(expr):
        if isinstance(each, Argument):
            section, old = divmod(each.number, _SECTION)
            new = numbers.atom(old) if section == _ATOMS else name[section](places[section][old])
            values[each.number] = Argument(new, each.dtype)
    return substitute(expr, values)
