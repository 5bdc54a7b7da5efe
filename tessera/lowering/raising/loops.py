"""Contents after loops: sums and extremes over their trips, the last trip's value, or trips one after the other."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tessera.core.graph.expr import Expr, arguments
from tessera.core.graph.expr import cast as cast_expr
from tessera.core.graph.graph import Tensor
from tessera.core.graph.graph import Value as TensorValue
from tessera.core.program.program import Op, Value
from tessera.core.program.types import Scalar, Tile
from tessera.lowering.raising.evaluate import Evaluator
from tessera.lowering.raising.positions import AffinePosition, Axis, along
from tessera.lowering.raising.reductions import Carried, carried_step, over
from tessera.lowering.raising.refusals import NotRaised
from tessera.lowering.raising.scopes import At, Binding, LoopScope, constant
from tessera.lowering.raising.terms import (
    ALWAYS,
    Conditions,
    Element,
    Load,
    ReductionLeaf,
    SumOfProducts,
    Terms,
    computed,
    conjunction,
    is_zero,
)

MOST_UNROLLED: Final = 64
"""Trips of a loop that are taken one after the other, where they are no reduction."""


@dataclass(frozen=True, slots=True)
class Trips:
    """The trips of a loop: index = lower + step * axis, where `conditions` hold."""

    axis: Axis
    lower: AffinePosition
    step: int
    conditions: Conditions

    @property
    def index(self) -> AffinePosition:
        """The loop's index."""
        return self.lower.plus(along(self.axis), self.step)


def trips_of(evaluator: Evaluator, op: Op, scope: LoopScope) -> Trips:
    """Return the trips of a `for`.  Raises NotRaised where values decide how many there are."""
    lower, upper, step = (evaluator.index(each, scope) for each in op.operands[:3])
    if (
        not isinstance(lower, AffinePosition)
        or not isinstance(upper, AffinePosition)
        or not isinstance(step, AffinePosition)
    ):
        raise NotRaised("how often this loop runs depends on values", op.span)
    size, length = step.number, upper.plus(lower, -1)
    if size is None or size <= 0:
        raise NotRaised("a loop whose step is no positive number is not raised", op.span)
    axis = evaluator.terms.axis(max(0, -(-length.high // size)))
    condition = length.add(-1).plus(along(axis), -size)
    return Trips(axis, lower, size, ALWAYS if length.number is not None else conjunction([condition]))


class LoopValues:
    """The results of loops, and what they carry within a trip."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator, self._terms = evaluator, evaluator.terms
        self._inside: dict[tuple[Op, LoopScope], _Symbolic] = {}
        self._trips: dict[tuple[Op, LoopScope], list[LoopScope]] = {}

    def result(self, op: Op, number: int, at: At, scope: LoopScope) -> Element:
        """Return an element of the result `number`."""
        symbolic = self._symbolic(op, scope)
        return self._after(op, number, at, scope, symbolic, symbolic.trips.conditions)

    def at_trip(self, op: Op, scope: LoopScope, trips: Trips) -> LoopScope:
        """Return the scope of one trip: what is carried is what earlier trips left."""
        symbolic = self._symbolic(op, scope)
        earlier = along(trips.axis).plus(along(symbolic.trips.axis), -1).add(-1)
        conditions = conjunction((*symbolic.trips.conditions, earlier))

        def carried(number: int, at: At) -> Element:
            return self._after(op, number, at, scope, symbolic, conditions)

        index, *values = op.regions[0].arguments
        bindings = {index: constant(Element(trips.index)), **{v: _bound(carried, n) for n, v in enumerate(values)}}
        return LoopScope(bindings, scope)

    def _symbolic(self, op: Op, scope: LoopScope) -> "_Symbolic":
        key = (op, scope)
        if key not in self._inside:
            self._inside[key] = _Symbolic(self._terms, op, scope, trips_of(self._evaluator, op, scope))
        return self._inside[key]

    def _after(
        self, op: Op, number: int, at: At, scope: LoopScope, symbolic: "_Symbolic", conditions: Conditions
    ) -> Element:
        trips = symbolic.trips
        init = self._evaluator.element(op.operands[3 + number], at, scope)
        if trips.axis.extent == 0:
            return init
        after = self._evaluator.element(op.regions[0].ops[-1].operands[number], at, symbolic.scope)
        value, before = self._terms.expr(after.value), symbolic.before(number, at)
        step = carried_step(value, before)
        if step is not None and not symbolic.mentioned(step.term):
            return Element(self._reduced(step, init, conditions, trips), init.exists)
        whole = conditions == trips.conditions
        if not symbolic.mentioned(value) and not conditions and whole:
            last = {trips.axis: AffinePosition(trips.axis.extent - 1)}
            return Element(self._terms.moved(value, last), self._terms.moved_conditions(after.exists, last))
        if not whole:
            raise NotRaised("what this loop carries from trip to trip is no sum, max or min", op.span)
        return self._unrolled(op, number, at, scope, trips)

    def _reduced(self, step: Carried, init: Element, conditions: Conditions, trips: Trips) -> Expr:
        first = self._terms.expr(init.value)
        if not step.kind:
            return first
        made = over(self._terms, step.kind, step.term, conditions, trips.axis)
        opcode = "add" if step.kind == "sum" else step.kind
        if step.kind == "sum" and is_zero(first):
            return cast_expr(made, first.dtype)
        return cast_expr(computed(opcode, cast_expr(first, made.dtype), made), first.dtype)

    def _unrolled(self, op: Op, number: int, at: At, scope: LoopScope, trips: Trips) -> Element:
        """Take the trips one after the other."""
        count = trips.axis.extent
        if count > MOST_UNROLLED:
            raise NotRaised(
                f"what this loop carries is no sum, max or min, and {count} trips are too many to be taken one by one",
                op.span,
            )
        key = (op, scope)
        if key not in self._trips:
            self._trips[key] = self._scopes(op, scope, trips)
        result = op.regions[0].ops[-1].operands[number]
        made = self._evaluator.element(op.operands[3 + number], at, scope)
        for inside in self._trips[key]:
            made = self._evaluator.element(result, at, inside)
        return made

    def _scopes(self, op: Op, scope: LoopScope, trips: Trips) -> list[LoopScope]:
        if trips.conditions:
            raise NotRaised("a loop that carries more than sums, and whose length varies, is not raised", op.span)
        made: list[LoopScope] = []
        arguments_, yielded = op.regions[0].arguments, op.regions[0].ops[-1].operands
        before = self._reader(op.operands[3:], scope)
        for trip in range(trips.axis.extent):
            index = Element(trips.lower.add(trip * trips.step))
            carried = {value: _bound(before, n) for n, value in enumerate(arguments_[1:])}
            bindings = {arguments_[0]: constant(index), **carried}
            inside = LoopScope(bindings, scope)
            made.append(inside)
            before = self._reader(yielded, inside)
        return made

    def _reader(self, values: Sequence[Value], scope: LoopScope) -> Callable[[int, At], Element]:
        """Return the elements of values in a scope as a function of their number and the place."""
        return lambda number, at: self._evaluator.element(values[number], at, scope)


def _bound(read: Callable[[int, At], Element], number: int) -> Binding:
    return lambda at: read(number, at)


class _Symbolic:
    """A trip of a loop in which what it carries is unknown: elements of tensors that stand for it."""

    def __init__(self, terms: Terms, op: Op, scope: LoopScope, trips: Trips) -> None:
        self.trips, self._terms = trips, terms
        self._values: list[TensorValue] = []
        bindings: dict[Value, Binding] = {op.regions[0].arguments[0]: constant(Element(trips.index))}
        for number, value in enumerate(op.regions[0].arguments[1:]):
            kind = value.type
            assert isinstance(kind, Scalar | Tile)
            self._values.append(TensorValue(Tensor(kind.dtype, kind.shape if isinstance(kind, Tile) else ())))
            bindings[value] = _bound(lambda n, at: Element(self.before(n, at)), number)
        self.scope = LoopScope(bindings, scope)

    def before(self, number: int, at: At) -> Expr:
        """Return what stands for an element of a carried value."""
        value = self._values[number]
        return self._terms.leaf(Load(value, at), value.type.dtype)

    def mentioned(self, expr: Expr) -> bool:
        """Return whether an expression depends on what the loop carries."""
        return any(self._in_leaf(number) for number in arguments(expr))

    def _in_leaf(self, number: int) -> bool:
        match self._terms.leaves[number]:
            case Load(value):
                return value in self._values
            case ReductionLeaf(_, body, conditions):
                inside = [body, *(c for c in conditions if not isinstance(c, AffinePosition))]
            case SumOfProducts(factors, conditions):
                inside = [*factors, *(c for c in conditions if not isinstance(c, AffinePosition))]
            case _:
                return False
        return any(self.mentioned(each) for each in inside)
