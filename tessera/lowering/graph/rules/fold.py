"""Rules that round a scale or a gain into an operand of a product: of its storage type, once an element."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod
from typing import Final

from tessera.core.base.dtypes import f32
from tessera.lowering.graph.egraph.contractions import (
    Contraction,
    contract,
    contractions,
    contractions_in,
    without_tile,
)
from tessera.lowering.graph.egraph.egraph import EGraph
from tessera.lowering.graph.egraph.scalar_forms import (
    ScalarFactor,
    ScalarProduct,
    build_product,
    is_scaled,
    products_of,
    shape_of,
)
from tessera.lowering.graph.rules.rule import RewriteRule, RuleMatch
from tessera.lowering.graph.rules.scaling import labelled_factors, labelled_operand

_KLASS: Final = "fold"


def _gains_across_products(egraph: EGraph) -> Iterator[RuleMatch]:
    """Move a factor along the summed axis into the other operand, where that is no larger.

    before: contract(x[i, k] * g[k], w[k, j])
    after:  contract(x, w[k, j] * g[k])

    The gain of a normalization goes into the weights, of which there are fewer elements; one rounding of w moves.
    """
    for number, each in contractions(egraph):
        for place in (0, 1) if each.plain else ():
            sizes = [prod(egraph.type_of(kid).shape) for kid in each.operands]
            if sizes[1 - place] > sizes[place]:
                continue
            for product in list(products_of(egraph, each.operands[place])):
                found = _across(egraph, each, place, product)
                if found is not None:
                    yield RuleMatch(number, (each.node, *product.nodes), found)


def _across(egraph: EGraph, each: Contraction, place: int, product: ScalarProduct) -> Callable[[], int] | None:
    other = set(each.labels[1 - place])
    labelled = labelled_factors(each, place, product)
    moved = [factor for factor in labelled if set(factor.axes) <= other and set(factor.axes) & set(each.summed)]
    rest = [factor for factor in labelled if factor not in moved]
    covered = {label for factor in rest for label in factor.axes}
    if not moved or not rest or covered != set(each.labels[place]):
        return None

    def build() -> int:
        own, mine = labelled_operand(egraph, each, place, rest, product)
        whole = ScalarFactor(each.operands[1 - place], each.labels[1 - place])
        made, labels = labelled_operand(egraph, each, 1 - place, [whole, *moved], product)
        operands, both = ((made, own), (labels, mine)) if place else ((own, made), (mine, labels))
        made = contract(egraph, operands, both, each.result, without_tile(each))
        if product.number == 1:
            return made
        kind = egraph.type_of(made)
        factor = ScalarFactor(made, tuple(range(len(kind.shape))))
        return build_product(egraph, product.number, [factor], kind.shape, kind.dtype, kind.dtype)

    return build


def _scales_into_operands(egraph: EGraph) -> Iterator[RuleMatch]:
    """Scale an operand of a product instead of the larger result.

    before: contract(a, b)[i, j] * s[i] * 0.125
    after:  contract(a[i, k] * s[i] * 0.125, b)
    """
    for number in egraph.classes:
        for product in list(products_of(egraph, number)):
            made = any(egraph.reasons[node].rule for node in product.nodes)
            if product.stored != product.dtype or product.dtype != f32 or made or not is_scaled(product):
                continue
            shape = shape_of(product.nodes[0])
            for factor in product.factors:
                whole = factor.power > 0 and len(factor.axes) == len(shape)
                for each in contractions_in(egraph, factor.kid)[:2] if whole else ():
                    placed = each.of_result(factor.axes, len(shape))
                    rest = [other for other in product.factors if other is not factor]
                    for place in (0, 1):
                        fits = all(set(other.axes) <= set(placed.labels[place]) for other in rest)
                        smaller = prod(egraph.type_of(each.operands[place]).shape) < prod(shape)
                        if fits and smaller and each.plain:
                            build = _into(egraph, placed, place, replace(product, factors=tuple(rest)))
                            yield RuleMatch(number, (*product.nodes, each.node), build)


def _into(egraph: EGraph, each: Contraction, place: int, scales: ScalarProduct) -> Callable[[], int]:
    def build() -> int:
        own, mine = each.operands[place], each.labels[place]
        kind = egraph.type_of(own)
        moved = [replace(other, axes=tuple(mine.index(axis) for axis in other.axes)) for other in scales.factors]
        factors = [ScalarFactor(own, tuple(range(len(mine)))), *moved]
        scaled = build_product(egraph, scales.number, factors, kind.shape, scales.dtype, kind.dtype)
        operands = (each.operands[0], scaled) if place else (scaled, each.operands[1])
        return contract(egraph, operands, each.labels, sorted(each.result), without_tile(each))

    return build


RULES: Final = (
    RewriteRule("gains-across-products", _KLASS, _gains_across_products),
    RewriteRule("scales-into-operands", _KLASS, _scales_into_operands),
)
