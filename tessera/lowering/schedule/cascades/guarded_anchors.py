"""Cancel guards against empty rows: what a careful softmax subtracts is the anchor, which is 0 while nothing was seen.

before: r = M1 / (M0 * exp(c0 - select(max0 == -inf, 0, max0))) * exp(c0 - select(max0 == -inf, 0, max0))
after:  r = M1 / M0, and max0 is not asked for: the anchor may lag behind the maximum, or be a constant
"""

import math
from dataclasses import replace

from tessera.core.graph.expr import Apply, Argument, Expr, Literal, apply, arguments, substitute, walk
from tessera.core.schedule.cascade import Cascade


def cancel_guards(cascade: Cascade) -> Cascade:
    """Return the cascade with guarded maxima as anchors, without the maxima that are not asked for then."""
    numbers = cascade.numbering
    anchors: dict[Expr, Expr] = {}
    for place, extremum in enumerate(cascade.extrema):
        number = extremum.bounded if extremum.anchor is None else extremum.anchor
        if number is not None and extremum.kind == "max":
            dtype = extremum.body.dtype
            constant = cascade.anchors[number].constant
            top = Argument(numbers.extremum(place), dtype)
            unseen = apply("cmp", top, Literal(-math.inf, dtype), predicate="eq")
            guarded = apply("select", unseen, Literal(0.0, dtype), top)
            anchor = Argument(numbers.anchor(number), dtype)
            anchors[guarded] = anchor if constant is None else Literal(constant, dtype)
    if not anchors:
        return cascade
    lower = tuple(None if each is None else _simplified(each, anchors) for each in cascade.lower)
    used = {number for each in lower if each is not None for number in arguments(each)}
    kept = [place for place in range(len(cascade.extrema)) if numbers.extremum(place) in used]
    extrema = tuple(cascade.extrema[place] for place in kept)
    first = numbers.extremum(0)
    moved = {first + place: first + kept.index(place) for place in kept}
    gone = len(cascade.extrema) - len(kept)
    moved |= {numbers.atom(n): numbers.atom(n) - gone for n in range(len(cascade.region.atoms))}

    def renumbered(expr: Expr) -> Expr:
        found = {each.number: each for each in walk(expr) if isinstance(each, Argument)}
        return substitute(expr, {n: Argument(moved[n], each.dtype) for n, each in found.items() if n in moved})

    return replace(cascade, extrema=extrema, lower=tuple(None if each is None else renumbered(each) for each in lower))


def _simplified(expr: Expr, anchors: dict[Expr, Expr]) -> Expr:
    """Put anchors in the place of guarded maxima; x - x is 0, exp(0) is 1, and 1 changes no product."""
    done: dict[Expr, Expr] = {}
    for each in walk(expr):
        if not isinstance(each, Apply):
            done[each] = each
            continue
        operands = tuple([done[operand] for operand in each.operands])
        made = Apply(each.opcode, operands, each.dtype, each.predicate)
        done[each] = anchors.get(made) or _folded(made)
    return done[expr]


def _folded(expr: Apply) -> Expr:
    one = Literal(1.0, expr.dtype)
    match expr.opcode:
        case "sub" if expr.operands[0] == expr.operands[1]:
            return Literal(0.0, expr.dtype)
        case "exp" if expr.operands[0] == Literal(0.0, expr.dtype):
            return one
        case "mul" if one in expr.operands:
            return expr.operands[1 - expr.operands.index(one)]
        case _:
            return expr
