"""Reductions of what loops and tiles run over, in the fewest axes: blocks of a loop become the axis that they cut."""

from dataclasses import dataclass

from tessera.core.base.dtypes import f32
from tessera.core.graph.expr import Apply, Expr, Literal, apply, arguments
from tessera.core.graph.expr import cast as cast_expr
from tessera.lowering.raising.positions import AffinePosition, Axis, NotAffine, along
from tessera.lowering.raising.terms import (
    Conditions,
    Load,
    PositionValue,
    ReductionLeaf,
    SumOfProducts,
    Terms,
    Test,
    cut_extent,
    is_zero,
)


def reduced(terms: Terms, leaf: ReductionLeaf | SumOfProducts) -> Expr:
    """Return the expression that a reduction is: axes that conditions cut are shorter, neighbours are joined."""
    leaf = _shortened(terms, leaf)
    while len(leaf.axes) > 1 and (joined := _joined(terms, leaf)) is not None:
        leaf = _shortened(terms, joined)
    if isinstance(leaf, ReductionLeaf) and all(axis.extent == 1 for axis in leaf.axes) and not leaf.conditions:
        return leaf.body
    return terms.leaf(leaf, leaf.dtype if isinstance(leaf, SumOfProducts) else leaf.body.dtype)


def over(terms: Terms, kind: str, body: Expr, conditions: Conditions, axis: Axis) -> Expr:
    """Return `kind` of `body` along `axis`: one reduction where `body` is such a one already."""
    inner = terms.reduction_of(body)
    if isinstance(inner, SumOfProducts) and kind == "sum":
        return reduced(terms, SumOfProducts(inner.factors, inner.conditions | conditions, (axis, *inner.axes),
                                          inner.dtype, inner.exact, inner.compute))  # fmt: skip
    if isinstance(inner, ReductionLeaf) and inner.kind == kind:
        return reduced(terms, ReductionLeaf(kind, inner.body, inner.conditions | conditions, (axis, *inner.axes)))
    return reduced(terms, ReductionLeaf(kind, body, conditions, (axis,)))


def _moved(
    terms: Terms, leaf: ReductionLeaf | SumOfProducts, places: dict[Axis, AffinePosition], axes: tuple[Axis, ...]
) -> ReductionLeaf | SumOfProducts:
    conditions = terms.moved_conditions(leaf.conditions, places)
    if isinstance(leaf, ReductionLeaf):
        return ReductionLeaf(leaf.kind, terms.moved(leaf.body, places), conditions, axes)
    a, b = leaf.factors
    factors = terms.moved(a, places), terms.moved(b, places)
    return SumOfProducts(factors, conditions, axes, leaf.dtype, leaf.exact, leaf.compute)


def _shortened(terms: Terms, leaf: ReductionLeaf | SumOfProducts) -> ReductionLeaf | SumOfProducts:
    """Let each axis end where the conditions end it: `c - axis >= 0`."""
    for axis in leaf.axes:
        extent = cut_extent(leaf.conditions, axis)
        if extent < axis.extent:
            shorter = terms.axis(extent)
            axes = tuple(shorter if each == axis else each for each in leaf.axes)
            leaf = _moved(terms, leaf, {axis: along(shorter)}, axes)
    return leaf


def _joined(terms: Terms, leaf: ReductionLeaf | SumOfProducts) -> ReductionLeaf | SumOfProducts | None:
    """Make one axis of two neighbours, where everything depends on `outer * extent + inner` alone."""
    for n, (outer, inner) in enumerate(zip(leaf.axes, leaf.axes[1:], strict=False)):
        if outer.extent == 0 or inner.extent == 0:
            continue
        whole = terms.axis(outer.extent * inner.extent)
        places = {outer: along(whole).quotient(inner.extent), inner: along(whole).remainder(inner.extent)}
        try:
            made = _moved(terms, leaf, places, (*leaf.axes[:n], whole, *leaf.axes[n + 2 :]))
        except NotAffine:
            continue
        bodies = [made.body] if isinstance(made, ReductionLeaf) else list(made.factors)
        if all(_undivided(terms, body, whole) for body in bodies) and all(
            _undivided_in(c, whole) if isinstance(c, AffinePosition) else _undivided(terms, c, whole)
            for c in made.conditions
        ):
            return made
    return None


def _undivided(terms: Terms, expr: Expr, axis: Axis) -> bool:
    """Return whether `expr` takes no quotient or remainder of `axis`."""
    for number in arguments(expr):
        match terms.leaves[number]:
            case Load(_, indices):
                positions = indices
            case PositionValue(place) | Test(place):
                positions = (place,)
            case _:
                if axis in terms.free_of(number):
                    return False
                continue
        if not all(_undivided_in(each, axis) for each in positions):
            return False
    return True


def _undivided_in(place: AffinePosition, axis: Axis) -> bool:
    return all(d.axis != axis or (d.divisor == 1 and d.modulus == 0) for d, _ in place.terms)


@dataclass(frozen=True, slots=True)
class Carried:
    """A step `carried = carried + term`, or max or min; kind "": the value stays as it is."""

    kind: str
    term: Expr


def carried_step(expr: Expr, before: Expr) -> Carried | None:
    """Return `expr` as a reduction's step from `before`; None where it is none.

    Sums that are rounded to 16 bits in each trip are summed in f32.
    """
    if expr == before:
        return Carried("", Literal(0, before.dtype))
    if not isinstance(expr, Apply) or not _mentions(expr, before):
        return None
    rule = {"add": _sum, "sub": _difference, "fma": _fused, "max": _extreme, "min": _extreme, "cast": _converted,
            "select": _selected}.get(expr.opcode)  # fmt: skip
    return None if rule is None else rule(expr, before)


def _mentions(expr: Expr, before: Expr) -> bool:
    return bool(set(arguments(before)) & set(arguments(expr)))


def _plus(inner: Carried | None, term: Expr, before: Expr) -> Carried | None:
    if inner is None or inner.kind not in ("", "sum") or _mentions(term, before):
        return None
    return Carried("sum", term if is_zero(inner.term) else apply("add", cast_expr(inner.term, term.dtype), term))


def _sum(expr: Apply, before: Expr) -> Carried | None:
    a, b = expr.operands
    if _mentions(b, before):
        a, b = b, a
    return _plus(carried_step(a, before), b, before)


def _difference(expr: Apply, before: Expr) -> Carried | None:
    return _plus(carried_step(expr.operands[0], before), apply("neg", expr.operands[1]), before)


def _fused(expr: Apply, before: Expr) -> Carried | None:
    a, b, total = expr.operands
    return _plus(carried_step(total, before), apply("mul", a, b), before)


def _extreme(expr: Apply, before: Expr) -> Carried | None:
    a, b = expr.operands
    if _mentions(b, before):
        a, b = b, a
    inner = carried_step(a, before)
    if inner is None or inner.kind not in ("", expr.opcode) or _mentions(b, before):
        return None
    return Carried(expr.opcode, b if not inner.kind else apply(expr.opcode, inner.term, b))


def _converted(expr: Apply, before: Expr) -> Carried | None:
    (inner,) = expr.operands
    floats = expr.dtype.is_float and inner.dtype.is_float and {expr.dtype.bits, inner.dtype.bits} <= {16, 32}
    found = carried_step(inner, before) if floats and f32 in (expr.dtype, inner.dtype) else None
    if found is None or found.kind in ("max", "min"):
        return None
    return Carried(found.kind, cast_expr(found.term, f32))


def _selected(expr: Apply, before: Expr) -> Carried | None:
    test, a, b = expr.operands
    yes, no = carried_step(a, before), carried_step(b, before)
    if yes is None or no is None or _mentions(test, before) or not {yes.kind, no.kind} <= {"", "sum"}:
        return None
    dtype = yes.term.dtype if yes.kind else no.term.dtype
    return Carried(yes.kind or no.kind, apply("select", test, cast_expr(yes.term, dtype), cast_expr(no.term, dtype)))
