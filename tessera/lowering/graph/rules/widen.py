"""Rules that leave roundings of values that are not stored out: results come closer to the exact ones."""

from collections.abc import Iterator
from typing import Final, cast

from tessera.core.graph.expr import Apply, Argument, Expr, substitute, walk
from tessera.core.graph.infer import labels_of
from tessera.lowering.graph.egraph.egraph import EGraph, ENode
from tessera.lowering.graph.rules.rule import RewriteRule, RuleMatch
from tessera.lowering.graph.rules.scaling import scales_out_of_products

_KLASS: Final = "widen"


def _keep_wide(egraph: EGraph) -> Iterator[RuleMatch]:
    """Read what was rounded before it was rounded.

    before: t = map "bf16(x0 * x1)"; map(t) "exp(f32(x0))"
    after:  map "exp(x0 * x1)"

    One rounding less, of at most u = 2**-9 relatively for bf16, 2**-12 for f16.
    """
    for number, node in list(egraph.nodes("map")):
        for place, kid in enumerate(node.kids):
            if not _widened(node, place):
                continue
            for inner in egraph.having(kid, "map"):
                if _rounds(inner) and kid not in inner.kids:
                    yield RuleMatch(number, (node, inner), lambda n=node, p=place, i=inner: _composed(egraph, n, p, i))


def _rounds(node: ENode) -> bool:
    """Return whether a map rounds what it computes to a shorter float."""
    body = node.body
    if not isinstance(body, Apply) or body.opcode != "cast":
        return False
    wide = body.operands[0].dtype
    return wide.is_float and body.dtype.is_float and wide.bits > body.dtype.bits


def _widened(node: ENode, place: int) -> bool:
    """Return whether a map converts an operand to a wider float wherever it uses it."""
    found = False
    for each in walk(cast("Expr", node.body)):
        for operand in each.operands if isinstance(each, Apply) else ():
            if isinstance(operand, Argument) and operand.number == place:
                assert isinstance(each, Apply)
                if each.opcode != "cast" or not operand.dtype.is_float or each.dtype.bits <= operand.dtype.bits:
                    return False
                found = True
    return found


def _composed(egraph: EGraph, node: ENode, place: int, inner: ENode) -> int:
    """Return the map of a map, without the conversions between."""
    axes = list(labels_of(node.attribute("axes")))
    mine = axes[place]
    kids = [*node.kids, *inner.kids]
    axes += [tuple(mine[axis] for axis in each) for each in labels_of(inner.attribute("axes"))]
    body = inner.body
    assert isinstance(body, Apply)
    raised = substitute(body.operands[0], _raised(inner, len(node.kids)))
    whole = _replaced(cast("Expr", node.body), place, raised)
    used = sorted({each.number for each in walk(whole) if isinstance(each, Argument)})
    renamed = {number: Argument(new, egraph.type_of(kids[number]).dtype) for new, number in enumerate(used)}
    attributes = {**dict(node.attributes), "axes": tuple(axes[number] for number in used)}
    return egraph.add("map", [kids[number] for number in used], substitute(whole, renamed), attributes)


def _raised(inner: ENode, first: int) -> dict[int, Expr]:
    found = [each for each in walk(cast("Expr", inner.body)) if isinstance(each, Argument)]
    return {each.number: Argument(each.number + first, each.dtype) for each in found}


def _replaced(expr: Expr, place: int, value: Expr) -> Expr:
    """Return `expr` with `value` for the conversions of an argument to a wider type."""
    done: dict[Expr, Expr] = {}
    for each in walk(expr):
        if not isinstance(each, Apply):
            done[each] = each
        elif each.opcode == "cast" and isinstance(each.operands[0], Argument) and each.operands[0].number == place:
            done[each] = value if value.dtype == each.dtype else Apply("cast", (value,), each.dtype)
        else:
            operands = tuple(done[operand] for operand in each.operands)
            done[each] = Apply(each.opcode, operands, each.dtype, each.predicate)
    return done[expr]


def _rounded_scales_out_of_products(egraph: EGraph) -> Iterator[RuleMatch]:
    """Move a scale behind a product whose operand is rounded after scaling: what is left is rounded in its place.

    before: contract(bf16(x[i, k] * r[i]), w[k, j])
    after:  contract(bf16(x), w)[i, j] * r[i]; where x is of bf16, it is not rounded at all
    """
    return scales_out_of_products(egraph, rounded=True)


RULES: Final = (
    RewriteRule("keep-wide", _KLASS, _keep_wide),
    RewriteRule("rounded-scales-out-of-products", _KLASS, _rounded_scales_out_of_products),
)
