"""The normal form of a reduction's body: which parts vary along the axis, and how they are combined with the others.

Parts that hold no parameter stay whole where nothing is gained by taking them apart (`tanh(s)`, `h + r`); a sum is
expanded where it meets a parameter, an exponential or an indicator.
"""

import math
from collections.abc import Callable
from enum import Flag, auto
from typing import Final

from tessera.core.base.dtypes import boolean
from tessera.core.graph.expr import Apply, Argument, Expr, Literal, apply, cast
from tessera.lowering.schedule.cascades.rebuild import sum_of
from tessera.lowering.schedule.cascades.terms import (
    LARGEST,
    Linear,
    NormalForm,
    NotSeparable,
    Term,
    add_linear,
    collect,
    conditions,
    conjunction,
    multiply,
    product,
    raised,
    scale,
    scale_linear,
    symbol,
)

_LOG_2: Final = math.log(2)
_EXPANDED: Final = 4  # the highest power of a sum that is multiplied out


class Uses(Flag):
    """The parts that an expression is made of: atoms, parameters, or both."""

    NOTHING = 0
    ATOMS = auto()
    RESULTS = auto()
    INVARIANTS = auto()


class Normalizer:
    """Makes normal forms of bodies of one region.  uses: of argument n; atoms: how many arguments are atoms."""

    def __init__(self, uses: Callable[[int], Uses]) -> None:
        self._argument_uses = uses
        self._uses: dict[Expr, Uses] = {}
        self._done: dict[tuple[Expr, bool], NormalForm] = {}

    def uses(self, expr: Expr) -> Uses:
        """Return what `expr` is made of."""
        if expr not in self._uses:
            found = Uses.NOTHING
            if isinstance(expr, Argument):
                found = self._argument_uses(expr.number)
            elif isinstance(expr, Apply):
                for operand in expr.operands:
                    found |= self.uses(operand)
            self._uses[expr] = found
        return self._uses[expr]

    def normal(self, expr: Expr, *, expand: bool = False) -> NormalForm:
        """Return the normal form; expand: also take apart sums of atoms alone, as exponents want them.

        Raises NotSeparable.
        """
        if (expr, expand) not in self._done:
            terms = self._normal(expr, expand)
            if len(terms) > LARGEST:
                raise NotSeparable(expr, f"its normal form has more than {LARGEST} terms")
            self._done[expr, expand] = terms
        return self._done[expr, expand]

    def linear(self, expr: Expr) -> Linear:
        """Return an expression without results as a sum of products with coefficients."""
        return add_linear(*self.split(expr))

    def whole(self, expr: Expr) -> NormalForm:
        """Return `expr` as one atom or one parameter.  Raises NotSeparable where it mixes atoms with results."""
        uses = self.uses(expr)
        if Uses.ATOMS in uses and Uses.RESULTS in uses:
            what = f"{expr.opcode} of" if isinstance(expr, Apply) else ""
            raise NotSeparable(expr, f"{what} atoms mixed with the results of reductions over the same axis")
        return symbol(expr, varies=Uses.ATOMS in uses)

    def _normal(self, expr: Expr, expand: bool) -> NormalForm:
        if isinstance(expr, Literal):
            if not math.isfinite(expr.value):
                return self.whole(expr)
            return (Term(float(expr.value)),) if expr.value else ()
        if isinstance(expr, Argument):
            return self.whole(expr)
        rule = _RULES.get(expr.opcode)
        return self.whole(expr) if rule is None else rule(self, expr, expand)

    def keep_whole(self, expr: Expr, terms: NormalForm, expand: bool) -> NormalForm:
        """Return a sum as one symbol where taking it apart gains nothing, else its terms."""
        if len(terms) < 2:
            return terms
        uses = self.uses(expr)
        if Uses.ATOMS not in uses:
            return self.whole(expr)
        if expand or Uses.RESULTS in uses or any(term.exponent or term.shift for term in terms):
            return terms
        # Elements that cancel, as in `visible - max(y, 1)`, cancel before they are weighted and summed.
        common = tuple(each for each in terms[0].indicator if all(each in term.indicator for term in terms))
        return multiply(self.whole(expr), (Term(1.0, indicator=common),))

    def power(self, expr: Expr, base: Expr, exponent: float, expand: bool) -> NormalForm:
        """Return the normal form of `expr`, which is `base` to a power that is a number."""
        terms = self.normal(base, expand=expand)
        whole = float(exponent).is_integer()
        if exponent == 0:
            return (Term(1.0),)
        if len(terms) == 1 and (raised_term := _raised(terms[0], exponent, whole)) is not None:
            return (raised_term,)
        if whole and 0 < exponent <= _EXPANDED:
            result = terms
            for _ in range(int(exponent) - 1):
                result = multiply(result, terms)
                if len(result) > LARGEST:
                    raise NotSeparable(expr, f"its normal form has more than {LARGEST} terms")
            return result
        return self.whole(expr)

    def exponential(self, expr: Expr, operand: Expr, base: float) -> NormalForm:
        """Return the normal form of `exp(base * operand)`; where the operand is -inf, an indicator does not hold."""
        if Uses.ATOMS not in self.uses(expr):
            _, shift = self.split(operand)
            return (Term(1.0, shift=scale_linear(shift, base)),)
        indicator, inner = self.masked(operand, -math.inf)
        known = conjunction(indicator)
        if known is None:
            return ()
        exponent, shift = self.split(inner)
        return (Term(1.0, (), (), known, scale_linear(exponent, base), scale_linear(shift, base)),)

    def split(self, operand: Expr) -> tuple[Linear, Linear]:
        """Return what of a sum varies along the axis, and what does not.  Raises NotSeparable where they mix."""
        exponent: Linear = ()
        shift: Linear = ()
        for term in self.normal(operand, expand=True):
            if term.exponent or term.shift or term.indicator:
                term = self._as_symbol(operand, term)  # noqa: PLW2901 - a term of the same value
            if not term.atoms:
                shift = add_linear(shift, ((term.parameters, term.coefficient),))
                continue
            if any(Uses.RESULTS in self.uses(expr) for expr, _ in term.parameters):
                reason = "the exponent multiplies atoms with the results of reductions over the same axis"
                raise NotSeparable(operand, reason)
            exponent = add_linear(exponent, ((product(term.atoms, term.parameters), term.coefficient),))
        return exponent, shift

    def _as_symbol(self, operand: Expr, term: Term) -> Term:
        if any(
            Uses.RESULTS in self.uses(expr) for key in (term.parameters, *(k for k, _ in term.shift)) for expr, _ in key
        ):
            raise NotSeparable(operand, "an exponential of atoms and results is inside of an exponent")
        (found,) = self.whole(sum_of((term,), operand.dtype))
        return found

    def masked(self, expr: Expr, infinity: float) -> tuple[tuple[Expr, ...], Expr]:
        """Return conditions and an expression: `expr` is that where all of them hold, elsewhere it is `infinity`."""
        if isinstance(expr, Apply) and (rule := _MASKS.get(expr.opcode)) is not None:
            return rule(self, expr, infinity)
        return (), expr


def _raised(term: Term, exponent: float, whole: bool) -> Term | None:
    """Return the power of a term; None where it has no such form."""
    if term.indicator and exponent < 0:
        return None  # it would be infinite where the condition does not hold
    single = len(term.atoms) + len(term.parameters) <= 1
    odd = all(power == 1 for _, power in (*term.atoms, *term.parameters))
    if not whole and not (term.coefficient > 0 and single and odd):
        return None  # the root of a square is no power
    return Term(
        term.coefficient**exponent,
        raised(term.atoms, exponent),
        raised(term.parameters, exponent),
        term.indicator,
        scale_linear(term.exponent, exponent),
        scale_linear(term.shift, exponent),
    )


def _number(expr: Expr) -> float | None:
    return float(expr.value) if isinstance(expr, Literal) else None


def _add(self: Normalizer, expr: Apply, expand: bool) -> NormalForm:
    a, b = (self.normal(operand, expand=expand) for operand in expr.operands)
    terms = collect((*a, *(scale(b, -1.0) if expr.opcode == "sub" else b)))
    return self.keep_whole(expr, terms, expand)


def _neg(self: Normalizer, expr: Apply, expand: bool) -> NormalForm:
    return scale(self.normal(expr.operands[0], expand=expand), -1.0)


def _mul(self: Normalizer, expr: Apply, expand: bool) -> NormalForm:
    a, b = (self.normal(operand, expand=expand) for operand in expr.operands)
    if len(a) > 1 and len(b) > 1:  # products of sums are not taken apart in exponents
        return self.keep_whole(expr, multiply(a, b), expand=False)
    return multiply(a, b)


def _div(self: Normalizer, expr: Apply, expand: bool) -> NormalForm:
    a, b = expr.operands
    divisor = self.normal(b)
    if not divisor:
        return self.whole(expr)
    reciprocal = apply("div", Literal(1.0, expr.dtype), b)
    return multiply(self.normal(a, expand=expand), self.power(reciprocal, b, -1.0, expand=False))


def _fma(self: Normalizer, expr: Apply, expand: bool) -> NormalForm:
    a, b, c = expr.operands
    return self.normal(apply("add", apply("mul", a, b), c), expand=expand)


def _pow(self: Normalizer, expr: Apply, expand: bool) -> NormalForm:
    exponent = _number(expr.operands[1])
    if exponent is None or not math.isfinite(exponent):
        return self.whole(expr)
    return self.power(expr, expr.operands[0], exponent, expand)


def _root(exponent: float) -> Callable[[Normalizer, Apply, bool], NormalForm]:
    return lambda self, expr, expand: self.power(expr, expr.operands[0], exponent, expand)


def _exp(base: float) -> Callable[[Normalizer, Apply, bool], NormalForm]:
    return lambda self, expr, _expand: self.exponential(expr, expr.operands[0], base)


def _cast(self: Normalizer, expr: Apply, expand: bool) -> NormalForm:
    (operand,) = expr.operands
    if operand.dtype == boolean and Uses.RESULTS not in self.uses(expr) and Uses.ATOMS in self.uses(expr):
        return (Term(1.0, indicator=tuple(sorted(set(conditions(operand)), key=repr))),)
    if is_widening(expr):
        return self.normal(operand, expand=expand)
    try:
        return self.whole(expr)
    except NotSeparable as error:
        reason = f"it rounds to {expr.dtype} what mixes atoms with the results of reductions over the same axis"
        raise NotSeparable(expr, reason) from error


def is_widening(expr: Apply) -> bool:
    """Return whether `expr` is a cast between floats that changes no value."""
    source = expr.operands[0].dtype
    exact = source.is_float and expr.dtype.is_float and not expr.dtype.is_storage
    return expr.opcode == "cast" and exact and (source.bits < expr.dtype.bits or source.is_storage)


def _select(self: Normalizer, expr: Apply, expand: bool) -> NormalForm:
    condition, a, b = expr.operands
    if Uses.ATOMS not in self.uses(expr):
        return self.whole(expr)
    if Uses.RESULTS in self.uses(condition):
        raise NotSeparable(expr, "the condition depends on the results of reductions over the same axis")
    if any(_number(each) is not None and not math.isfinite(_number(each) or 0.0) for each in (a, b)):
        return self.whole(expr)
    holds, fails = conditions(condition), conditions(Apply("not", (condition,), boolean))
    chosen, other = self.normal(a, expand=expand), self.normal(b, expand=expand)
    terms = collect((*_where(chosen, holds), *_where(other, fails)))
    plain = all(not (term.exponent or term.shift) for term in (*chosen, *other))
    if Uses.RESULTS not in self.uses(expr) and plain and (expand or (chosen and other)):
        return self.whole(expr)
    return terms


def _where(terms: NormalForm, indicator: tuple[Expr, ...]) -> NormalForm:
    known = conjunction(indicator)
    return () if known is None else multiply(terms, (Term(1.0, indicator=known),))


def _extremum(self: Normalizer, expr: Apply, expand: bool) -> NormalForm:
    neutral = -math.inf if expr.opcode == "max" else math.inf
    for operand, other in (expr.operands, expr.operands[::-1]):
        if _number(other) == neutral:
            return self.normal(operand, expand=expand)
    return self.whole(expr)


_RULES: Final[dict[str, Callable[[Normalizer, Apply, bool], NormalForm]]] = {
    "add": _add, "sub": _add, "neg": _neg, "mul": _mul, "div": _div, "fma": _fma, "pow": _pow, "sqrt": _root(0.5),
    "rsqrt": _root(-0.5), "exp": _exp(1.0), "exp2": _exp(_LOG_2), "cast": _cast, "select": _select, "max": _extremum,
    "min": _extremum,
}  # fmt: skip

_Masked = tuple[tuple[Expr, ...], Expr]


def _masked_sum(self: Normalizer, expr: Apply, infinity: float) -> _Masked:
    a, b = expr.operands
    one, left = self.masked(a, infinity)
    two, right = self.masked(b, -infinity if expr.opcode == "sub" else infinity)
    return (*one, *two), apply(expr.opcode, left, right)


def _masked_neg(self: Normalizer, expr: Apply, infinity: float) -> _Masked:
    found, inner = self.masked(expr.operands[0], -infinity)
    return found, apply("neg", inner)


def _masked_product(self: Normalizer, expr: Apply, infinity: float) -> _Masked:
    a, b = expr.operands
    if (by := _number(b)) is not None and by:
        found, inner = self.masked(a, math.copysign(infinity, infinity * by))
        return found, apply(expr.opcode, inner, b)
    if expr.opcode == "mul" and (by := _number(a)) is not None and by:
        found, inner = self.masked(b, math.copysign(infinity, infinity * by))
        return found, apply("mul", a, inner)
    return (), expr


def _masked_fma(self: Normalizer, expr: Apply, infinity: float) -> _Masked:
    a, b, c = expr.operands
    return self.masked(apply("add", apply("mul", a, b), c), infinity)


def _masked_select(self: Normalizer, expr: Apply, infinity: float) -> _Masked:
    condition, a, b = expr.operands
    if Uses.RESULTS in self.uses(condition):
        return (), expr
    if _number(b) == infinity:
        found, inner = self.masked(a, infinity)
        return (*conditions(condition), *found), inner
    if _number(a) == infinity:
        found, inner = self.masked(b, infinity)
        return (*conditions(Apply("not", (condition,), boolean)), *found), inner
    return (), expr


def _masked_extremum(self: Normalizer, expr: Apply, infinity: float) -> _Masked:
    neutral = -math.inf if expr.opcode == "max" else math.inf
    for operand, other in (expr.operands, expr.operands[::-1]):
        if _number(other) == neutral:
            return self.masked(operand, infinity)
    return (), expr


def _masked_cast(self: Normalizer, expr: Apply, infinity: float) -> _Masked:
    if not is_widening(expr):
        return (), expr
    found, inner = self.masked(expr.operands[0], infinity)
    return found, cast(inner, expr.dtype)


_MASKS: Final[dict[str, Callable[[Normalizer, Apply, float], _Masked]]] = {
    "add": _masked_sum, "sub": _masked_sum, "neg": _masked_neg, "mul": _masked_product, "div": _masked_product,
    "fma": _masked_fma, "select": _masked_select, "max": _masked_extremum, "min": _masked_extremum,
    "cast": _masked_cast,
}  # fmt: skip
