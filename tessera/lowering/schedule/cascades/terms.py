"""Terms of normal forms: `coefficient * [indicator] * prod atom^a * prod parameter^b * exp(exponent + shift)`.

Atoms vary along the reduced axis, parameters do not.  A normal form is a sum of terms, each with another key.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, TypeAlias

from tessera.core.graph.expr import Apply, Expr, to_text

Powers: TypeAlias = tuple[tuple[Expr, float], ...]
"""A product of powers: pairs (expression, exponent other than 0), in canonical order, each expression once."""
Linear: TypeAlias = tuple[tuple[Powers, float], ...]
"""A sum of products with coefficients other than 0, in canonical order; the empty product is 1."""
NormalForm: TypeAlias = tuple["Term", ...]

LARGEST: Final = 16
"""The most terms that a normal form may have: each distinct one becomes an accumulator."""
_CANCELLED: Final = 2.0**-50  # of the largest summand: what is left of 49 * (1 / 49) - 1 is 0


class NotSeparable(Exception):
    """A body is not a sum of products of atoms and parameters: the loop must run twice, or store.

    expression: the part that is not, reason: why, in words
    """

    def __init__(self, expression: Expr, reason: str) -> None:
        super().__init__(f"{to_text(expression)}: {reason}")
        self.expression = expression
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Term:
    """One term.  indicator: conditions over atoms that all hold where the term is not 0."""

    coefficient: float
    atoms: Powers = ()
    parameters: Powers = ()
    indicator: tuple[Expr, ...] = ()
    exponent: Linear = ()
    shift: Linear = ()

    @property
    def key(self) -> "Term":
        """The term with coefficient 1: terms with one key are added up."""
        return replace(self, coefficient=1.0)

    @property
    def is_constant(self) -> bool:
        """Return whether the term is a number."""
        return self == Term(self.coefficient)


@lru_cache(maxsize=1 << 14)
def order(expr: Expr) -> tuple[str, str]:
    """Return what expressions are sorted by: nothing but their text, so that no run differs from another."""
    return to_text(expr), expr.dtype.name


def _powers_order(powers: Powers) -> tuple[object, ...]:
    return tuple((order(expr), power) for expr, power in powers)


def product(*factors: Powers) -> Powers:
    """Return the product of products."""
    found: dict[Expr, float] = {}
    for factor in factors:
        for expr, power in factor:
            found[expr] = found.get(expr, 0.0) + power
    return tuple(sorted(((expr, power) for expr, power in found.items() if power), key=lambda pair: order(pair[0])))


def raised(powers: Powers, exponent: float) -> Powers:
    """Return `powers` to the power `exponent`."""
    return tuple((expr, power * exponent) for expr, power in powers) if exponent else ()


def _total(summands: Iterable[float]) -> float:
    """Return the sum, 0 where what is left of it is rounding only."""
    values = list(summands)
    total = sum(values)
    return total if abs(total) > _CANCELLED * max(map(abs, values), default=0.0) else 0.0


def add_linear(*parts: Linear) -> Linear:
    """Return the sum of linear forms."""
    found: dict[Powers, list[float]] = {}
    for part in parts:
        for key, coefficient in part:
            found.setdefault(key, []).append(coefficient)
    sums = ((key, _total(each)) for key, each in found.items())
    return tuple(sorted((pair for pair in sums if pair[1]), key=lambda pair: _powers_order(pair[0])))


def scale_linear(linear: Linear, scale: float) -> Linear:
    """Return `linear` times a number."""
    return tuple((key, coefficient * scale) for key, coefficient in linear) if scale else ()


def negation(condition: Expr) -> Expr:
    """Return the condition that holds where `condition` does not."""
    if isinstance(condition, Apply) and condition.opcode == "not":
        return condition.operands[0]
    return Apply("not", (condition,), condition.dtype)


def conditions(condition: Expr) -> tuple[Expr, ...]:
    """Return the conditions whose conjunction `condition` is."""
    if isinstance(condition, Apply) and condition.opcode == "and":
        return tuple(each for operand in condition.operands for each in conditions(operand))
    if isinstance(condition, Apply) and condition.opcode == "not":
        inner = condition.operands[0]
        if isinstance(inner, Apply) and inner.opcode == "or":
            return tuple(each for operand in inner.operands for each in conditions(negation(operand)))
        if isinstance(inner, Apply) and inner.opcode == "not":
            return conditions(inner.operands[0])
    return (condition,)


def conjunction(*indicators: tuple[Expr, ...]) -> tuple[Expr, ...] | None:
    """Return the conditions that hold where those of all `indicators` do; None where they contradict each other."""
    found = {each for indicator in indicators for each in indicator}
    if any(negation(each) in found for each in found):
        return None
    return tuple(sorted(found, key=order))


def multiply(a: NormalForm, b: NormalForm) -> NormalForm:
    """Return the product of normal forms."""
    found: list[Term] = []
    for s in a:
        for t in b:
            indicator = conjunction(s.indicator, t.indicator)
            if indicator is not None:
                found.append(
                    Term(
                        s.coefficient * t.coefficient,
                        product(s.atoms, t.atoms),
                        product(s.parameters, t.parameters),
                        indicator,
                        add_linear(s.exponent, t.exponent),
                        add_linear(s.shift, t.shift),
                    )
                )
    return collect(found)


def collect(terms: Iterable[Term]) -> NormalForm:
    """Return the sum of terms: those with one key added up, in canonical order."""
    found: dict[Term, list[float]] = {}
    for term in terms:
        found.setdefault(term.key, []).append(term.coefficient)
    sums = [replace(key, coefficient=_total(each)) for key, each in found.items()]
    return tuple(sorted((term for term in sums if term.coefficient), key=_term_order))


def _term_order(term: Term) -> tuple[object, ...]:
    return (
        _powers_order(term.atoms),
        _powers_order(term.parameters),
        tuple(order(each) for each in term.indicator),
        tuple((_powers_order(key), value) for key, value in term.exponent),
        tuple((_powers_order(key), value) for key, value in term.shift),
    )


def scale(terms: NormalForm, by: float) -> NormalForm:
    """Return a normal form times a number."""
    return tuple(replace(term, coefficient=term.coefficient * by) for term in terms) if by else ()


def symbol(expr: Expr, *, varies: bool) -> NormalForm:
    """Return the normal form of an expression taken as a whole: an atom where it varies, else a parameter."""
    powers = ((expr, 1.0),)
    return (Term(1.0, atoms=powers),) if varies else (Term(1.0, parameters=powers),)


def rates(terms: NormalForm, atom: Expr, parameter: Expr) -> tuple[float, ...]:
    """Return by how much a parameter may have to move where `atom` moves by 1: in (x - r / 8)^2 r moves by 8."""
    known = {term.key: term.coefficient for term in terms}
    found = {1.0: None}
    for term in terms:
        power = dict(term.atoms).get(atom, 0.0)
        if power < 1 or parameter in dict(term.parameters):
            continue
        atoms, parameters = product(term.atoms, ((atom, -1.0),)), product(term.parameters, ((parameter, 1.0),))
        other = known.get(replace(term.key, atoms=atoms, parameters=parameters))
        if other is not None:
            found[-power * term.coefficient / other] = None
    return tuple(found)


def shifted_by(
    terms: NormalForm, atom: Expr, moved: Mapping[Expr, float], slopes: Mapping[Linear, float]
) -> NormalForm:
    """Return the derivative where `atom` and parameters move together: (d/dx + sum rate d/dr) of the normal form.

    moved: parameters with their rates
    slopes: d/dx of each exponent, where it is a number; an exponent that it lacks does not depend on x
    """
    found: list[Term] = []
    if any(
        expr in moved and (len(key) > 1 or power != 1) for term in terms for key, _ in term.shift for expr, power in key
    ):
        return (Term(1.0),)  # an exponent that is not linear in a parameter: not invariant
    for term in terms:
        for expr, power in term.atoms:
            if expr == atom:
                found.append(
                    replace(term, coefficient=term.coefficient * power, atoms=product(term.atoms, ((atom, -1.0),)))
                )
        for expr, power in term.parameters:
            if expr in moved:
                lowered = product(term.parameters, ((expr, -1.0),))
                found.append(replace(term, coefficient=term.coefficient * power * moved[expr], parameters=lowered))
        slope = slopes.get(term.exponent, 0.0)
        for key, coefficient in term.shift:
            if len(key) == 1 and key[0][0] in moved and key[0][1] == 1:
                slope += coefficient * moved[key[0][0]]
        found.append(replace(term, coefficient=term.coefficient * slope))
    return collect(found)
