"""Derive the cascade of a region: one loop that computes reductions which use each other's results.

Each body is brought to a normal form (`normal_form.py`): what varies along the axis becomes moments (`moments.py`),
what does not is applied after the loop (`results.py`).  Exponentials are carried relative to an anchor, polynomials in
a difference relative to a running mean; the online softmax, Welford's variance and their mergers are instances.

The result is as accurate as the reductions one after the other, and more where those overflow: a softmax written
without its maximum becomes the same loop as one with it.  Results of 16 bits are not rounded on the way.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tessera.core.base.dtypes import DType
from tessera.core.graph.expr import Argument, Expr, Literal, apply, arguments, cast
from tessera.core.schedule.cascade import Cascade, Extremum, Reduction, Region
from tessera.lowering.schedule.cascades.lower_terms import StateForms
from tessera.lowering.schedule.cascades.moments import (
    AnchorKey,
    Indicator,
    Plan,
    Sum,
    anchor_data,
    centre_data,
    moment_data,
    plan_moments,
)
from tessera.lowering.schedule.cascades.normal_form import Normalizer, Uses
from tessera.lowering.schedule.cascades.rebuild import accumulated_in, all_of, linear_of
from tessera.lowering.schedule.cascades.state import State, compact, extrema_in
from tessera.lowering.schedule.cascades.terms import Linear, NormalForm, NotSeparable, Term, conjunction


@dataclass(frozen=True, slots=True)
class Split:
    """A maximum or minimum: of `body` over atoms, plus `offset`, which does not vary.

    exponent, indicator: the anchor that would be this maximum
    """

    kind: str
    body: Expr
    offset: Linear
    exponent: Linear
    indicator: Indicator


def derive(region: Region, needed: Collection[int] | None = None) -> Cascade:
    """Return the cascade of `region`; needed: the reductions whose results are asked for, None: all.

    Raises NotSeparable, with the expression and the reason, where one loop cannot compute the reductions, and
    ValueError for bodies that use what they may not.
    """
    _check(region)
    wanted = set(range(len(region.reductions)) if needed is None else needed)
    normalizer = Normalizer(lambda number: _uses(region, number))
    sums = [each for number in range(len(region.reductions)) if (each := _sum(region, normalizer, number)) is not None]
    splits = {
        number: _split(normalizer, each)
        for number, each in enumerate(region.reductions)
        if each.kind in ("max", "min") and Uses.ATOMS in normalizer.uses(each.body)
    }
    plan = plan_moments(normalizer, sums, dict(region.ranges), region.weight_bits)
    extrema = _extrema(plan, splits)
    places = {number: place for place, number in enumerate(splits)}
    free = _lower(region, plan, places, splits, wanted, {})
    kept = extrema_in(free)
    tied = {place: anchor for place in kept if (anchor := extrema[place].anchor) is not None}
    lower = _lower(region, plan, places, splits, wanted, tied) if tied else free
    state = State(
        tuple(moment_data(plan, key) for key in plan.moments),
        tuple(anchor_data(plan, key) for key in plan.anchors),
        tuple(centre_data(plan, key) for key in plan.centres),
        extrema,
    )
    return compact(region, state, kept, lower)


def reduction_arguments(atoms: Sequence[DType], reductions: Sequence[Reduction]) -> tuple[Argument, ...]:
    """Return the arguments of a body that comes after `reductions`: atoms, then results."""
    results = [each.body.dtype for each in reductions]
    return tuple(Argument(number, dtype) for number, dtype in enumerate((*atoms, *results)))


def _check(region: Region) -> None:
    for number, each in enumerate(region.reductions):
        last = len(region.atoms) + number
        if any(used >= last for used in arguments(each.body)):
            raise ValueError(f"reduction {number} uses a result that is not known before it")
        if each.kind == "map" and any(
            used < len(region.atoms) and used not in region.invariant for used in arguments(each.body)
        ):
            raise ValueError(f"reduction {number} maps results, but its body varies along the axis")


def _uses(region: Region, number: int) -> Uses:
    if number >= len(region.atoms):
        return Uses.RESULTS
    return Uses.INVARIANTS if number in region.invariant else Uses.ATOMS


def _sum(region: Region, normalizer: Normalizer, number: int) -> Sum | None:
    reduction = region.reductions[number]
    if reduction.kind != "sum":
        return None
    result = len(region.atoms) + number
    used = any(result in arguments(other.body) for other in region.reductions[number + 1 :])
    return Sum(number, _terms(normalizer, reduction.body), reduction.body.dtype, used)


def _terms(normalizer: Normalizer, body: Expr) -> NormalForm:
    if body.dtype.is_float:
        return normalizer.normal(body)
    if Uses.RESULTS in normalizer.uses(body):
        raise NotSeparable(body, f"the algebra is that of floats, this is {body.dtype}")
    return (Term(1.0, atoms=((body, 1.0),)),)


def _split(normalizer: Normalizer, reduction: Reduction) -> Split:
    body = reduction.body
    if not body.dtype.is_float:
        if Uses.RESULTS in normalizer.uses(body):
            raise NotSeparable(body, f"the algebra is that of floats, this is {body.dtype}")
        return Split(reduction.kind, body, (), (), ())
    none = -math.inf if reduction.kind == "max" else math.inf
    found, inner = normalizer.masked(body, none)
    indicator = conjunction(found)
    if Uses.RESULTS not in normalizer.uses(body):
        exponent = () if indicator is None else normalizer.linear(inner)
        return Split(reduction.kind, body, (), exponent, indicator or ())
    exponent, offset = normalizer.split(inner)
    inside = linear_of(exponent, accumulated_in(body.dtype))
    condition = all_of(indicator or ())
    masked = inside if condition is None else apply("select", condition, inside, Literal(none, inside.dtype))
    return Split(reduction.kind, masked, offset, exponent, indicator or ())


def _is_maximum_of(key: AnchorKey, split: Split) -> bool:
    """Return whether an extremum is the greatest exponent of the sums that an anchor belongs to."""
    return split.kind == "max" and (key.exponent, key.indicator) == (split.exponent, split.indicator)


def _extrema(plan: Plan, splits: dict[int, Split]) -> tuple[Extremum, ...]:
    found: list[Extremum] = []
    for split in splits.values():
        key = next((key for key in plan.anchors if _is_maximum_of(key, split)), None)
        place = None if key is None else plan.anchors[key]
        constant = key is not None and anchor_data(plan, key).constant is not None
        tied, bounded = (None, place) if constant else (place, None)
        found.append(Extremum("max" if split.kind == "max" else "min", split.body, tied, bounded))
    return tuple(found)


def _lower(
    region: Region,
    plan: Plan,
    places: dict[int, int],
    splits: dict[int, Split],
    wanted: set[int],
    tied: dict[int, int],
) -> tuple[Expr | None, ...]:
    """Return the results in terms of the state, for those in `wanted`."""
    sums = {each.number: each for each in plan.sums}
    forms = StateForms(
        plan, region, tied={place: (splits[n].body.dtype, tied[place]) for n, place in places.items() if place in tied}
    )
    found: list[Expr | None] = []
    for number, reduction in enumerate(region.reductions):
        if number in sums:
            form = forms.sum(sums[number])
        elif number in splits:
            split = splits[number]
            form = forms.extremum(places[number], split.body.dtype, split.offset)
        else:
            form = forms.results.value(reduction.body)
        forms.results.arguments[len(region.atoms) + number] = form
        found.append(
            cast(forms.expression(form, reduction.body.dtype), reduction.body.dtype) if number in wanted else None
        )
    return tuple(found)
