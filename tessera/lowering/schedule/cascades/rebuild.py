"""Expressions made of terms: what the loop sums, and what its results are."""

from collections.abc import Iterable
from typing import Final

from tessera.core.base.dtypes import DType, f32
from tessera.core.graph.expr import Apply, Expr, Literal, apply, cast
from tessera.lowering.schedule.cascades.terms import Linear, NormalForm, Powers, Term

_UNROLLED: Final = 4  # powers up to this are products


def accumulated_in(dtype: DType) -> DType:
    """Return the type that sums of `dtype` are kept in: floats of 16 bits and less in f32."""
    return f32 if dtype.is_float and dtype.bits < f32.bits else dtype


def number(value: float, dtype: DType) -> Expr:
    """Return a number as an expression."""
    return Literal(value, dtype)


def negated(expr: Expr) -> Expr:
    """Return `-expr`."""
    if isinstance(expr, Apply) and expr.opcode == "neg":
        return expr.operands[0]
    return Literal(-expr.value, expr.dtype) if isinstance(expr, Literal) else apply("neg", expr)


def all_of(conditions: Iterable[Expr]) -> Expr | None:
    """Return the conjunction; None of none."""
    found: Expr | None = None
    for condition in conditions:
        found = condition if found is None else Apply("and", (found, condition), condition.dtype)
    return found


def _power(base: Expr, exponent: float) -> Expr:
    """Return `base` to a power above 0."""
    if exponent == 0.5:
        return apply("sqrt", base)
    if not float(exponent).is_integer() or exponent > _UNROLLED:
        return apply("pow", base, number(exponent, base.dtype))
    result = base
    for _ in range(int(exponent) - 1):
        result = apply("mul", result, base)
    return result


def _multiplied(factors: list[Expr]) -> Expr | None:
    result: Expr | None = None
    for factor in factors:
        result = factor if result is None else apply("mul", result, factor)
    return result


def product_of(powers: Powers, dtype: DType, coefficient: float = 1.0) -> Expr:
    """Return `coefficient * prod expr^power` in `dtype`: one division, by all that has a negative power."""
    above = [_power(cast(expr, dtype), power) for expr, power in powers if power > 0]
    above += [apply("rsqrt", cast(expr, dtype)) for expr, power in powers if power == -0.5]
    below = [_power(cast(expr, dtype), -power) for expr, power in powers if power < 0 and power != -0.5]
    top, bottom = _multiplied(above), _multiplied(below)
    if top is None:
        top = number(coefficient, dtype)
    elif coefficient == -1:
        top = negated(top)
    elif coefficient != 1:
        top = apply("mul", top, number(coefficient, dtype))
    return top if bottom is None else apply("div", top, bottom)


def linear_of(linear: Linear, dtype: DType) -> Expr:
    """Return a linear form as an expression, positive summands first."""
    return _summed([(key, coefficient) for key, coefficient in linear], dtype)


def _summed(pairs: list[tuple[Powers, float]], dtype: DType) -> Expr:
    ordered = [pair for pair in pairs if pair[1] > 0] + [pair for pair in pairs if pair[1] < 0]
    result: Expr | None = None
    for key, coefficient in ordered:
        if result is None:
            result = product_of(key, dtype, coefficient)
        else:
            part = product_of(key, dtype, abs(coefficient))
            result = apply("add" if coefficient > 0 else "sub", result, part)
    return number(0.0, dtype) if result is None else result


def term_of(term: Term, dtype: DType) -> Expr:
    """Return a term as an expression."""
    powers = (*term.atoms, *term.parameters)
    exponent = (*term.exponent, *term.shift)
    result = product_of(powers, dtype, term.coefficient)
    if exponent:
        factor = apply("exp", linear_of(exponent, dtype))
        unit = isinstance(result, Literal) and abs(result.value) == 1
        result = apply("mul", result, factor) if not unit else factor if term.coefficient > 0 else negated(factor)
    condition = all_of(term.indicator)
    return result if condition is None else apply("select", condition, result, number(0.0, dtype))


def sum_of(terms: NormalForm, dtype: DType) -> Expr:
    """Return a normal form as an expression, positive terms first, numbers last."""
    result: Expr | None = None
    for term in sorted(terms, key=lambda each: (each.coefficient < 0, each.is_constant)):
        if result is None:
            result = term_of(term, dtype)
        else:
            size = Term(abs(term.coefficient), term.atoms, term.parameters, term.indicator, term.exponent, term.shift)
            result = apply("add" if term.coefficient > 0 else "sub", result, term_of(size, dtype))
    return number(0.0, dtype) if result is None else result
