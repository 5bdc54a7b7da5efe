"""Build the graph of expressions of leaves: views of the inputs, maps, reductions and contractions."""

import math
from collections.abc import Sequence

from tessera.core.base.dtypes import boolean, i64
from tessera.core.base.reductions import identity
from tessera.core.graph.build import GraphBuilder
from tessera.core.graph.expr import Apply, Argument, Expr, Literal, apply, arguments, substitute
from tessera.core.graph.graph import Value
from tessera.core.graph.index_maps import Affine, IndexMap, Term
from tessera.lowering.raising.positions import AffinePosition, Axis
from tessera.lowering.raising.terms import GatheredLoad, Load, PositionValue, ReductionLeaf, SumOfProducts, Terms, Test

Made = tuple[Value, tuple[Axis, ...]]


class Materializer:
    """Appends the nodes of expressions, each leaf once."""

    def __init__(self, builder: GraphBuilder, terms: Terms) -> None:
        self._builder, self._terms = builder, terms
        self._made: dict[int, Made] = {}

    def value(self, expr: Expr, axes: Sequence[Axis]) -> Value:
        """Return `expr` as a tensor with these axes."""
        operands: list[Made] = []
        renumbered: dict[int, Expr] = {}
        for number, each in self._used(expr).items():
            renumbered[number] = Argument(len(operands), each.dtype)
            operands.append(self._leaf(number))
        if isinstance(expr, Argument) and operands[0][1] == tuple(axes):
            return operands[0][0]
        places = [[axes.index(axis) for axis in mine] for _, mine in operands]
        values = [value for value, _ in operands]
        return self._builder.map(substitute(expr, renumbered), values, places, [axis.extent for axis in axes])

    def _used(self, expr: Expr) -> dict[int, Argument]:
        found: dict[int, Argument] = {}
        stack = [expr]
        seen: set[Expr] = set()
        while stack:
            each = stack.pop()
            if each in seen:
                continue
            seen.add(each)
            if isinstance(each, Argument):
                found[each.number] = each
            elif isinstance(each, Apply):
                stack += each.operands
        return {number: found[number] for number in arguments(expr)}

    def _leaf(self, number: int) -> Made:
        if number not in self._made:
            match self._terms.leaves[number]:
                case Load() as load:
                    made = self._load(load)
                case PositionValue(place):
                    made = self._place(place)
                case Test(place):
                    made = self._test(place)
                case GatheredLoad() as gathered:
                    made = self._gathered(gathered)
                case ReductionLeaf() as reduction:
                    made = self._reduction(reduction, sorted(self._terms.free_of(number)))
                case SumOfProducts() as contraction:
                    made = self._contraction(contraction, sorted(self._terms.free_of(number)))
            self._made[number] = made
        return self._made[number]

    def _load(self, load: Load) -> Made:
        shape = load.value.type.shape
        plain = [index.axis for index in load.indices]
        known = [axis for axis in plain if axis is not None]
        if len(set(known)) == len(shape) and all(axis.extent == n for axis, n in zip(known, shape, strict=True)):
            return load.value, tuple(known)
        axes = sorted(frozenset[Axis]().union(*(index.axes for index in load.indices)))
        affine = tuple(_affine(index, axes) for index in load.indices)
        padded = any(i.low < 0 or i.high >= n for i, n in zip(load.indices, shape, strict=True))
        index_map = IndexMap(tuple(axis.extent for axis in axes), affine, padded)
        return self._builder.view(load.value, index_map), tuple(axes)

    def _place(self, place: AffinePosition) -> Made:
        if place.axis is not None:
            return self._builder.iota(place.axis.extent), (place.axis,)
        return self._of_axes(place, _number(place))

    def _test(self, place: AffinePosition) -> Made:
        return self._of_axes(place, apply("cmp", _number(place), Literal(0, i64), predicate="ge"))

    def _of_axes(self, place: AffinePosition, body: Expr) -> Made:
        """Apply `body` to the numbers of the axes of a position."""
        axes = sorted(place.axes)
        iotas = [self._builder.iota(axis.extent) for axis in axes]
        shape = [axis.extent for axis in axes]
        return self._builder.map(body, iotas, [(n,) for n in range(len(axes))], shape), tuple(axes)

    def _gathered(self, gathered: GatheredLoad) -> Made:
        """Gather along the one axis whose index is computed, or from the flat form."""
        value, indices, shape = gathered.value, gathered.indices, gathered.value.type.shape
        along_one = self._rows(gathered)
        if along_one is not None:
            return along_one
        inside: Expr = Literal(True, boolean)
        flat: Expr = Literal(0, i64)
        for index, extent in zip(indices, shape, strict=True):
            low = apply("cmp", index, Literal(0, i64), predicate="ge")
            high = apply("cmp", index, Literal(extent, i64), predicate="lt")
            inside = apply("and", inside, apply("and", low, high))
            flat = apply("add", apply("mul", flat, Literal(extent, i64)), index)
        place = apply("select", inside, flat, Literal(-1, i64))
        axes = sorted(self._terms.free(place))
        table = self._builder.reshape(value, (math.prod(shape),))
        return self._builder.gather(table, self.value(place, axes), 0), tuple(axes)

    def _rows(self, gathered: GatheredLoad) -> Made | None:
        shape, plain = gathered.value.type.shape, [self._axis(index) for index in gathered.indices]
        computed = [n for n, axis in enumerate(plain) if axis is None or axis.extent != shape[n]]
        if len(computed) != 1:
            return None
        (where,) = computed
        others = [axis for axis in plain if axis is not None]
        axes = sorted(self._terms.free(gathered.indices[where]))
        if plain[where] is not None or len(set(others)) < len(others) or set(others) & set(axes):
            return None
        index = self.value(gathered.indices[where], axes)
        return self._builder.gather(gathered.value, index, where), (*others[:where], *axes, *others[where:])

    def _axis(self, expr: Expr) -> Axis | None:
        leaf = self._terms.leaves[expr.number] if isinstance(expr, Argument) else None
        return leaf.position.axis if isinstance(leaf, PositionValue) else None

    def _reduction(self, reduction: ReductionLeaf, free: Sequence[Axis]) -> Made:
        dtype = reduction.body.dtype
        nothing = Literal(identity(reduction.kind, dtype.numpy).item(), dtype)
        body = self._terms.chosen(reduction.conditions, reduction.body, nothing)
        whole = self.value(body, (*free, *reduction.axes))
        removed = range(len(free), len(free) + len(reduction.axes))
        return self._builder.reduce(whole, removed, reduction.kind), tuple(free)

    def _order(self, expr: Expr) -> list[Axis]:
        """Return the axes of an expression as they lie in memory, where it is a tensor already."""
        return list(self._leaf(expr.number)[1]) if isinstance(expr, Argument) else sorted(self._terms.free(expr))

    def _contraction(self, leaf: SumOfProducts, free: Sequence[Axis]) -> Made:
        a, b = leaf.factors
        a = self._terms.chosen(leaf.conditions, a, Literal(0 if a.dtype.is_integer else 0.0, a.dtype))
        axes = [self._order(each) for each in (a, b)]
        axes[0] += [axis for axis in leaf.axes if axis not in axes[0] and axis not in axes[1]]
        numbers = {axis: n for n, axis in enumerate(sorted({*axes[0], *axes[1]}))}
        order = axes[0]
        if len(leaf.axes) > 1:  # the order of the first factor's summed labels is that of the sums
            order = [axis for axis in order if axis not in leaf.axes] + [x for x in leaf.axes if x in order]
        values = self.value(a, order), self.value(b, axes[1])
        labels = [[numbers[axis] for axis in mine] for mine in (order, axes[1])]
        made = self._builder.contract(
            *values, labels, [numbers[axis] for axis in free], accumulate=leaf.dtype, exact=leaf.exact,
            compute=leaf.compute,
        )  # fmt: skip
        return made, tuple(free)


def _number(place: AffinePosition) -> Expr:
    """Return a position as an expression of its axes, in order."""
    axes = sorted(place.axes)
    total: Expr = Literal(place.constant, i64)
    for digit, scale in place.terms:
        part: Expr = Argument(axes.index(digit.axis), i64)
        part = apply("floordiv", part, Literal(digit.divisor, i64)) if digit.divisor > 1 else part
        part = apply("mod", part, Literal(digit.modulus, i64)) if digit.modulus else part
        total = apply("add", total, apply("mul", part, Literal(scale, i64)))
    return total


def _affine(place: AffinePosition, axes: Sequence[Axis]) -> Affine:
    terms = (Term(axes.index(digit.axis), scale, digit.divisor, digit.modulus) for digit, scale in place.terms)
    return Affine(place.constant, tuple(terms))
