"""Sums of one loop that have no part in each other: each is carried as it is written.

before: sum_i exp(s - lse) * (dP - delta) * q * 0.125, where the log-sum-exp and delta come from memory
after:  M0 = sum_i q * (dP - delta) * exp(s - lse); r0 = M0 * 0.125

An exponential is relative to what it is written with: nothing is divided by it, so the anchor is 0, and what vanishes
is 0.  Masks become indicators, which bound the loop.
"""

from collections.abc import Mapping, Sequence

from tessera.core.base.dtypes import DType
from tessera.core.graph.expr import Argument, Expr, Literal, apply, arguments, cast
from tessera.core.schedule.cascade import Anchor, Cascade, Moment, Region
from tessera.lowering.schedule.cascades.normal_form import Normalizer, Uses
from tessera.lowering.schedule.cascades.rebuild import accumulated_in, all_of, linear_of, product_of, sum_of
from tessera.lowering.schedule.cascades.terms import Linear, NormalForm, Powers, Term, product, raised

Key = tuple[Linear, tuple[Expr, ...]]


def is_plain(region: Region) -> bool:
    """Return whether all reductions are sums whose bodies use no other one's result."""
    count = len(region.atoms)
    return all(each.kind == "sum" and all(n < count for n in arguments(each.body)) for each in region.reductions)


def plain_sums(region: Region, needed: frozenset[int]) -> Cascade:
    """Return the cascade of a plain region.  Raises NotSeparable for a body of too many terms."""
    normalizer = Normalizer(lambda _: Uses.ATOMS)
    moments: dict[Moment, int] = {}
    anchors: dict[Anchor, int] = {}
    lower: list[Expr | None] = []
    for number, reduction in enumerate(region.reductions):
        if number not in needed:
            lower.append(None)
            continue
        dtype = accumulated_in(reduction.body.dtype)
        total: Expr | None = None
        for (exponent, indicator), terms in _by_exponent(normalizer.normal(reduction.body)).items():
            anchor = None
            if exponent:
                made = Anchor(linear_of(exponent, dtype), all_of(indicator), 0.0)
                anchor = anchors.setdefault(made, len(anchors))
            payload, size = _payload(terms, dtype)
            place = moments.setdefault(Moment(payload, (), all_of(indicator), anchor), len(moments))
            part: Expr = Argument(place, dtype)
            part = part if size == 1 else apply("mul", part, Literal(size, dtype))
            total = part if total is None else apply("add", total, part)
        lower.append(cast(Literal(0.0, dtype) if total is None else total, reduction.body.dtype))
    return Cascade(region, tuple(moments), tuple(anchors), (), (), tuple(lower))


def _by_exponent(terms: NormalForm) -> Mapping[Key, list[Term]]:
    """Return the terms of each exponential: they are one sum of products."""
    found: dict[Key, list[Term]] = {}
    for term in terms:
        found.setdefault((term.exponent, term.indicator), []).append(term)
    return found


def _payload(terms: Sequence[Term], dtype: DType) -> tuple[Expr, float]:
    """Return what an exponential is multiplied with: common factors once, and the number that all terms have."""
    first, *others = terms
    common: Powers = tuple(each for each in first.atoms if all(each in other.atoms for other in others))
    sizes = {abs(term.coefficient) for term in terms}
    size = sizes.pop() if len(sizes) == 1 else 1.0
    if not others and first.coefficient < 0:
        size = -size
    rest = tuple(Term(t.coefficient / size, product(t.atoms, raised(common, -1.0))) for t in terms)
    if rest == (Term(1.0),):
        return product_of(common, dtype), size
    whole = sum_of(rest, dtype)
    return apply("mul", whole, product_of(common, dtype)) if common else whole, size
