"""Rules that add and multiply in another order: chains of products, scales, sums of products, sums of sums.

In floats each moves roundings of the accumulating type: with n terms, the error stays below n * u * sum |terms|.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, TypeVar

from tessera.core.base.dtypes import f32, f64
from tessera.core.graph.infer import numbers
from tessera.lowering.graph.egraph.contractions import (
    Contraction,
    Labels,
    contract,
    contractions,
    contractions_in,
    extents_of,
    ordered,
    rounded_contractions,
    without_tile,
)
from tessera.lowering.graph.egraph.egraph import EGraph, ENode
from tessera.lowering.graph.egraph.scalar_forms import (
    ScalarFactor,
    ScalarProduct,
    build_product,
    build_sum,
    products_of,
    shape_of,
    sums_of,
)
from tessera.lowering.graph.rules.rule import RewriteRule, RuleMatch
from tessera.lowering.graph.rules.scaling import scales_out_of_products

_KLASS: Final = "reassociate"
_T = TypeVar("_T")


def _put(first: _T, second: _T, place: int) -> tuple[_T, _T]:
    """Return two things in this order, or in the other one where the first is to be at place 1."""
    return (second, first) if place else (first, second)


def _chain_order(egraph: EGraph) -> Iterator[RuleMatch]:
    """Multiply a chain of products in another order, rounded in between as it was.

    before: contract(contract(a, b), c)
    after:  contract(a, contract(b, c)), or contract(contract(a, c), b): any two that sum over a common axis

    Matrix chain order (Hu and Shing, 1982), on labels: batches, traces and scores times values as well.
    """
    for number, outer in contractions(egraph):
        if not outer.plain:
            continue
        for place in (0, 1):
            for inner, dtype in rounded_contractions(egraph, outer.operands[place]):
                if not inner.plain or egraph.type_of(inner.operands[0]).dtype != dtype:
                    continue
                for first in (0, 1):
                    build = _rechained(egraph, outer, place, inner, first)
                    if build is not None:
                        yield RuleMatch(number, (outer.node, inner.node), build)


def _rechained(
    egraph: EGraph, outer: Contraction, place: int, inner: Contraction, first: int
) -> Callable[[], int] | None:
    """Return what builds the product of operand `first` of `inner` with (its other operand times the third)."""
    free = 1 + max((*outer.labels[0], *outer.labels[1]), default=0)
    inner = inner.placed(dict(zip(inner.result, outer.labels[place], strict=True)), free)
    alone, alone_labels = inner.operands[first], inner.labels[first]
    pair, labels = ordered(
        egraph,
        (inner.operands[1 - first], outer.operands[1 - place]),
        (inner.labels[1 - first], outer.labels[1 - place]),
    )
    kept = {*alone_labels, *outer.result}
    result = tuple(label for label in dict.fromkeys((*labels[0], *labels[1])) if label in kept)
    if not any(label in labels[1] and label not in kept for label in labels[0]):
        return None

    def build() -> int:
        made = contract(egraph, pair, labels, result, without_tile(outer))
        stored = egraph.type_of(alone).dtype
        if egraph.type_of(made).dtype != stored:
            whole = ScalarFactor(made, tuple(range(len(result))))
            wide = egraph.type_of(made)
            made = build_product(egraph, 1.0, [whole], wide.shape, wide.dtype, stored)
        operands, both = ordered(egraph, (alone, made), (alone_labels, result))
        return contract(egraph, operands, both, outer.result, without_tile(outer))

    return build


def _scales_out_of_products(egraph: EGraph) -> Iterator[RuleMatch]:
    """Move what no sum of a product goes over behind the product: row scales, numbers, reciprocals.

    before: contract(x[i, k] * r[i] * 0.5, w[k, j])
    after:  contract(x, w)[i, j] * r[i] * 0.5
    """
    return scales_out_of_products(egraph, rounded=False)


def _scales_out_of_sums(egraph: EGraph) -> Iterator[RuleMatch]:
    """Multiply after adding instead of before.

    before: reduce(x[i, j] * s[i]) over j
    after:  reduce(x[i, j]) over j; * s[i]
    """
    for number, node in list(egraph.nodes("reduce")):
        if node.attribute("kind") != "sum":
            continue
        removed = set(numbers(node.attribute("axes")))
        for product in products_of(egraph, node.kids[0]):
            outer = [each for each in product.factors if not set(each.axes) & removed]
            inner = [each for each in product.factors if each not in outer]
            covered = {axis for each in inner for axis in each.axes}
            if product.stored == product.dtype and removed <= covered and (outer or abs(product.number) != 1):
                build = _summed_then_scaled(egraph, node, replace(product, factors=tuple(inner)), outer)
                yield RuleMatch(number, (node, *product.nodes), build)


def _summed_then_scaled(
    egraph: EGraph, node: ENode, inner: ScalarProduct, outer: Sequence[ScalarFactor]
) -> Callable[[], int]:
    def build() -> int:
        shape, removed = egraph.type_of(node.kids[0]).shape, set(numbers(node.attribute("axes")))
        kept = [axis for axis in range(len(shape)) if axis not in removed]
        dtype = inner.dtype
        whole = build_product(egraph, 1.0, inner.factors, shape, dtype, dtype)
        total = egraph.add("reduce", [whole], None, dict(node.attributes))
        moved = [replace(each, axes=tuple(kept.index(axis) for axis in each.axes)) for each in outer]
        factors = [ScalarFactor(total, tuple(range(len(kept)))), *moved]
        return build_product(egraph, inner.number, factors, [shape[axis] for axis in kept], dtype, dtype)

    return build


def _factor_sums(egraph: EGraph) -> Iterator[RuleMatch]:
    """Add before multiplying where two products have a common factor.

    before: contract(a, b) + contract(a, c)
    after:  contract(a, b + c)
    """
    for sums in _sums_of_products(egraph):
        for one, other in sums.pairs():
            for place in (0, 1):
                found = _factored(egraph, sums, one, other, place)
                if found is not None:
                    yield RuleMatch(sums.number, (sums.node, one[1].node, other[1].node), found)


_Term: TypeAlias = tuple[int, Contraction]


@dataclass(frozen=True, slots=True)
class _SumOfProducts:
    """A sum with contractions among its terms.  products: which terms they are; labels of results are axes of it."""

    number: int
    node: ENode
    terms: tuple[ScalarFactor, ...]
    products: tuple[_Term, ...]

    def pairs(self) -> Iterator[tuple[_Term, _Term]]:
        """Yield two products of different terms at a time."""
        for place, one in enumerate(self.products):
            for other in self.products[place + 1 :]:
                if one[0] != other[0]:
                    yield one, other

    def with_sum(self, egraph: EGraph, made: int, power: int, one: _Term, other: _Term) -> int:
        """Return the sum with one term in the place of two."""
        rest = [term for place, term in enumerate(self.terms) if place not in (one[0], other[0])]
        shape = shape_of(self.node)
        return build_sum(egraph, [*rest, ScalarFactor(made, tuple(range(len(shape))), power)], shape)


def _sums_of_products(egraph: EGraph) -> Iterator[_SumOfProducts]:
    for number in egraph.classes:
        for terms, node in list(sums_of(egraph, number)):
            rank = len(shape_of(node))
            products = [
                (place, each.of_result(term.axes, rank))
                for place, term in enumerate(terms)
                if len(term.axes) == rank
                for each in contractions_in(egraph, term.kid)[:3]
                if each.plain
            ]
            if len({place for place, _ in products}) > 1:
                yield _SumOfProducts(number, node, terms, tuple(products))


def _factored(egraph: EGraph, sums: _SumOfProducts, one: _Term, other: _Term, place: int) -> Callable[[], int] | None:
    """Return what builds a sum in which two products with a common operand at `place` are one."""
    first, second = one[1], other[1]
    rank = len(shape_of(sums.node))
    same = [egraph.find(each.operands[place]) for each in (first, second)]
    if same[0] != same[1] or first.options != second.options:
        return None
    places = dict(enumerate(range(rank))) | dict(zip(second.labels[place], first.labels[place], strict=True))
    aligned = second.placed(places, 2 * rank + 8)
    mine, theirs = first.labels[1 - place], aligned.labels[1 - place]
    inside = set(first.labels[place]) | set(range(rank))
    if aligned.labels[place] != first.labels[place] or set(mine) != set(theirs) or not set(mine) <= inside:
        return None
    if aligned.result != second.result or egraph.type_of(first.operands[1 - place]).dtype not in (f32, f64):
        return None
    powers = [sums.terms[each[0]].power for each in (one, other)]

    def build() -> int:
        own, added = first.operands[1 - place], second.operands[1 - place]
        terms = [
            ScalarFactor(own, tuple(range(len(mine))), powers[0] * powers[0]),
            ScalarFactor(added, tuple(mine.index(label) for label in theirs), powers[0] * powers[1]),
        ]
        total = build_sum(egraph, terms, egraph.type_of(own).shape)
        operands, labels = [same[0], total], [first.labels[place], mine]
        if place:
            operands, labels = operands[::-1], labels[::-1]
        made = contract(egraph, operands, labels, range(rank), without_tile(first))
        return sums.with_sum(egraph, made, powers[0], one, other)

    return build


def _concatenate_sums(egraph: EGraph) -> Iterator[RuleMatch]:
    """Compute a sum of products as one product over a longer axis.

    before: contract(a, b) + contract(c, d)
    after:  contract(concat(a, c), concat(b, d)), both along the axis that is summed
    """
    for sums in _sums_of_products(egraph):
        for one, other in sums.pairs():
            first, second = one[1], other[1]
            if sums.terms[one[0]].power < 0 or sums.terms[other[0]].power < 0 or first.options != second.options:
                continue
            aligned = _aligned(egraph, first, second, len(shape_of(sums.node)))
            if aligned is not None:
                build = _concatenated(egraph, sums, one, other)
                yield RuleMatch(sums.number, (sums.node, first.node, second.node), build)


def _aligned(egraph: EGraph, first: Contraction, second: Contraction, rank: int) -> Labels | None:
    """Return the label that both products sum over, where they are alike in everything but its extent."""
    if len(first.summed) != 1 or len(second.summed) != 1:
        return None
    renamed = second.placed({**{label: label for label in range(rank)}, second.summed[0]: first.summed[0]}, rank)
    one, other = extents_of(egraph, first), extents_of(egraph, renamed)
    alike = renamed.labels == first.labels and all(first.summed[0] in mine for mine in first.labels)
    kinds = [egraph.type_of(each.operands[0]).dtype for each in (first, second)]
    same = all(one[label] == other[label] for label in range(rank))
    return first.summed if alike and same and kinds[0] == kinds[1] else None


def _concatenated(egraph: EGraph, sums: _SumOfProducts, one: _Term, other: _Term) -> Callable[[], int]:
    def build() -> int:
        first, second = one[1], other[1]
        (label,) = first.summed
        joined = [
            egraph.add("concat", (mine, theirs), None, {"axis": labels.index(label)})
            for mine, theirs, labels in zip(first.operands, second.operands, first.labels, strict=True)
        ]
        result = range(len(shape_of(sums.node)))
        made = contract(egraph, joined, first.labels, result, without_tile(first))
        return sums.with_sum(egraph, made, 1, one, other)

    return build


def _distribute(egraph: EGraph) -> Iterator[RuleMatch]:
    """Multiply the terms of a sum, where one is repeated along axes, or its product is there already.

    before: contract(x[i, k] - m[i], w[k, j])
    after:  contract(x, w) - contract(m, w), in which m is no longer repeated

    What is less a statistic of itself stays: a mean far from 0 would leave the difference of two large products.
    """
    known = {(tuple(map(egraph.find, each.operands)), each.labels, each.result) for _, each in contractions(egraph)}
    for number, each in contractions(egraph):
        for place in (0, 1) if each.plain else ():
            mine, other = each.labels[place], each.operands[1 - place]
            for terms, node in list(sums_of(egraph, each.operands[place])):
                parts = [(replace(term, axes=tuple(mine[axis] for axis in term.axes))) for term in terms]
                there = [
                    (_put(egraph.find(part.kid), egraph.find(other), place),
                     _put(part.axes, each.labels[1 - place], place), each.result) in known
                    for part in parts
                ]  # fmt: skip
                repeated = any(len(part.axes) < len(mine) for part in parts)
                if (repeated and not _is_centred(egraph, terms)) or any(there):
                    yield RuleMatch(number, (each.node, node), _distributed(egraph, each, place, parts))


def _is_centred(egraph: EGraph, terms: Sequence[ScalarFactor]) -> bool:
    """Return whether something that was computed of a term, such as its mean along an axis, is taken away from it."""
    for term in terms:
        found, stack = set[int](), [each.kid for each in terms if each.power * term.power < 0]
        while stack:
            number = egraph.find(stack.pop())
            if number not in found:
                found.add(number)
                stack += [kid for node in egraph.members[number] for kid in node.kids]
        if egraph.find(term.kid) in found:
            return True
    return False


def _distributed(egraph: EGraph, each: Contraction, place: int, parts: Sequence[ScalarFactor]) -> Callable[[], int]:
    def build() -> int:
        other, labels = each.operands[1 - place], each.labels[1 - place]
        shape = egraph.type_of(each.node_class(egraph)).shape
        terms: list[ScalarFactor] = []
        for part in parts:
            result = tuple(label for label in each.result if label in part.axes or label in labels)
            operands, both = _put(part.kid, other, place), _put(part.axes, labels, place)
            made = contract(egraph, operands, both, result, without_tile(each))
            terms.append(ScalarFactor(made, tuple(each.result.index(label) for label in result), part.power))
        return build_sum(egraph, terms, shape)

    return build


def _sum_lone_labels(egraph: EGraph) -> Iterator[RuleMatch]:
    """Sum an axis that one operand alone has before multiplying.

    before: contract(m[i], w[k, j]) over k
    after:  m[i] * reduce(w[k, j]) over k
    """
    for number, each in contractions(egraph):
        for place in (0, 1) if each.plain else ():
            mine, other = each.labels[place], each.labels[1 - place]
            lone = [label for label in mine if label not in other and label not in each.result]
            kind = egraph.type_of(each.operands[place]).dtype
            if lone and kind in (f32, f64):
                yield RuleMatch(number, (each.node,), _summed_first(egraph, each, place, lone))


def _summed_first(egraph: EGraph, each: Contraction, place: int, lone: Sequence[int]) -> Callable[[], int]:
    def build() -> int:
        mine = each.labels[place]
        axes = tuple(sorted(mine.index(label) for label in lone))
        total = egraph.add("reduce", (each.operands[place],), None, {"axes": axes, "kind": "sum"})
        left = tuple(label for label in mine if label not in lone)
        operands = _put(total, each.operands[1 - place], place)
        labels = _put(left, each.labels[1 - place], place)
        if set(labels[0]) | set(labels[1]) > set(each.result):
            return contract(egraph, operands, labels, each.result, without_tile(each))
        shape = egraph.type_of(each.node_class(egraph)).shape
        factors = [
            ScalarFactor(kid, tuple(each.result.index(label) for label in names))
            for kid, names in zip(operands, labels, strict=True)
        ]
        dtype = egraph.type_of(total).dtype
        return build_product(egraph, 1.0, factors, shape, dtype, dtype)

    return build


def _sums_of_sums(egraph: EGraph) -> Iterator[RuleMatch]:
    """Reduce twice at once.

    before: reduce(reduce(x) over k) over j
    after:  reduce(x) over j, k
    """
    for number, outer in list(egraph.nodes("reduce")):
        for inner in egraph.having(outer.kids[0], "reduce"):
            kind = outer.attribute("kind")
            if inner.attribute("kind") != kind:
                continue
            first = numbers(inner.attribute("axes"))
            left = [axis for axis in range(len(egraph.type_of(inner.kids[0]).shape)) if axis not in first]
            axes = tuple(sorted((*first, *(left[axis] for axis in numbers(outer.attribute("axes"))))))
            yield RuleMatch(
                number, (outer, inner),
                lambda i=inner, a=axes, k=kind: egraph.add("reduce", i.kids, None, {"axes": a, "kind": k}),
            )  # fmt: skip


def _sum_of_products(egraph: EGraph) -> Iterator[RuleMatch]:
    """Take a sum of elementwise products, one of them a contraction, as a contraction, and the other way around.

    before: reduce(p * contract(a, b)) over j; contract(p[i, j], t[i, j]) over j
    after:  contract(p, contract(a, b)) over j; reduce(p * t) over j

    With the chain's order it finds the row sums of attention's gradient: rowsum(P * (dO V^T)) is rowsum(dO * O).
    """
    for number, node in list(egraph.nodes("reduce")):
        removed = numbers(node.attribute("axes"))
        for product in products_of(egraph, node.kids[0]) if node.attribute("kind") == "sum" else ():
            pair = product.factors
            plain = product.stored == product.dtype and product.number == 1 and len(pair) == 2
            if not plain or any(each.power < 0 or egraph.type_of(each.kid).dtype != product.dtype for each in pair):
                continue
            covered = {axis for each in pair for axis in each.axes}
            rank = len(egraph.type_of(node.kids[0]).shape)
            if covered != set(range(rank)) or not any(contractions_in(egraph, each.kid) for each in pair):
                continue
            result = tuple(axis for axis in range(rank) if axis not in removed)
            options = {"accumulate": product.dtype.name, "exact": False, "tile_shape": (), "compute": ""}
            yield RuleMatch(
                number, (node, *product.nodes),
                lambda p=pair, r=result, o=options: contract(
                    egraph, [each.kid for each in p], [each.axes for each in p], r, o.items()
                ),
            )  # fmt: skip
    for number, each in contractions(egraph):
        dtype = egraph.type_of(number).dtype
        alike = set(each.labels[0]) >= set(each.labels[1]) and set(each.labels[1]) >= set(each.labels[0])
        kinds = {egraph.type_of(kid).dtype for kid in each.operands}
        if alike and each.plain and each.summed and kinds == {dtype} and dtype in (f32, f64):
            yield RuleMatch(number, (each.node,), _as_reduction(egraph, each))


def _as_reduction(egraph: EGraph, each: Contraction) -> Callable[[], int]:
    def build() -> int:
        order = (*each.result, *each.summed)
        extents = extents_of(egraph, each)
        factors = [
            ScalarFactor(kid, tuple(order.index(label) for label in mine))
            for kid, mine in zip(each.operands, each.labels, strict=True)
        ]
        dtype = egraph.type_of(each.operands[0]).dtype
        whole = build_product(egraph, 1.0, factors, [extents[label] for label in order], dtype, dtype)
        axes = tuple(range(len(each.result), len(order)))
        return egraph.add("reduce", (whole,), None, {"axes": axes, "kind": "sum"})

    return build


RULES: Final = (
    RewriteRule("chain-order", _KLASS, _chain_order),
    RewriteRule("scales-out-of-products", _KLASS, _scales_out_of_products),
    RewriteRule("scales-out-of-sums", _KLASS, _scales_out_of_sums),
    RewriteRule("factor-sums", _KLASS, _factor_sums),
    RewriteRule("concatenate-sums", _KLASS, _concatenate_sums, concatenates=True),
    RewriteRule("distribute", _KLASS, _distribute),
    RewriteRule("sum-lone-labels", _KLASS, _sum_lone_labels),
    RewriteRule("sums-of-sums", _KLASS, _sums_of_sums),
    RewriteRule("sum-of-products", _KLASS, _sum_of_products),
)
