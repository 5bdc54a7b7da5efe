"""Scales around products: how rules of several classes move factors of an operand behind, into or across it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tessera.core.base.dtypes import bf16
from tessera.lowering.graph.egraph.contractions import Contraction, contract, contractions, extents_of, without_tile
from tessera.lowering.graph.egraph.egraph import EGraph
from tessera.lowering.graph.egraph.scalar_forms import ScalarFactor, ScalarProduct, build_product, products_of
from tessera.lowering.graph.rules.rule import RuleMatch


def scales_out_of_products(egraph: EGraph, *, rounded: bool) -> Iterator[RuleMatch]:
    """Yield the operands of products with factors that no sum goes over, each with the product without them.

    rounded: only operands that are rounded to a shorter type, or only those that are not
    """
    for number, each in contractions(egraph):
        for place in (0, 1) if each.plain else ():
            for product in list(products_of(egraph, each.operands[place])):
                if rounded != (product.stored != product.dtype):
                    continue
                build = _behind(egraph, each, place, product)
                if build is not None:
                    yield RuleMatch(number, (each.node, *product.nodes), build)


def _behind(egraph: EGraph, each: Contraction, place: int, product: ScalarProduct) -> Callable[[], int] | None:
    """Return what builds the product without the factors of an operand that no sum goes over, times these."""
    labelled = labelled_factors(each, place, product)
    moved = [factor for factor in labelled if set(factor.axes) <= set(each.result)]
    rest = [factor for factor in labelled if factor not in moved]
    left = {label for factor in rest for label in factor.axes}
    other = each.labels[1 - place]
    if not (moved or abs(product.number) != 1) or not set(each.summed) <= left | set(other):
        return None
    if product.stored != product.dtype and not _stays_in_range(egraph, rest, product):
        return None
    if not rest and not each.summed:
        return None
    if product.dtype != egraph.type_of(each.node_class(egraph)).dtype:
        return None
    return lambda: _product_then_scales(egraph, each, place, product, rest, moved)


def _stays_in_range(egraph: EGraph, rest: Sequence[ScalarFactor], product: ScalarProduct) -> bool:
    """Return whether what is left of a rounded product is one factor that fits its type.

    What is normalized fits any type; before its scale, it may be too large or too small for f16: f16 has to be f16
    already, and bf16 has the exponents of f32.
    """
    if len(rest) != 1 or rest[0].power != 1:
        return False
    return product.stored in (bf16, egraph.type_of(rest[0].kid).dtype)


def _product_then_scales(
    egraph: EGraph, each: Contraction, place: int, product: ScalarProduct, rest: Sequence[ScalarFactor],
    moved: Sequence[ScalarFactor],
) -> int:  # fmt: skip
    other, labels = each.operands[1 - place], each.labels[1 - place]
    if rest:
        own, mine = labelled_operand(egraph, each, place, rest, product)
        result = tuple(label for label in each.result if label in mine or label in labels)
        operands, both = ((other, own), (labels, mine)) if place else ((own, other), (mine, labels))
        made = contract(egraph, operands, both, result, without_tile(each))
    else:
        result = tuple(label for label in labels if label in each.result)
        axes = tuple(axis for axis, label in enumerate(labels) if label not in each.result)
        made = egraph.add("reduce", (other,), None, {"axes": axes, "kind": "sum"})
    factors = [
        replace(factor, axes=tuple(each.result.index(label) for label in factor.axes))
        for factor in (ScalarFactor(made, result), *moved)
    ]
    shape = egraph.type_of(each.node_class(egraph)).shape
    return build_product(egraph, product.number, factors, shape, product.dtype, product.dtype)


def labelled_factors(each: Contraction, place: int, product: ScalarProduct) -> list[ScalarFactor]:
    """Return the factors of an operand with the labels of a contraction for axes."""
    mine = each.labels[place]
    return [replace(factor, axes=tuple(mine[axis] for axis in factor.axes)) for factor in product.factors]


def labelled_operand(
    egraph: EGraph, each: Contraction, place: int, factors: Sequence[ScalarFactor], product: ScalarProduct
) -> tuple[int, tuple[int, ...]]:
    """Return the product of factors as an operand, rounded as the whole one was, and its labels."""
    extents, used = extents_of(egraph, each), {label for factor in factors for label in factor.axes}
    mine = tuple(label for label in each.labels[place] if label in used)
    placed = [replace(factor, axes=tuple(mine.index(label) for label in factor.axes)) for factor in factors]
    shape = [extents[label] for label in mine]
    return build_product(egraph, 1.0, placed, shape, product.dtype, product.stored), mine
