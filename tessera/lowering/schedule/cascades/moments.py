"""Plan the state of a loop for reductions in normal form: moments, their anchors, and centres of polynomials."""

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tessera.core.base.dtypes import DType
from tessera.core.graph.expr import Expr, cast
from tessera.core.schedule.cascade import Anchor, Centre, Moment
from tessera.lowering.schedule.cascades.intervals import SAFE_WIDTH, Interval, interval
from tessera.lowering.schedule.cascades.normal_form import Normalizer, Uses
from tessera.lowering.schedule.cascades.rebuild import accumulated_in, all_of, linear_of, number, product_of
from tessera.lowering.schedule.cascades.terms import Linear, NormalForm, Powers, Term, rates, scale_linear, shifted_by

_MOVED_TOGETHER: Final = 3  # results that an atom is compared with at once

Indicator = tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Sum:
    """A sum reduction in normal form.

    used: whether later bodies use its result, so that it may normalise theirs
    """

    number: int
    terms: NormalForm
    dtype: DType
    used: bool


@dataclass(frozen=True, slots=True)
class AnchorKey:
    """The identity of an anchor: of which exponent, over which elements, in which type."""

    exponent: Linear
    indicator: Indicator
    dtype: DType


@dataclass(frozen=True, slots=True)
class CentreKey:
    """The identity of a centre: of which atom, for moments with which exponent; anchor: that of the exponent, if so."""

    atom: Expr
    indicator: Indicator
    anchor: AnchorKey | None
    dtype: DType


@dataclass(frozen=True, slots=True)
class MomentKey:
    """The identity of a moment."""

    payload: Powers
    centred: tuple[tuple[CentreKey, int], ...]
    indicator: Indicator
    anchor: AnchorKey | None
    dtype: DType


@dataclass
class Plan:
    """Everything that is carried, each once; numbers are places."""

    normalizer: Normalizer
    ranges: Mapping[int, Interval]
    sums: Sequence[Sum]
    weight_bits: int = 64
    families: dict[tuple[Expr, Linear], CentreKey] = field(default_factory=dict)  # pyright: ignore[reportUnknownVariableType]
    moments: dict[MomentKey, int] = field(default_factory=dict)  # pyright: ignore[reportUnknownVariableType]
    anchors: dict[AnchorKey, int] = field(default_factory=dict)  # pyright: ignore[reportUnknownVariableType]
    centres: dict[CentreKey, int] = field(default_factory=dict)  # pyright: ignore[reportUnknownVariableType]
    groups: dict[tuple[Linear, DType], list[Indicator]] = field(default_factory=dict)  # pyright: ignore[reportUnknownVariableType]

    def anchor_of(self, term: Term, dtype: DType) -> AnchorKey | None:
        """Return the anchor of a term: that of the fewest elements among those that hold all of the term's."""
        if not term.exponent:
            return None
        holders = [each for each in self.groups[term.exponent, dtype] if set(each) <= set(term.indicator)]
        return AnchorKey(term.exponent, max(holders, key=len), dtype)

    def moment_of(self, term: Term, dtype: DType) -> MomentKey:
        """Return the moment of a term; powers of atoms that have a centre are powers of the difference."""
        payload: list[tuple[Expr, float]] = []
        centred: list[tuple[CentreKey, int]] = []
        for atom, power in term.atoms:
            centre = self.families.get((atom, term.exponent))
            if centre is None or power < 0 or not float(power).is_integer():
                payload.append((atom, power))
            else:
                centred.append((centre, int(power)))
        return MomentKey(tuple(payload), tuple(centred), term.indicator, self.anchor_of(term, dtype), dtype)

    def add(self, key: MomentKey) -> int:
        """Return the number of a moment, with what it needs: lower powers, its anchor, centres and their counts."""
        if key in self.moments:
            return self.moments[key]
        self.moments[key] = len(self.moments)
        if key.anchor is not None:
            self.anchors.setdefault(key.anchor, len(self.anchors))
        for place, (centre, power) in enumerate(key.centred):
            if centre not in self.centres:
                self.centres[centre] = len(self.centres)
                if centre.anchor is None:
                    self.add(MomentKey((), (), centre.indicator, None, centre.dtype))
            rest = (*key.centred[:place], *(((centre, power - 1),) if power > 1 else ()), *key.centred[place + 1 :])
            self.add(MomentKey(key.payload, rest, key.indicator, key.anchor, key.dtype))
        return self.moments[key]

    def invariant_pairs(self, terms: NormalForm) -> Iterator[tuple[Expr, Mapping[Expr, float]]]:
        """Yield atoms with the results that they may be moved together with: the terms depend on differences only.

        Each result has the rate at which it moves: the sum of n elements moves n times as far as each of them.
        """
        atoms = {atom: None for term in terms for atom, power in term.atoms if power > 0 and float(power).is_integer()}
        results = self._results(terms)
        for atom in atoms:
            slopes = self.slopes(terms, atom)
            if slopes is None:
                continue
            for count in range(1, min(len(results), _MOVED_TOGETHER) + 1):
                moved = next(
                    (
                        each
                        for chosen in itertools.combinations(results, count)
                        for each in _rated(terms, atom, chosen)
                        if not shifted_by(terms, atom, each, slopes)
                    ),
                    None,
                )
                if moved is not None:
                    yield atom, moved
                    break

    def _results(self, terms: NormalForm) -> list[Expr]:
        powers = [key for term in terms for key in (term.parameters, *(key for key, _ in term.shift))]
        found = {expr: None for key in powers for expr, _ in key}
        return [expr for expr in found if Uses.RESULTS in self.normalizer.uses(expr)]

    def slopes(self, terms: NormalForm, atom: Expr) -> dict[Linear, float] | None:
        """Return how each exponent grows with `atom`; None where one depends on it in another way."""
        found: dict[Linear, float] = {}
        mine = self.normalizer.linear(atom)
        for exponent in {term.exponent for term in terms if term.exponent}:
            slope = _ratio(exponent, mine)
            if slope is not None:
                found[exponent] = slope
            elif _mentions(exponent, atom) or any(_mentions(exponent, each) for key, _ in mine for each, _ in key):
                return None
        return found


def _rated(terms: NormalForm, atom: Expr, results: Sequence[Expr]) -> Iterator[dict[Expr, float]]:
    """Yield results with the rates at which they may move."""
    for each in itertools.product(*(rates(terms, atom, result) for result in results)):
        yield dict(zip(results, each, strict=True))


def _mentions(exponent: Linear, atom: Expr) -> bool:
    return any(expr == atom for key, _ in exponent for expr, _ in key)


def _ratio(exponent: Linear, atom: Linear) -> float | None:
    """Return a where `exponent` is `a * atom`; None where it is no multiple of it."""
    if not exponent or not atom:
        return None
    ratio = exponent[0][1] / atom[0][1]
    return ratio if exponent == scale_linear(atom, ratio) else None


def plan_moments(
    normalizer: Normalizer, sums: Sequence[Sum], ranges: Mapping[int, Interval], weight_bits: int = 64
) -> Plan:
    """Return what is carried for `sums`."""
    plan = Plan(normalizer, ranges, sums, weight_bits)
    _group_anchors(plan)
    _find_centres(plan)
    for each in sums:
        for term in each.terms:
            plan.add(plan.moment_of(term, accumulated_in(each.dtype)))
    return plan


def _group_anchors(plan: Plan) -> None:
    """Decide which elements the maxima are of.

    A maximum over elements that do not count lets those that do underflow, so a sum that others are divided by has a
    maximum of its own elements; sums of fewer elements that are divided by it share that.
    """
    for used in (True, False):
        for each in plan.sums:
            if each.used != used:
                continue
            for term in each.terms:
                if not term.exponent:
                    continue
                groups = plan.groups.setdefault((term.exponent, accumulated_in(each.dtype)), [])
                held = any(set(group) <= set(term.indicator) for group in groups)
                if term.indicator not in groups and (used or not held):
                    groups.append(term.indicator)


def _find_centres(plan: Plan) -> None:
    """Decide which atoms are centred, for which exponents, and over which elements the mean is taken."""
    wanted: dict[tuple[Expr, Linear], DType] = {}
    for each in plan.sums:
        for atom, _ in plan.invariant_pairs(each.terms):
            for term in each.terms:
                wanted.setdefault((atom, term.exponent), accumulated_in(each.dtype))
    for (atom, exponent), dtype in wanted.items():
        users = [
            term
            for each in plan.sums
            for term in each.terms
            if term.exponent == exponent and any(expr == atom for expr, _ in term.atoms)
        ]
        common = users[0].indicator if users else ()
        common = tuple(each for each in common if all(each in term.indicator for term in users))
        anchor = None
        if exponent and exponent == plan.normalizer.linear(atom):
            anchor = (
                plan.anchor_of(Term(1.0, indicator=common, exponent=exponent), dtype)
                if _held(plan, exponent, common, dtype)
                else None
            )
        plan.families[atom, exponent] = CentreKey(atom, common, anchor, dtype)


def _held(plan: Plan, exponent: Linear, indicator: Indicator, dtype: DType) -> bool:
    groups = plan.groups.get((exponent, dtype), [])
    return len(groups) == 1 and set(groups[0]) <= set(indicator)


def moment_data(plan: Plan, key: MomentKey) -> Moment:
    """Return a moment as data."""
    centred = tuple((plan.centres[centre], power) for centre, power in key.centred)
    anchor = None if key.anchor is None else plan.anchors[key.anchor]
    if not key.payload:
        payload = number(1.0 if key.dtype.is_float else 1, key.dtype)
    elif key.dtype.is_float:
        payload = product_of(key.payload, key.dtype)
    else:
        payload = cast(key.payload[0][0], key.dtype)
    return Moment(payload, centred, all_of(key.indicator), anchor)


def anchor_data(plan: Plan, key: AnchorKey) -> Anchor:
    """Return an anchor as data: a constant where the exponent is bounded tightly enough, else a running maximum."""
    exponent = linear_of(key.exponent, key.dtype)
    low, high = interval(exponent, plan.ranges)
    narrow = (
        math.isfinite(low) and math.isfinite(high) and high - low <= SAFE_WIDTH[min(key.dtype.bits, plan.weight_bits)]
    )
    return Anchor(exponent, all_of(key.indicator), high if narrow else None)


def centre_data(plan: Plan, key: CentreKey) -> Centre:
    """Return a centre as data."""
    if key.anchor is not None:
        return Centre(cast(key.atom, key.dtype), None, plan.anchors[key.anchor], None)
    count = plan.moments[MomentKey((), (), key.indicator, None, key.dtype)]
    return Centre(cast(key.atom, key.dtype), count, None, all_of(key.indicator))
