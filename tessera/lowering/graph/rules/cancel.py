"""Rules that leave out what is undone again: an overflow, a NaN or an infinity on the way may go away."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, cast

from tessera.core.graph.expr import Apply, Argument, Expr
from tessera.core.graph.infer import labels_of, numbers
from tessera.lowering.graph.egraph.egraph import EGraph, ENode
from tessera.lowering.graph.egraph.scalar_forms import (
    WIDTH,
    ScalarFactor,
    build_product,
    build_sum,
    products_of,
    shape_of,
    sums_of,
)
from tessera.lowering.graph.rules.rule import RewriteRule, RuleMatch

_KLASS: Final = "cancel"
_INVERSES: Final = {("exp", "log"), ("log", "exp"), ("exp2", "log2"), ("log2", "exp2")}


def _shift_extremes(egraph: EGraph) -> Iterator[RuleMatch]:
    """Take what is the same for a whole row out of its greatest or least element.

    before: reduce(x[i, j] + s[i]) over j, the greatest
    after:  reduce(x[i, j]) over j, the greatest; + s[i]

    Rounding is monotone, so finite numbers keep their bits; an infinite s may have made a NaN.
    """
    for number, node in list(egraph.nodes("reduce")):
        kind, axes = node.attribute("kind"), numbers(node.attribute("axes"))
        if kind not in ("max", "min"):
            continue
        shape = egraph.type_of(node.kids[0]).shape
        kept = [axis for axis in range(len(shape)) if axis not in axes]
        for terms, summed in list(sums_of(egraph, node.kids[0])):
            shifts = [term for term in terms if not set(term.axes) & set(axes)]
            rest = [term for term in terms if term not in shifts]
            if len(terms) == 2 and len(shifts) == 1 and rest[0].power > 0:
                yield RuleMatch(number, (node, summed), _shifted(egraph, node, rest[0], shifts[0], kept))


def _shifted(
    egraph: EGraph, node: ENode, rest: ScalarFactor, shift: ScalarFactor, kept: Sequence[int]
) -> Callable[[], int]:
    def build() -> int:
        shape = egraph.type_of(node.kids[0]).shape
        whole = build_sum(egraph, [rest], shape)
        extreme = egraph.add("reduce", [whole], None, dict(node.attributes))
        places = tuple(kept.index(axis) for axis in shift.axes)
        terms = [ScalarFactor(extreme, tuple(range(len(kept)))), ScalarFactor(shift.kid, places, shift.power)]
        return build_sum(egraph, terms, [shape[axis] for axis in kept])

    return build


def _cancel_sums(egraph: EGraph) -> Iterator[RuleMatch]:
    """Leave out what is added and taken away again, also through sums of sums.

    before: (x + s) - (m + s)
    after:  x - m
    """
    for number in egraph.classes:
        for terms, node in list(sums_of(egraph, number)):
            for opened, inner in _opened(egraph, terms):
                left = _cancelled(egraph, opened)
                if left and len(left) < len(opened):
                    shape = shape_of(node)
                    yield RuleMatch(
                        number, (node, *inner), lambda kept=left, s=shape: build_sum(egraph, kept, s)
                    )  # fmt: skip


def _opened(egraph: EGraph, terms: Sequence[ScalarFactor]) -> Iterator[tuple[list[ScalarFactor], tuple[ENode, ...]]]:
    """Yield a sum as it is, and with sums in the place of its terms that are sums."""
    yield list(terms), ()
    found: list[ScalarFactor] = []
    nodes: list[ENode] = []
    for term in terms:
        inner = next(iter(sums_of(egraph, term.kid)), None)
        if inner is None:
            found.append(term)
            continue
        nodes.append(inner[1])
        found += [
            ScalarFactor(each.kid, tuple(term.axes[axis] for axis in each.axes), each.power * term.power)
            for each in inner[0]
        ]
    if nodes and len(found) <= WIDTH:
        yield found, tuple(nodes)


def _cancelled(egraph: EGraph, terms: Sequence[ScalarFactor]) -> list[ScalarFactor]:
    """Return the terms without pairs that undo each other."""
    left: list[ScalarFactor] = []
    for term in terms:
        key = (egraph.find(term.kid), term.axes, -term.power)
        same = next((each for each in left if (egraph.find(each.kid), each.axes, each.power) == key), None)
        if same is None:
            left.append(term)
        else:
            left.remove(same)
    return left


def _cancel_quotients(egraph: EGraph) -> Iterator[RuleMatch]:
    """Leave out what is multiplied and divided by.

    before: x * s / s
    after:  x
    """
    for number in egraph.classes:
        for product in list(products_of(egraph, number)):
            left = _cancelled(egraph, product.factors)
            if not left or len(left) == len(product.factors):
                continue
            shape = shape_of(product.nodes[0])
            yield RuleMatch(
                number, product.nodes,
                lambda p=product, kept=left, s=shape: build_product(egraph, p.number, kept, s, p.dtype, p.stored),
            )  # fmt: skip


def _inverse_functions(egraph: EGraph) -> Iterator[RuleMatch]:
    """Leave a function and its inverse out.

    before: exp(log(x)), log(exp(x))
    after:  x
    """
    for number, node in list(egraph.nodes("map")):
        outer = _function(node)
        for inner in egraph.having(node.kids[0], "map") if outer else ():
            if (outer, _function(inner)) in _INVERSES:
                yield RuleMatch(number, (node, inner), lambda i=inner: i.kids[0])


def _function(node: ENode) -> str:
    """Return the function that a map applies to every element of one operand, "" where it does anything else."""
    body = cast("Expr", node.body)
    if len(node.kids) != 1 or not isinstance(body, Apply) or not isinstance(body.operands[0], Argument):
        return ""
    whole = labels_of(node.attribute("axes"))[0] == tuple(range(len(shape_of(node))))
    return body.opcode if whole and len(body.operands) == 1 else ""


RULES: Final = (
    RewriteRule("shift-extremes", _KLASS, _shift_extremes),
    RewriteRule("cancel-sums", _KLASS, _cancel_sums),
    RewriteRule("cancel-quotients", _KLASS, _cancel_quotients),
    RewriteRule("inverse-functions", _KLASS, _inverse_functions),
)
