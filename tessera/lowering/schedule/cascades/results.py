"""Express reductions by the state of the loop: the algebra in which `exp(c - m)` cancels.

Expressions of results (`rsqrt(var + eps)`, `m + log(l)`) are followed into what those results are, as normal forms over
the state.  A sum that is divided by, or whose logarithm is taken, is split into an exponential that is common to its
terms and a rest that neither overflows nor vanishes.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from tessera.core.base.dtypes import DType
from tessera.core.graph.expr import Apply, Argument, Expr, Literal, apply
from tessera.lowering.schedule.cascades.normal_form import is_widening
from tessera.lowering.schedule.cascades.rebuild import accumulated_in, linear_of, sum_of
from tessera.lowering.schedule.cascades.terms import (
    LARGEST,
    Linear,
    NormalForm,
    Powers,
    Term,
    add_linear,
    collect,
    multiply,
    product,
    raised,
    scale,
    scale_linear,
    symbol,
)

_LOG_2: Final = math.log(2)
_LOWEST: Final = -1e30
"""Below every exponent, and still a number that others can be taken from."""


class Results:
    """Normal forms over the state.  All of their symbols are parameters.

    arguments: the normal form of each argument of the expressions that are asked for; filled as results become known
    tied: maxima that are anchors, by their symbols: in exponents the anchor stands for both, so that they cancel
    write: makes an expression of floats of a normal form; masked: whether a symbol is a sum of perhaps no elements
    """

    def __init__(
        self, arguments: dict[int, NormalForm], tied: Mapping[Expr, Expr],
        write: Callable[[NormalForm, DType], Expr] = sum_of, masked: Callable[[Expr], bool] = lambda _: False,
    ) -> None:  # fmt: skip
        self.arguments = arguments
        self.tied = tied
        self.write, self.masked = write, masked
        self.groups: dict[Expr, NormalForm] = {}  # what symbols that stand for sums are
        self._done: dict[Expr, NormalForm] = {}

    def value(self, expr: Expr) -> NormalForm:
        """Return what an expression of results is."""
        if expr not in self._done:
            self._done[expr] = self._value(expr)
        return self._done[expr]

    def _value(self, expr: Expr) -> NormalForm:
        if isinstance(expr, Argument):
            return self.arguments[expr.number]
        if isinstance(expr, Literal):
            if not math.isfinite(expr.value) or not expr.dtype.is_float:
                return symbol(expr, varies=False)
            return (Term(float(expr.value)),) if expr.value else ()
        rule = _RULES.get(expr.opcode) if expr.dtype.is_float else None
        return self.function(expr) if rule is None else rule(self, expr)

    def function(self, expr: Apply) -> NormalForm:
        """Return a function of results as one symbol."""
        operands = tuple([self._plain(each) for each in expr.operands])
        return symbol(Apply(expr.opcode, operands, expr.dtype, expr.predicate), varies=False)

    def _plain(self, expr: Expr) -> Expr:
        """Return an expression of results over the state, in its own type."""
        terms = self.value(expr)
        if expr.dtype.is_float:
            return self.write(terms, expr.dtype)
        if len(terms) == 1 and len(terms[0].parameters) == 1 and terms[0] == Term(1.0, parameters=terms[0].parameters):
            return terms[0].parameters[0][0]
        return sum_of(terms, expr.dtype)

    def group(self, terms: NormalForm, dtype: DType) -> NormalForm:
        """Return a sum as one term: common factors, an exponential, and the rest as one symbol."""
        if len(terms) < 2:
            return terms
        common = _common_powers([term.parameters for term in terms])
        shift = self._common_shift(terms, dtype)
        rest = collect(
            replace(
                term,
                parameters=product(term.parameters, raised(common, -1.0)),
                shift=add_linear(term.shift, scale_linear(shift, -1.0)),
            )
            for term in terms
        )
        if len(rest) < 2:
            return multiply(rest, (Term(1.0, parameters=common, shift=shift),))
        whole = self.write(rest, dtype)
        self.groups[whole] = rest
        return multiply(symbol(whole, varies=False), (Term(1.0, parameters=common, shift=shift),))

    def _common_shift(self, terms: NormalForm, dtype: DType) -> Linear:
        """Return the greatest of the exponents: what they share, plus the maximum of what they do not."""
        shifts = [term.shift for term in terms]
        shared = tuple(pair for pair in shifts[0] if all(pair in shift for shift in shifts[1:]))
        others: dict[Linear, list[Term]] = {}
        for term in terms:
            others.setdefault(add_linear(term.shift, scale_linear(shared, -1.0)), []).append(term)
        if len(others) == 1:
            return shifts[0]
        greatest: Expr | None = None
        for other, having in others.items():
            value = self._exponent(linear_of(other, dtype), having, dtype)
            greatest = value if greatest is None else apply("max", greatest, value)
        assert greatest is not None
        return add_linear(shared, ((((greatest, 1.0),), 1.0),))

    def _exponent(self, value: Expr, terms: Sequence[Term], dtype: DType) -> Expr:
        """Return the exponent of terms as it counts beside others: not at all where they sum nothing."""
        empty: Expr | None = None
        for term in terms:
            masked = next((expr for expr, power in term.parameters if power > 0 and self.masked(expr)), None)
            if masked is None:
                return value
            zero = apply("cmp", masked, Literal(0.0, masked.dtype), predicate="eq")
            empty = zero if empty is None else Apply("and", (empty, zero), zero.dtype)
        return value if empty is None else apply("select", empty, Literal(_LOWEST, dtype), value)

    def power(self, base: NormalForm, exponent: float, dtype: DType) -> NormalForm:
        """Return a normal form to a power that is a number."""
        if exponent == 1:
            return base
        terms = self.group(base, dtype)
        if not terms:
            return symbol(apply("pow", Literal(0.0, dtype), Literal(exponent, dtype)), varies=False)
        (term,) = terms
        whole = float(exponent).is_integer()
        single = len(term.parameters) <= 1 and all(power == 1 for _, power in term.parameters)
        if whole or (single and term.coefficient > 0):
            parameters = raised(term.parameters, exponent)
            return (Term(term.coefficient**exponent, (), parameters, (), (), scale_linear(term.shift, exponent)),)
        inner = sum_of((replace(term, shift=()),), dtype)
        return (Term(1.0, parameters=((inner, exponent),), shift=scale_linear(term.shift, exponent)),)

    def exponential(self, terms: NormalForm, dtype: DType) -> NormalForm:
        """Return exp of a normal form: logarithms become factors, everything else an exponent."""
        result = Term(1.0)
        for term in terms:
            if (inner := _logarithm_of(term)) is not None:
                result = replace(result, parameters=product(result.parameters, ((inner, term.coefficient),)))
            elif term.shift or self._is_guarded(term, dtype):
                key: Powers = ((self.write((term,), dtype), 1.0),)
                result = replace(result, shift=add_linear(result.shift, ((key, 1.0),)))
            else:
                key = tuple((self.tied.get(expr, expr), power) for expr, power in term.parameters)
                result = replace(result, shift=add_linear(result.shift, ((product(key), term.coefficient),)))
        return (result,)

    def _is_guarded(self, term: Term, dtype: DType) -> bool:
        """Return whether a term is more than a product of powers once it is written: nothing over nothing is 0."""
        return self.write((term,), dtype) != sum_of((term,), dtype)

    def with_anchors(self, terms: NormalForm) -> NormalForm:
        """Return terms with the anchor in place of a maximum that it is."""
        return collect(
            replace(term, parameters=product(tuple((self.tied.get(e, e), power) for e, power in term.parameters)))
            for term in terms
        )

    def logarithm(self, terms: NormalForm, dtype: DType) -> NormalForm:
        """Return the logarithm: exponents come out of it."""
        grouped = self.group(terms, dtype)
        if not grouped or grouped[0].coefficient <= 0:
            return symbol(apply("log", sum_of(grouped, dtype)), varies=False)
        (term,) = grouped
        found = [Term(coefficient, parameters=key) for key, coefficient in term.shift]
        if term.parameters:
            inside = sum_of((replace(term, shift=()),), dtype)
            found.append(Term(1.0, parameters=((apply("log", inside), 1.0),)))
        elif term.coefficient != 1:
            found.append(Term(math.log(term.coefficient)))
        return collect(found)


def _logarithm_of(term: Term) -> Expr | None:
    """Return x where the term is a multiple of log(x)."""
    if len(term.parameters) == 1 and term.parameters[0][1] == 1:
        expr = term.parameters[0][0]
        if isinstance(expr, Apply) and expr.opcode == "log":
            return expr.operands[0]
    return None


def _common_powers(each: list[Powers]) -> Powers:
    return tuple(pair for pair in each[0] if all(pair in other for other in each[1:]))


def _add(self: Results, expr: Apply) -> NormalForm:
    a, b = (self.value(operand) for operand in expr.operands)
    return _bounded(self, collect((*a, *(scale(b, -1.0) if expr.opcode == "sub" else b))), accumulated_in(expr.dtype))


def _bounded(self: Results, terms: NormalForm, dtype: DType) -> NormalForm:
    return terms if len(terms) <= LARGEST else self.group(terms, dtype)


def _neg(self: Results, expr: Apply) -> NormalForm:
    return scale(self.value(expr.operands[0]), -1.0)


def _mul(self: Results, expr: Apply) -> NormalForm:
    a, b = (self.value(operand) for operand in expr.operands)
    if len(a) > 1 and len(b) > 1:
        a, b = self.group(a, accumulated_in(expr.dtype)), self.group(b, accumulated_in(expr.dtype))
    return multiply(a, b)


def _div(self: Results, expr: Apply) -> NormalForm:
    a, b = (self.value(operand) for operand in expr.operands)
    if len(a) > 1 and len(b) > 1:
        a = self.group(a, accumulated_in(expr.dtype))
    return multiply(a, self.power(b, -1.0, accumulated_in(expr.dtype)))


def _fma(self: Results, expr: Apply) -> NormalForm:
    a, b, c = expr.operands
    return self.value(apply("add", apply("mul", a, b), c))


def _pow(self: Results, expr: Apply) -> NormalForm:
    exponent = expr.operands[1]
    if not isinstance(exponent, Literal) or not math.isfinite(exponent.value):
        return self.function(expr)
    return self.power(self.value(expr.operands[0]), float(exponent.value), accumulated_in(expr.dtype))


def _root(exponent: float) -> Callable[[Results, Apply], NormalForm]:
    return lambda self, expr: self.power(self.value(expr.operands[0]), exponent, accumulated_in(expr.dtype))


def _exp(base: float) -> Callable[[Results, Apply], NormalForm]:
    return lambda self, expr: self.exponential(scale(self.value(expr.operands[0]), base), accumulated_in(expr.dtype))


def _log(factor: float) -> Callable[[Results, Apply], NormalForm]:
    return lambda self, expr: scale(self.logarithm(self.value(expr.operands[0]), accumulated_in(expr.dtype)), factor)


def _cast(self: Results, expr: Apply) -> NormalForm:
    return self.value(expr.operands[0]) if is_widening(expr) else self.function(expr)


_RULES: Final[dict[str, Callable[[Results, Apply], NormalForm]]] = {
    "add": _add, "sub": _add, "neg": _neg, "mul": _mul, "div": _div, "fma": _fma, "pow": _pow, "sqrt": _root(0.5),
    "rsqrt": _root(-0.5), "exp": _exp(1.0), "exp2": _exp(_LOG_2), "log": _log(1.0), "log2": _log(1 / _LOG_2),
    "cast": _cast,
}  # fmt: skip
