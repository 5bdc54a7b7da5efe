"""Rules for products of normalized rows: the raw rows are multiplied, and rows are scaled and shifted behind it.

before: contract(bf16((x[i, k] - m[i]) * r[i] * g[k] + b[k]), w[k, j])
after:  v = bf16(g[k] * w[k, j]); (contract(x, v)[i, j] - m[i] * sum_k v[k, j]) * r[i] + sum_k b[k] * w[k, j]

The sums are those of the *rounded* weights, so that what a large mean adds to the product is taken away again exactly,
but for roundings of the accumulating type.  Weights that are centred before they are rounded have an error of 0.2 where
the mean is a hundred times the deviation; these have that of rounded weights, whatever the mean is.  Only rows that are
stored as short floats already are taken as they are: a raw row of f32 would be rounded before its mean is gone.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from tessera.core.graph.expr import Argument, Expr, Literal, apply, cast
from tessera.lowering.graph.egraph.affine_forms import AffineTerm, RoundedSum, rounded_sum_of
from tessera.lowering.graph.egraph.contractions import Contraction, contract, contractions, without_tile
from tessera.lowering.graph.egraph.egraph import EGraph
from tessera.lowering.graph.egraph.scalar_forms import ScalarFactor, build_map, build_product
from tessera.lowering.graph.rules.rule import RewriteRule, RuleMatch


@dataclass(frozen=True, slots=True)
class _Term:
    """A term of an operand, with the labels of the contraction for axes.

    along: factors along the summed axes; beside: all others
    """

    number: float
    along: tuple[ScalarFactor, ...]
    beside: tuple[ScalarFactor, ...]


@dataclass(frozen=True, slots=True)
class _Rows:
    """An operand of a contraction as raw rows with a scale and shifts.

    raw: the rows; main: what these are multiplied with; shifts: the other terms
    """

    each: Contraction
    place: int
    raw: int
    main: _Term
    shifts: tuple[_Term, ...]


def _rounded_sums_out_of_products(egraph: EGraph) -> Iterator[RuleMatch]:
    """Shift and scale the rows of a product instead of those of its operand, which was rounded after both.

    before: contract(bf16((x[i, k] - m[i]) * r[i]), w[k, j])
    after:  (contract(x, w)[i, j] - m[i] * sum_k w[k, j]) * r[i]
    """
    return _normalized(egraph, gained=False)


def _gained_sums_out_of_products(egraph: EGraph) -> Iterator[RuleMatch]:
    """Do so where there is a gain along the summed axis: it is rounded into the other operand, if that is no larger.

    before: contract(bf16((x[i, k] - m[i]) * r[i] * g[k] + b[k]), w[k, j])
    after:  v = bf16(g[k] * w[k, j]); (contract(x, v)[i, j] - m[i] * sum_k v[k, j]) * r[i] + sum_k b[k] * w[k, j]
    """
    return _normalized(egraph, gained=True)


def _normalized(egraph: EGraph, *, gained: bool) -> Iterator[RuleMatch]:
    for number, each in contractions(egraph):
        for place in (0, 1) if each.plain else ():
            sizes = [prod(egraph.type_of(kid).shape) for kid in each.operands]
            if sizes[1 - place] > sizes[place] or not set(each.summed) <= set(each.labels[0]) & set(each.labels[1]):
                continue
            whole = rounded_sum_of(egraph, each.operands[place])
            rows = None if whole is None else _rows(egraph, each, place, whole)
            if whole is not None and rows is not None and gained == bool(rows.main.along):
                yield RuleMatch(number, (each.node, *whole.nodes), _behind(egraph, rows, whole))


def _rows(egraph: EGraph, each: Contraction, place: int, whole: RoundedSum) -> _Rows | None:
    """Return an operand as raw rows of its own type with factors along one axis or the other, None where it is none."""
    mine = each.labels[place]
    stored = egraph.type_of(each.operands[place]).dtype
    if whole.dtype != egraph.type_of(each.node_class(egraph)).dtype:
        return None
    main: tuple[int, _Term] | None = None
    shifts: list[_Term] = []
    for term in whole.terms:
        raw = [factor for factor in term.factors if len(factor.axes) == len(mine)]
        split = _split(each, place, replace(term, factors=tuple(each for each in term.factors if each not in raw)))
        if split is None or len(raw) > 1 or (raw and main is not None):
            return None
        if not raw:
            shifts.append(split)
            continue
        if raw[0].power != 1 or raw[0].axes != tuple(range(len(mine))) or egraph.type_of(raw[0].kid).dtype != stored:
            return None
        main = raw[0].kid, split
    if main is None or not (shifts or main[1].along):
        return None  # a scale alone has a rule of its own
    return _Rows(each, place, main[0], main[1], tuple(shifts))


def _split(each: Contraction, place: int, term: AffineTerm) -> _Term | None:
    mine, other = each.labels[place], set(each.labels[1 - place])
    factors = [replace(factor, axes=tuple(mine[axis] for axis in factor.axes)) for factor in term.factors]
    along = tuple(factor for factor in factors if set(factor.axes) & set(each.summed))
    beside = tuple(factor for factor in factors if factor not in along)
    if any(factor.power != 1 for factor in factors) or any(not set(factor.axes) <= other for factor in along):
        return None
    return _Term(term.number, along, beside)


def _behind(egraph: EGraph, rows: _Rows, whole: RoundedSum) -> Callable[[], int]:
    def build() -> int:
        each, place = rows.each, rows.place
        weights = _scaled(egraph, rows, rows.main.along, whole, rounded=True)
        operands = (weights, rows.raw) if place else (rows.raw, weights)
        made = contract(egraph, operands, each.labels, each.result, without_tile(each))
        common = [factor for factor in rows.main.beside if all(factor in term.beside for term in rows.shifts[:1])]
        inner = [term for term in rows.shifts if all(factor in term.beside for factor in common)]
        outer = [term for term in rows.shifts if term not in inner]
        writer = _Epilogue(egraph, each)
        total = writer.product(rows.main.number, [ScalarFactor(made, each.result), *_less(rows.main.beside, common)])
        for term in inner:
            total = writer.plus(total, term.number, [_summed(egraph, rows, term, weights, whole),
                                                     *_less(term.beside, common)])  # fmt: skip
        for factor in common:
            total = apply("mul", total, writer.value(factor))
        for term in outer:
            total = writer.plus(total, term.number, [_summed(egraph, rows, term, weights, whole), *term.beside])
        return writer.finish(total)

    return build


def _less(factors: Sequence[ScalarFactor], common: Sequence[ScalarFactor]) -> list[ScalarFactor]:
    left = list(factors)
    for each in common:
        left.remove(each)
    return left


def _scaled(egraph: EGraph, rows: _Rows, along: Sequence[ScalarFactor], whole: RoundedSum, *, rounded: bool) -> int:
    """Return the other operand times factors along the summed axes, rounded as it was, or in the wide type."""
    other, labels = rows.each.operands[1 - rows.place], rows.each.labels[1 - rows.place]
    kind = egraph.type_of(other)
    factors = [replace(each, axes=tuple(labels.index(axis) for axis in each.axes)) for each in along]
    factors = [ScalarFactor(other, tuple(range(len(labels)))), *factors]
    return build_product(egraph, 1.0, factors, kind.shape, whole.dtype, kind.dtype if rounded else whole.dtype)


def _summed(egraph: EGraph, rows: _Rows, term: _Term, weights: int, whole: RoundedSum) -> ScalarFactor:
    """Return the sums of the other operand that a term is multiplied with: of the rounded one where it has its gain."""
    labels = rows.each.labels[1 - rows.place]
    if set(term.along) == set(rows.main.along):
        kind = egraph.type_of(weights)
        every = ScalarFactor(weights, tuple(range(len(labels))))
        wide = build_product(egraph, 1.0, [every], kind.shape, whole.dtype, whole.dtype)
    else:
        wide = _scaled(egraph, rows, term.along, whole, rounded=False)
    axes = tuple(axis for axis, label in enumerate(labels) if label in rows.each.summed)
    total = egraph.add("reduce", (wide,), None, {"axes": axes, "kind": "sum"})
    return ScalarFactor(total, tuple(label for label in labels if label not in rows.each.summed))


class _Epilogue:
    """Writes the map behind a contraction.  arguments: its operands, with their axes of the result."""

    def __init__(self, egraph: EGraph, each: Contraction) -> None:
        self.egraph, self.each = egraph, each
        self.kind = egraph.type_of(each.node_class(egraph))
        self.arguments: dict[ScalarFactor, Argument] = {}

    def value(self, factor: ScalarFactor) -> Expr:
        """Return a factor, whose axes are labels, in the type of the sums."""
        axes = tuple(self.each.result.index(label) for label in factor.axes)
        placed = ScalarFactor(self.egraph.find(factor.kid), axes)
        dtype = self.egraph.type_of(factor.kid).dtype
        return cast(self.arguments.setdefault(placed, Argument(len(self.arguments), dtype)), self.kind.dtype)

    def product(self, number: float, factors: Sequence[ScalarFactor]) -> Expr:
        """Return a number times factors."""
        total = self.value(factors[0])
        for each in factors[1:]:
            total = apply("mul", total, self.value(each))
        return total if number == 1 else apply("mul", total, Literal(number, self.kind.dtype))

    def plus(self, total: Expr, number: float, factors: Sequence[ScalarFactor]) -> Expr:
        """Return a sum and one more product."""
        return apply("sub" if number < 0 else "add", total, self.product(abs(number), factors))

    def finish(self, body: Expr) -> int:
        """Return the class of the map."""
        return build_map(self.egraph, body, self.arguments, self.kind.shape)


RULES: Final = (
    RewriteRule("rounded-sums-out-of-products", "widen", _rounded_sums_out_of_products, ("reassociate",)),
    RewriteRule("gained-sums-out-of-products", "fold", _gained_sums_out_of_products, ("reassociate", "widen")),
)
