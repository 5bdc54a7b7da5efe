"""Terms over atoms and parameters as terms over the state: sums become moments, moved back from their centres."""

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from tessera.core.base.dtypes import DType
from tessera.core.graph.expr import Apply, Expr, Literal, apply, cast
from tessera.core.schedule.cascade import Region
from tessera.lowering.schedule.cascades.moments import AnchorKey, CentreKey, MomentKey, Plan, Sum, anchor_data
from tessera.lowering.schedule.cascades.rebuild import accumulated_in, number, sum_of
from tessera.lowering.schedule.cascades.results import Results
from tessera.lowering.schedule.cascades.state import (
    anchor_symbol,
    atom_symbol,
    centre_symbol,
    extremum_symbol,
    moment_symbol,
)
from tessera.lowering.schedule.cascades.terms import Linear, NormalForm, Term, collect, multiply, scale, symbol


@dataclass(frozen=True, slots=True)
class _Moved:
    """A result that is taken relative to the centre of an atom."""

    result: Expr
    centre: CentreKey


class StateForms:
    """Normal forms over the state of one plan.

    tied: of extrema that are anchors, their type and anchor
    """

    def __init__(self, plan: Plan, region: Region, tied: Mapping[int, tuple[DType, int]]) -> None:
        self.plan = plan
        self.extent = region.extent
        arguments = {place: symbol(atom_symbol(place, region.atoms[place]), varies=False) for place in region.invariant}
        keys = list(plan.anchors)
        same: dict[Expr, Expr] = {
            extremum_symbol(place, dtype): anchor_symbol(anchor, keys[anchor].dtype)
            for place, (dtype, anchor) in tied.items()
        }
        self.results = Results(arguments, same, self._sum_of, self._is_masked)
        self._moments = {moment_symbol(place, key.dtype): key for key, place in plan.moments.items()}

    def extremum(self, place: int, dtype: DType, offset: Linear) -> NormalForm:
        """Return a maximum or minimum plus what does not vary."""
        parts = [symbol(extremum_symbol(place, dtype), varies=False)]
        for key, coefficient in offset:
            part: NormalForm = (Term(coefficient),)
            for expr, power in key:
                part = multiply(part, self.results.power(self.results.value(expr), power, accumulated_in(dtype)))
            parts.append(part)
        return collect(term for part in parts for term in part)

    def sum(self, each: Sum) -> NormalForm:
        """Return what a sum is."""
        dtype = accumulated_in(each.dtype)
        moved: dict[Expr, Mapping[Expr, float]] = {}
        for atom, results in self.plan.invariant_pairs(each.terms):
            taken = {result for others in moved.values() for result in others}
            if not taken.intersection(results):
                moved[atom] = results
        found: list[Term] = []
        for term in each.terms:
            found += self._term(term, dtype, moved)
        terms = collect(found)
        return terms if len(terms) <= 2 * len(each.terms) else self.results.group(terms, dtype)

    def _term(self, term: Term, dtype: DType, moved: Mapping[Expr, Mapping[Expr, float]]) -> NormalForm:
        key = self.plan.moment_of(term, dtype)
        relative: dict[Expr, tuple[CentreKey, float]] = {}
        for (atom, exponent), centre in self.plan.families.items():
            if exponent == term.exponent and atom in moved:
                relative.update({result: (centre, rate) for result, rate in moved[atom].items()})
        result = scale(self._moment(key, set(moved)), term.coefficient)
        for expr, power in term.parameters:
            base = self.results.value(expr)
            if expr in relative:
                base = self._relative(base, *relative[expr])
            result = multiply(result, self._grouped_power(base, power, dtype))
        return multiply(result, self._shift(term.shift, dtype))

    def _relative(self, base: NormalForm, key: CentreKey, rate: float) -> NormalForm:
        """Return a result less a multiple of a centre: nothing where it is the maximum that the centre is."""
        if key.anchor is not None:
            base = self.results.with_anchors(base)
        return collect((*base, *scale(self._centre(key), -rate)))

    def _grouped_power(self, base: NormalForm, power: float, dtype: DType) -> NormalForm:
        if not base and power > 0:
            return ()
        # Two terms may cancel with those of other results, more would only be many.
        kept = len(base) == 1 or (power == 1 and len(base) == 2)
        return self.results.power(base if kept else self.results.group(base, dtype), power, dtype)

    def _shift(self, shift: Linear, dtype: DType) -> NormalForm:
        result: NormalForm = (Term(1.0),)
        for key, coefficient in shift:
            part: NormalForm = (Term(coefficient),)
            for expr, power in key:
                value = self.results.value(expr)
                payload = value if power == 1 and len(key) == 1 else self._grouped_power(value, power, dtype)
                part = multiply(part, payload)
            result = multiply(result, self.results.exponential(part, dtype))
        return result

    def _moment(self, key: MomentKey, moved: set[Expr]) -> NormalForm:
        """Return the sum of `prod atom^power`: powers of atoms that nothing is moved with are moved back."""
        choices = [[power] if centre.atom in moved else list(range(power + 1)) for centre, power in key.centred]
        found: NormalForm = ()
        for kept in itertools.product(*choices):
            centred = tuple((centre, left) for (centre, _), left in zip(key.centred, kept, strict=True) if left)
            part = self._symbol(replace(key, centred=centred))
            for (centre, power), left in zip(key.centred, kept, strict=True):
                payload = self._centre(centre)
                for _ in range(power - left):
                    part = multiply(part, payload)
                part = scale(part, float(math.comb(power, left)))
            found = collect((*found, *part))
        return multiply(found, self._exponential(key.anchor))

    def _symbol(self, key: MomentKey) -> NormalForm:
        if self.extent is not None and key == MomentKey((), (), (), None, key.dtype):
            return (Term(float(self.extent)),)
        return symbol(moment_symbol(self.plan.moments[key], key.dtype), varies=False)

    def _anchor(self, key: AnchorKey) -> NormalForm:
        constant = anchor_data(self.plan, key).constant
        if constant is not None:
            return (Term(constant),) if constant else ()
        return symbol(anchor_symbol(self.plan.anchors[key], key.dtype), varies=False)

    def _exponential(self, key: AnchorKey | None) -> NormalForm:
        if key is None:
            return (Term(1.0),)
        return self.results.exponential(self._anchor(key), key.dtype)

    def _centre(self, key: CentreKey) -> NormalForm:
        if key.anchor is not None:
            return self._anchor(key.anchor)
        return symbol(centre_symbol(self.plan.centres[key], key.dtype), varies=False)

    def expression(self, form: NormalForm, dtype: DType) -> Expr:
        """Return a normal form over the state as an expression."""
        if not dtype.is_float:
            return form[0].parameters[0][0] if len(form) == 1 and form[0].parameters else sum_of(form, dtype)
        return self._sum_of(form, accumulated_in(dtype))

    def _sum_of(self, form: NormalForm, wide: DType) -> Expr:
        """Return a normal form as an expression of floats, in which nothing over or times anything is 0."""
        guards = {term: self._guards(term) for term in form}
        plain = tuple(term for term in form if not guards[term])
        result = sum_of(plain, wide) if plain or not form else None
        for term, divisors in guards.items():
            if divisors:
                part = self._guarded(term, divisors, wide)
                result = part if result is None else apply("add", result, part)
        assert result is not None
        return result

    @staticmethod
    def _guarded(term: Term, zeros: tuple[Expr, ...], dtype: DType) -> Expr:
        part = sum_of((term,), dtype)
        for each in zeros:
            empty = apply("cmp", cast(each, dtype), number(0.0, dtype), predicate="eq")
            part = apply("select", empty, Literal(0.0, dtype), part)
        return part

    def _guards(self, term: Term) -> tuple[Expr, ...]:
        """Return what a term is 0 with, whatever its other factors are."""
        divisors = self._vanishing(term)
        others = [(expr, power) for expr, power in term.parameters if expr not in divisors]
        if not term.shift and all(self._is_finite(expr, power) for expr, power in others):
            return divisors
        # A sum of no elements: those that a mask hides were never multiplied with an infinite factor.
        masked = {
            self._moments[expr].indicator: expr
            for expr, power in others
            if power > 0 and expr in self._moments and self._moments[expr].indicator
        }
        return (*divisors, *masked.values())

    def _is_masked(self, expr: Expr) -> bool:
        return expr in self._moments and bool(self._moments[expr].indicator)

    def _is_finite(self, expr: Expr, power: float) -> bool:
        """Return whether a factor is finite where what the loop sums is."""
        if power < 0:
            return _never_zero(expr)
        return expr in self._moments or isinstance(expr, Literal)

    def _vanishing(self, term: Term) -> tuple[Expr, ...]:
        """Return the divisors of a term that are 0 only where the term is: sums of exponentials without an element."""
        above = [self._moments[expr] for expr, power in term.parameters if power > 0 and expr in self._moments]
        below = [expr for expr, power in term.parameters if power < 0]
        return tuple(
            expr for expr in below if any(_within(mine, theirs) for mine in above for theirs in self._summands(expr))
        )

    def _summands(self, divisor: Expr) -> list[MomentKey]:
        """Return sums of exponentials that are all 0 where `divisor` is."""
        if divisor in self._moments:
            return [self._moments[divisor]] if not self._moments[divisor].payload else []
        terms = self.results.groups.get(divisor, ())
        found: list[MomentKey] = []
        for term in terms:
            keys = [self._moments[expr] for expr, power in term.parameters if power == 1 and expr in self._moments]
            if term.coefficient < 0 or len(term.parameters) > 1 or any(key.payload or key.centred for key in keys):
                return []
            if not keys:
                return []  # it never is: an exponential of results
            found += keys
        return found


def _never_zero(expr: Expr) -> bool:
    """Return whether a divisor is replaced where it is 0."""
    if not isinstance(expr, Apply) or expr.opcode != "select":
        return False
    condition, instead, divisor = expr.operands
    zero = apply("cmp", divisor, Literal(0.0, divisor.dtype), predicate="eq")
    return condition == zero and isinstance(instead, Literal) and instead.value != 0


def _within(mine: MomentKey, theirs: MomentKey) -> bool:
    """Return whether each element of one sum of exponentials is one of the other's."""
    if mine.anchor is None or theirs.anchor is None or theirs.centred:
        return False
    return mine.anchor.exponent == theirs.anchor.exponent and set(theirs.indicator) <= set(mine.indicator)
