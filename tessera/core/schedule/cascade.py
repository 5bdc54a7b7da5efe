"""Fused reductions over one axis: the algebra of one loop that computes several reductions which use each other.

A `Region` says what is to be computed, a `Cascade` how: which sums a loop carries, how two partial results are merged,
and what the reductions are in terms of what is carried.  `lowering/schedule/cascades/derive.py` makes one of the other.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from tessera.core.base.dtypes import DType
from tessera.core.graph.expr import Expr, to_text

ReductionKind: TypeAlias = Literal["sum", "max", "min", "map"]


@dataclass(frozen=True, slots=True)
class Reduction:
    """One reduction over the axis, of a scalar expression.

    body: over the region's arguments (see `Region`)
    kind: "map" reduces nothing: an elementwise function of earlier results, which counts as a result
    """

    kind: ReductionKind
    body: Expr


@dataclass(frozen=True, slots=True)
class Region:
    """Reductions over one axis, in an order in which each uses earlier ones only.

    atoms: types of the elements that bodies see.  In a body `Argument(n)` with n < len(atoms) is atom n, and
        `Argument(len(atoms) + r)` the result of the earlier reduction r.
    invariant: numbers of the atoms that do not vary along the axis (a scale per head, the logit of a sink)
    ranges: what is known of atoms: pairs (least, greatest) by number
    extent: number of elements along the axis where it is known
    weight_bits: 16 where exponentials are rounded to f16 for a product, whose exponents are few: others have f32's
    """

    atoms: tuple[DType, ...]
    reductions: tuple[Reduction, ...]
    invariant: frozenset[int] = frozenset()
    ranges: tuple[tuple[int, tuple[float, float]], ...] = ()
    extent: int | None = None
    weight_bits: int = 64


@dataclass(frozen=True, slots=True)
class Moment:
    """A sum that the loop carries: `sum_j [indicator] payload * (atom - centre)^power ... * exp(exponent - anchor)`.

    payload: over atoms, of the type that is summed in
    centred: pairs (number of a centre, power >= 1)
    indicator: a condition over atoms; elements for which it does not hold do not count.  None: all count
    anchor: the number of the anchor whose exponent this moment has; None where there is no exponential
    """

    payload: Expr
    centred: tuple[tuple[int, int], ...] = ()
    indicator: Expr | None = None
    anchor: int | None = None

    @property
    def dtype(self) -> DType:
        """The type in which it is summed."""
        return self.payload.dtype


@dataclass(frozen=True, slots=True)
class Anchor:
    """The number that is subtracted from an exponent: its running maximum over visible elements, or a constant.

    Any value is correct, so a running one may lag behind the maximum, but where an `Extremum` says that it is this
    anchor.  Elements whose exponent is -inf are not visible.  While nothing was visible it is carried as -inf, and
    where it is subtracted, and in `Cascade.lower`, it is 0.

    exponent: over atoms
    indicator: a condition over atoms, of visible elements; None: all are
    constant: the anchor, where bounds of the exponent allow one
    """

    exponent: Expr
    indicator: Expr | None = None
    constant: float | None = None


@dataclass(frozen=True, slots=True)
class Centre:
    """The number that is subtracted from an atom before it is raised to powers.

    atom: an expression over atoms
    count: the number of the moment that counts the visible elements, for a running mean; None for an anchor's
    anchor: the number of the anchor that is the centre; None for the running mean (0 while nothing was visible)
    indicator: a condition over atoms, of the elements that the mean is of; None: all
    """

    atom: Expr
    count: int | None
    anchor: int | None = None
    indicator: Expr | None = None


@dataclass(frozen=True, slots=True)
class Extremum:
    """A maximum or minimum whose value is needed; -inf or inf while there is no element.

    anchor: the number of the anchor that is this maximum, so that it is carried once: the anchor is this value, or 0
        where this is -inf.  None: it is carried by itself
    bounded: the number of the constant anchor that stands for this maximum in exponents
    """

    kind: Literal["max", "min"]
    body: Expr
    anchor: int | None = None
    bounded: int | None = None


@dataclass(frozen=True, slots=True)
class Numbering:
    """The arguments of `Cascade.lower`, in this order: moments, anchors, centres, extrema, atoms (invariant ones)."""

    moments: int
    anchors: int
    centres: int
    extrema: int

    def moment(self, number: int) -> int:
        """Return the argument that is a moment."""
        return number

    def anchor(self, number: int) -> int:
        """Return the argument that is an anchor."""
        return self.moments + number

    def centre(self, number: int) -> int:
        """Return the argument that is a centre."""
        return self.moments + self.anchors + number

    def extremum(self, number: int) -> int:
        """Return the argument that is an extremum."""
        return self.moments + self.anchors + self.centres + number

    def atom(self, number: int) -> int:
        """Return the argument that is an atom, one that does not vary along the axis."""
        return self.moments + self.anchors + self.centres + self.extrema + number


@dataclass(frozen=True, slots=True)
class Cascade:
    """One loop: what it carries, and what the reductions are once it is done.

    lower: an expression for each reduction (see `Numbering`); None for those that are not needed
    """

    region: Region
    moments: tuple[Moment, ...]
    anchors: tuple[Anchor, ...]
    centres: tuple[Centre, ...]
    extrema: tuple[Extremum, ...]
    lower: tuple[Expr | None, ...]

    @property
    def numbering(self) -> Numbering:
        """How the arguments of `lower` are numbered."""
        return Numbering(len(self.moments), len(self.anchors), len(self.centres), len(self.extrema))

    def describe(self, names: Sequence[str] = ()) -> str:
        """Return the algebra as people write it, a line for each thing; names: of atoms."""
        return "\n".join(_lines(self, names))


@dataclass(frozen=True, slots=True)
class Move:
    """A part of a moment after its centres moved: `weight * prod (old - new)^power * moment`."""

    weight: int
    powers: tuple[tuple[int, int], ...]
    moment: int


def moves(cascade: Cascade, number: int) -> tuple[Move, ...]:
    """Return what moment `number` is made of after its centres moved: the binomial theorem, a centre at a time.

    The payload exp(old anchor - new anchor) is common to all parts.
    """
    mine = cascade.moments[number]
    found = {
        (each.payload, each.indicator, each.anchor, each.centred): place for place, each in enumerate(cascade.moments)
    }
    parts: list[tuple[int, tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]] = [(1, (), ())]
    for centre, power in mine.centred:
        parts = [
            (
                weight * math.comb(power, kept),
                (*moved, (centre, power - kept)) if power > kept else moved,
                (*left, (centre, kept)) if kept else left,
            )
            for weight, moved, left in parts
            for kept in range(power + 1)
        ]
    return tuple(
        Move(weight, moved, found[mine.payload, mine.indicator, mine.anchor, left]) for weight, moved, left in parts
    )


_SUPERSCRIPTS: Final = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def _lines(cascade: Cascade, names: Sequence[str]) -> Iterator[str]:
    text = [name for name, _ in zip(names, cascade.region.atoms, strict=False)]
    state = argument_names(cascade, names)
    numbers = cascade.numbering
    for place, moment in enumerate(cascade.moments):
        yield f"{state[place]} = {_moment(cascade, moment, text, state)}"
    for place, anchor in enumerate(cascade.anchors):
        how = (
            f"{anchor.constant:g}"
            if anchor.constant is not None
            else "running max of " + to_text(anchor.exponent, text)
        )
        yield f"{state[numbers.anchor(place)]} = {how}{_where(anchor.indicator, text)}"
    for place, centre in enumerate(cascade.centres):
        how = (
            f"running mean of {to_text(centre.atom, text)}{_where(centre.indicator, text)}"
            if centre.anchor is None
            else state[numbers.anchor(centre.anchor)]
        )
        yield f"{state[numbers.centre(place)]} = {how}"
    for place, extremum in enumerate(cascade.extrema):
        how = f"{extremum.kind}_j {to_text(extremum.body, text)}"
        same = "" if extremum.anchor is None else f", which is {state[numbers.anchor(extremum.anchor)]}"
        yield f"{state[numbers.extremum(place)]} = {how}{same}"
    for place, lower in enumerate(cascade.lower):
        if lower is not None:
            yield f"r{place} = {to_text(lower, state)}"


def argument_names(cascade: Cascade, names: Sequence[str] = ()) -> tuple[str, ...]:
    """Return names of the arguments of `Cascade.lower`: M0, c0, mean0, max0, and those of atoms."""
    atoms = [names[n] if n < len(names) else f"x{n}" for n in range(len(cascade.region.atoms))]
    return (
        *(f"M{n}" for n in range(len(cascade.moments))),
        *(f"c{n}" for n in range(len(cascade.anchors))),
        *(f"mean{n}" if each.anchor is None else f"centre{n}" for n, each in enumerate(cascade.centres)),
        *(f"{each.kind}{n}" for n, each in enumerate(cascade.extrema)),
        *atoms,
    )


def _moment(cascade: Cascade, moment: Moment, names: Sequence[str], state: Sequence[str]) -> str:
    numbers = cascade.numbering
    parts: list[str] = []
    payload = to_text(moment.payload, names)
    if payload != "1.0" or not (moment.centred or moment.anchor is not None):
        parts.append(payload)
    for centre, power in moment.centred:
        atom = to_text(cascade.centres[centre].atom, names)
        raised = str(power).translate(_SUPERSCRIPTS) if power > 1 else ""
        parts.append(f"({atom} - {state[numbers.centre(centre)]}){raised}")
    if moment.anchor is not None:
        exponent = to_text(cascade.anchors[moment.anchor].exponent, names)
        parts.append(f"exp({exponent} - {state[numbers.anchor(moment.anchor)]})")
    return f"sum_j {' * '.join(parts)}{_where(moment.indicator, names)}"


def _where(indicator: Expr | None, names: Sequence[str]) -> str:
    return "" if indicator is None else f" where {to_text(indicator, names)}"
