"""The algebra of a cascade, row by row: what the loop carries, what it begins with, how states merge, what comes out.

softmax(S) V: M0 = sum_j exp(S - c0), M1 = sum_j V * exp(S - c0), c0 = running max of S
merge:        c0 = max(c0', c0''), M0 = M0' * exp(c0' - c0) + M0'' * exp(c0'' - c0)
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from tessera.core.graph.expr import Expr, arguments
from tessera.core.schedule.cascade import Anchor, Cascade, Moment, argument_names, moves

Section: TypeAlias = Literal["carried", "begins with", "merge", "result"]
SECTIONS: Final[tuple[Section, ...]] = ("carried", "begins with", "merge", "result")
_SUPERSCRIPTS: Final = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True, slots=True)
class AlgebraRow:
    """One equation.  reductions: numbers of the region's reductions that it comes from."""

    section: Section
    symbol: str
    text: str
    reductions: tuple[int, ...] = ()


def algebra_rows(cascade: Cascade, names: Sequence[str] = ()) -> tuple[AlgebraRow, ...]:
    """Return the algebra of a cascade.  names: of its atoms."""
    state = argument_names(cascade, names)
    origins = state_origins(cascade)
    told = [line.partition(" = ") for line in cascade.describe(names).split("\n")]
    rows = [
        AlgebraRow("carried", symbol, text, (origins[place],))
        for place, (symbol, _, text) in enumerate(told[: len(origins)])
    ]
    for place, row in enumerate(list(rows)):
        rows.append(AlgebraRow("begins with", row.symbol, _initial(cascade, place), row.reductions))
    for place, text in enumerate(_merges(cascade, state)):
        rows.append(AlgebraRow("merge", state[place], text, (origins[place],)))
    for symbol, _, text in told[len(origins) :]:
        rows.append(AlgebraRow("result", symbol, text, (int(symbol[1:]),)))
    order = {section: number for number, section in enumerate(SECTIONS)}
    return tuple(sorted(rows, key=lambda row: order[row.section]))


def state_origins(cascade: Cascade) -> tuple[int, ...]:
    """Return the reduction that each part of the state comes from: moments, anchors, centres, extrema.

    It is the first one of its kind whose body has all that the part is made of.
    """
    sums, tops = ("sum",), ("max", "min")
    return (
        *(_first(cascade, _moment_atoms(cascade, moment), sums) for moment in cascade.moments),
        *(_first(cascade, arguments(anchor.exponent), tops) for anchor in cascade.anchors),
        *(_first(cascade, arguments(centre.atom), sums) for centre in cascade.centres),
        *(_first(cascade, arguments(extremum.body), tops) for extremum in cascade.extrema),
    )


def _moment_atoms(cascade: Cascade, moment: Moment) -> set[int]:
    expressions: list[Expr] = [moment.payload, *(cascade.centres[number].atom for number, _ in moment.centred)]
    if moment.anchor is not None:
        expressions.append(cascade.anchors[moment.anchor].exponent)
    return {number for each in expressions for number in arguments(each)}


def _first(cascade: Cascade, atoms: Collection[int], kinds: Collection[str]) -> int:
    """Return the first reduction of a kind that has these atoms, else the first of any kind, else the last."""
    reductions = cascade.region.reductions
    having = [n for n, each in enumerate(reductions) if set(atoms) <= set(arguments(each.body))]
    alike = [n for n in having if reductions[n].kind in kinds]
    return (alike or having or [len(reductions) - 1])[0]


def _initial(cascade: Cascade, place: int) -> str:
    numbers = cascade.numbering
    if place < numbers.moments:
        return "0"
    place -= numbers.moments
    if place < numbers.anchors:
        constant = cascade.anchors[place].constant
        return "-inf: nothing was visible" if constant is None else f"{constant:g}"
    place -= numbers.anchors
    if place < numbers.centres:
        return "0"
    return "-inf" if cascade.extrema[place - numbers.centres].kind == "max" else "inf"


def _merges(cascade: Cascade, state: Sequence[str]) -> Iterator[str]:
    """Yield how each part of the state comes out of those of two parts of the axis, ' and ''."""
    numbers = cascade.numbering
    for place in range(len(cascade.moments)):
        yield " + ".join(_moved(cascade, place, state, side) for side in ("'", "''"))
    for place, anchor in enumerate(cascade.anchors):
        yield _greatest(state[numbers.anchor(place)], anchor)
    for place, centre in enumerate(cascade.centres):
        mine = state[numbers.centre(place)]
        if centre.anchor is not None or centre.count is None:
            yield state[numbers.anchor(centre.anchor or 0)]
            continue
        count = state[numbers.moment(centre.count)]
        yield f"({count}' * {mine}' + {count}'' * {mine}'') / ({count}' + {count}'')"
    for place, extremum in enumerate(cascade.extrema):
        mine = state[numbers.extremum(place)]
        yield f"{extremum.kind}({mine}', {mine}'')"


def _greatest(symbol: str, anchor: Anchor) -> str:
    return f"max({symbol}', {symbol}'')" if anchor.constant is None else f"{anchor.constant:g}, always"


def _moved(cascade: Cascade, place: int, state: Sequence[str], side: str) -> str:
    """Return one part's share of a moment: after its centres moved, relative to the new anchor."""
    numbers = cascade.numbering
    anchor = cascade.moments[place].anchor
    parts: list[str] = []
    for move in moves(cascade, place):
        multiplied = [f"{move.weight}"] if move.weight != 1 else []
        for centre, power in move.powers:
            mine = state[numbers.centre(centre)]
            multiplied.append(f"({mine}{side} - {mine}){str(power).translate(_SUPERSCRIPTS) if power > 1 else ''}")
        parts.append(" * ".join([*multiplied, f"{state[numbers.moment(move.moment)]}{side}"]))
    text = " + ".join(parts)
    if anchor is None or cascade.anchors[anchor].constant is not None:
        return text
    symbol = state[numbers.anchor(anchor)]
    whole = f"({text})" if len(parts) > 1 else text
    return f"{whole} * exp({symbol}{side} - {symbol})"
