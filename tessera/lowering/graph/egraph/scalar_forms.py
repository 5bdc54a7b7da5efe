"""Maps as products and sums: what rules read of their bodies, across maps of maps, and build again.

before: %h = map(%x, %r) "x0 * x1"; %y = map(%h, %g) "x0 * x1 * 0.5"
after:  ScalarProduct(0.5, (x[0, 1], r[0], g[1]))
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from tessera.core.base.dtypes import DType, f32, f64
from tessera.core.graph.expr import Apply, Argument, Expr, Literal, apply, cast
from tessera.core.graph.infer import labels_of, numbers
from tessera.lowering.graph.egraph.egraph import EGraph, ENode

DEPTH: Final = 4
"""How many maps of maps are read as one product."""
WIDTH: Final = 8
"""Most factors of a product, and terms of a sum."""
_WIDE: Final = (f32, f64)


@dataclass(frozen=True, slots=True)
class ScalarFactor:
    """A class in a product or a sum.

    axes: which axes of the whole its axes are; power: 1 or -1, in a sum the sign
    """

    kid: int
    axes: tuple[int, ...]
    power: int = 1


@dataclass(frozen=True, slots=True)
class ScalarProduct:
    """`number` times the factors, computed in `dtype` and rounded to `stored`."""

    number: float
    factors: tuple[ScalarFactor, ...]
    dtype: DType
    stored: DType
    nodes: tuple[ENode, ...] = ()


def products_of(egraph: EGraph, number: int) -> Iterator[ScalarProduct]:
    """Yield a class as products of other classes: as its maps say, and with maps of maps taken together."""
    for node in egraph.having(number, "map"):
        product = product_of(node)
        if product is None:
            continue
        yield product
        whole = _expanded(egraph, product)
        if whole.factors != product.factors:
            yield whole


def is_scaled(product: ScalarProduct) -> bool:
    """Return whether there is anything to move: a sign alone is not."""
    return len(product.factors) > 1 or abs(product.number) != 1


def product_of(node: ENode) -> ScalarProduct | None:
    """Return what a map multiplies and divides, None where it does anything else."""
    body = node.body
    assert isinstance(body, Argument | Literal | Apply)
    stored = body.dtype
    if isinstance(body, Apply) and body.opcode == "cast" and _is_rounding(body):
        body = body.operands[0]
    if body.dtype not in _WIDE or not stored.is_float:
        return None
    found = _product(body)
    if found is None or not found[1]:
        return None
    axes = labels_of(node.attribute("axes"))
    factors = tuple(ScalarFactor(node.kids[place], axes[place], power) for place, power in found[1])
    return ScalarProduct(found[0], factors, body.dtype, stored, (node,))


def _product(expr: Expr) -> tuple[float, tuple[tuple[int, int], ...]] | None:
    """Return the number and the arguments, each with its power, that `expr` is the product of."""
    match expr:
        case Argument():
            return 1.0, ((expr.number, 1),)
        case Literal():
            return float(expr.value), ()
        case Apply(opcode="cast", operands=(Argument() as inner,)) if _is_exact(inner.dtype, expr.dtype):
            return 1.0, ((inner.number, 1),)
        case Apply(opcode="neg", operands=(inner,)):
            found = _product(inner)
            return None if found is None else (-found[0], found[1])
        case Apply(opcode="mul" | "div", operands=(left, right)):
            first, second = _product(left), _product(right)
            if first is None or second is None:
                return None
            if expr.opcode == "mul":
                return first[0] * second[0], (*first[1], *second[1])
            if second[0] == 0 or not math.isfinite(1 / second[0]):
                return None
            return first[0] / second[0], (*first[1], *((place, -power) for place, power in second[1]))
        case _:
            return None


def _is_rounding(body: Apply) -> bool:
    """Return whether a conversion rounds what a product may have been computed in."""
    (inner,) = body.operands
    return isinstance(inner, Apply) or (isinstance(inner, Argument) and inner.dtype in _WIDE)


def _is_exact(narrow: DType, wide: DType) -> bool:
    return narrow.is_float and wide.is_float and narrow.bits < wide.bits


def _expanded(egraph: EGraph, product: ScalarProduct) -> ScalarProduct:
    """Put products in the place of the factors that are products in the same dtype."""
    factors, scale, nodes = list(product.factors), product.number, list(product.nodes)
    for _ in range(DEPTH):
        for place, factor in enumerate(factors):
            inner = _inner(egraph, factor, product.dtype)
            if inner is None or len(factors) + len(inner.factors) > WIDTH:
                continue
            if factor.power < 0 and (inner.number == 0 or not math.isfinite(1 / inner.number)):
                continue
            scale = scale * inner.number if factor.power > 0 else scale / inner.number
            factors[place : place + 1] = [
                ScalarFactor(each.kid, tuple(factor.axes[axis] for axis in each.axes), each.power * factor.power)
                for each in inner.factors
            ]
            nodes += inner.nodes
            break
        else:
            break
    return replace(product, number=scale, factors=tuple(factors), nodes=tuple(nodes))


def _inner(egraph: EGraph, factor: ScalarFactor, dtype: DType) -> ScalarProduct | None:
    """Return the oldest product that a factor is, in the dtype of the whole."""
    if egraph.type_of(factor.kid).dtype != dtype:
        return None
    for node in egraph.having(factor.kid, "map"):
        inner = product_of(node)
        if inner is not None and inner.stored == dtype and factor.kid not in node.kids:
            return inner
    return None


def sums_of(egraph: EGraph, number: int) -> Iterator[tuple[tuple[ScalarFactor, ...], ENode]]:
    """Yield a class as sums of other classes with signs, in its own dtype."""
    for node in egraph.having(number, "map"):
        body = node.body
        assert isinstance(body, Argument | Literal | Apply)
        found = _sum(body) if body.dtype in _WIDE else None
        if found is None or len(found) < 2 or len(found) > WIDTH:
            continue
        axes = labels_of(node.attribute("axes"))
        yield tuple(ScalarFactor(node.kids[place], axes[place], sign) for place, sign in found), node


def _sum(expr: Expr) -> tuple[tuple[int, int], ...] | None:
    match expr:
        case Argument():
            return ((expr.number, 1),)
        case Apply(opcode="neg", operands=(inner,)):
            found = _sum(inner)
            return None if found is None else tuple((place, -sign) for place, sign in found)
        case Apply(opcode="add" | "sub", operands=(left, right)):
            first, second = _sum(left), _sum(right)
            if first is None or second is None:
                return None
            sign = 1 if expr.opcode == "add" else -1
            return (*first, *((place, each * sign) for place, each in second))
        case _:
            return None


def shape_of(node: ENode) -> tuple[int, ...]:
    """Return the shape of a map's result."""
    return numbers(node.attribute("shape"))


def build_product(
    egraph: EGraph, number: float, factors: Sequence[ScalarFactor], shape: Sequence[int], dtype: DType, stored: DType
) -> int:
    """Return the class of a product: one map, what is divided by last; the class itself where it is one factor."""
    if number == 1 and len(factors) == 1 and factors[0].power == 1:
        (only,) = factors
        if only.axes == tuple(range(len(shape))) and egraph.type_of(only.kid).dtype == stored:
            return egraph.find(only.kid)
    # Largest first, so that the map is the epilogue of what makes that one.
    order = sorted(factors, key=lambda each: (each.power < 0, -len(each.axes)))
    arguments = _arguments(egraph, order)
    body: Expr | None = None
    for each in order:
        value = cast(arguments[each], dtype)
        if body is None:
            body = value if each.power > 0 else apply("div", Literal(number, dtype), value)
            number = number if each.power > 0 else 1.0
        else:
            body = apply("mul" if each.power > 0 else "div", body, value)
    assert body is not None
    if number == -1:
        body = apply("neg", body)
    elif number != 1:
        body = apply("mul", body, Literal(number, dtype))
    return build_map(egraph, cast(body, stored), arguments, shape)


def build_sum(egraph: EGraph, terms: Sequence[ScalarFactor], shape: Sequence[int]) -> int:
    """Return the class of a sum of classes with signs, in order; those that are added first."""
    order = sorted(terms, key=lambda each: each.power < 0)
    if len(order) == 1 and order[0].power > 0 and order[0].axes == tuple(range(len(shape))):
        return egraph.find(order[0].kid)
    arguments = _arguments(egraph, order)
    body: Expr | None = None
    for each in order:
        value = arguments[each]
        if body is None:
            body = value if each.power > 0 else apply("neg", value)
        else:
            body = apply("add" if each.power > 0 else "sub", body, value)
    assert body is not None
    return build_map(egraph, body, arguments, shape)


def _arguments(egraph: EGraph, order: Sequence[ScalarFactor]) -> dict[ScalarFactor, Argument]:
    """Number the operands of a map; what comes twice is one operand."""
    places: dict[tuple[int, tuple[int, ...]], int] = {}
    return {
        each: Argument(
            places.setdefault((egraph.find(each.kid), each.axes), len(places)), egraph.type_of(each.kid).dtype
        )
        for each in order
    }


def build_map(egraph: EGraph, body: Expr, arguments: dict[ScalarFactor, Argument], shape: Sequence[int]) -> int:
    """Return the class of a map of operands that are numbered already."""
    operands = {argument.number: each for each, argument in arguments.items()}
    chosen = [operands[place] for place in range(len(operands))]
    axes = tuple(each.axes for each in chosen)
    return egraph.add("map", [each.kid for each in chosen], body, {"axes": axes, "shape": tuple(shape)})
