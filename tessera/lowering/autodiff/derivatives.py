"""Symbolic partial derivatives of scalar expressions.

Where a function has no derivative, one is chosen:
* `max` and `min` of equal operands, and of a NaN: all of it goes to the first operand
* `abs` at 0: 0
* `sqrt`, `log`, `rsqrt` and division at 0: the limit, an infinity; a `select` that guards them keeps it out
* `pow` with base 0 or exponent 0: the factor that vanishes wins, 0 instead of `0 * inf`
* `floor`, `ceil`, `floordiv`, comparisons, integers, and conversions from or to them: 0

Derivatives are computed in f32, or f64 where the operands are, whatever shorter floats are converted in between.
"""

import math
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from tessera.core.graph.expr import Apply, Argument, Expr, Literal, apply, walk
from tessera.lowering.autodiff.algebra import (
    add,
    convert,
    div,
    is_number,
    is_zero,
    literal,
    mul,
    neg,
    select,
    sub,
    wide,
)  # fmt: skip

Rule: TypeAlias = Callable[[Apply, tuple[Expr, ...]], Expr]
"""The derivative of an operation, from those of its operands."""


def derivative(expr: Expr, number: int) -> Expr:
    """Return the partial derivative of `expr` by argument `number`, a float; a number 0 where there is none.

    The result is of f32 or f64.  Raises KeyError for an opcode without a rule.
    """
    done: dict[Expr, Expr] = {}
    for each in walk(expr):
        zero = literal(0, wide(each.dtype))
        if isinstance(each, Argument):
            done[each] = literal(1, zero.dtype) if each.number == number else zero
        elif isinstance(each, Apply) and each.dtype.is_float:
            inner = tuple([done[operand] for operand in each.operands])
            done[each] = zero if all(map(is_zero, inner)) else convert(_RULES[each.opcode](each, inner), zero.dtype)
        else:
            done[each] = zero
    return done[expr]


def _wide(expr: Expr) -> Expr:
    return convert(expr, wide(expr.dtype))


def _operands(e: Apply) -> tuple[Expr, ...]:
    return tuple(map(_wide, e.operands))


def _mul(e: Apply, d: tuple[Expr, ...]) -> Expr:
    a, b = _operands(e)
    return add(mul(d[0], b), mul(a, d[1]))


def _div(e: Apply, d: tuple[Expr, ...]) -> Expr:
    a, b = _operands(e)
    if is_number(a, 1):  # of a reciprocal: without a further division
        return neg(mul(mul(_wide(e), _wide(e)), d[1]))
    return sub(div(d[0], b), mul(div(_wide(e), b), d[1]))


def _mod(e: Apply, d: tuple[Expr, ...]) -> Expr:
    """Of a - floor(a / b) * b."""
    a, b = _operands(e)
    return sub(d[0], mul(apply("floordiv", a, b), d[1]))


def _max(e: Apply, d: tuple[Expr, ...]) -> Expr:
    a, b = e.operands
    return select(apply("cmp", a, b, predicate="lt" if e.opcode == "max" else "gt"), d[1], d[0])


def _pow(e: Apply, d: tuple[Expr, ...]) -> Expr:
    a, b = _operands(e)
    zero, one = literal(0, a.dtype), literal(1, a.dtype)
    by_base = mul(b, _power(a, sub(b, one)))
    if not isinstance(b, Literal):
        by_base = select(apply("cmp", b, zero, predicate="eq"), zero, by_base)
    # 0 ** b is 0 for every b > 0: the logarithm of a base 0 counts as 0.
    base = select(apply("cmp", a, zero, predicate="eq"), one, a)
    return add(mul(by_base, d[0]), mul(mul(_wide(e), apply("log", base)), d[1]))


def _power(a: Expr, b: Expr) -> Expr:
    if is_number(b, 0):
        return literal(1, a.dtype)
    return a if is_number(b, 1) else apply("pow", a, b)


def _fma(e: Apply, d: tuple[Expr, ...]) -> Expr:
    a, b, _ = _operands(e)
    return add(add(mul(d[0], b), mul(a, d[1])), d[2])


def _abs(e: Apply, d: tuple[Expr, ...]) -> Expr:
    (a,) = _operands(e)
    zero = literal(0, a.dtype)
    below, above = (apply("cmp", a, zero, predicate=each) for each in ("lt", "gt"))
    return mul(select(below, literal(-1, a.dtype), select(above, literal(1, a.dtype), zero)), d[0])


def _rsqrt(e: Apply, d: tuple[Expr, ...]) -> Expr:
    y = _wide(e)
    return mul(mul(literal(-0.5, y.dtype), mul(y, mul(y, y))), d[0])


def _tanh(e: Apply, d: tuple[Expr, ...]) -> Expr:
    y = _wide(e)
    return mul(sub(literal(1, y.dtype), mul(y, y)), d[0])


def _erf(e: Apply, d: tuple[Expr, ...]) -> Expr:
    (a,) = _operands(e)
    return mul(mul(literal(2 / math.sqrt(math.pi), a.dtype), apply("exp", neg(mul(a, a)))), d[0])


def _sqrt(e: Apply, d: tuple[Expr, ...]) -> Expr:
    y = _wide(e)
    return mul(div(literal(0.5, y.dtype), y), d[0])


def _log2(e: Apply, d: tuple[Expr, ...]) -> Expr:
    (a,) = _operands(e)
    return mul(div(literal(1 / math.log(2), a.dtype), a), d[0])


def _select(e: Apply, d: tuple[Expr, ...]) -> Expr:
    return select(e.operands[0], d[1], d[2])


def _zero(e: Apply, d: tuple[Expr, ...]) -> Expr:
    del d
    return literal(0, wide(e.dtype))


_RULES: Final[Mapping[str, Rule]] = {
    "add": lambda _, d: add(d[0], d[1]), "sub": lambda _, d: sub(d[0], d[1]), "mul": _mul, "div": _div,
    "floordiv": _zero, "mod": _mod, "min": _max, "max": _max, "pow": _pow, "fma": _fma, "select": _select,
    "cast": lambda _, d: d[0], "neg": lambda _, d: neg(d[0]), "abs": _abs,
    "exp": lambda e, d: mul(_wide(e), d[0]),
    "exp2": lambda e, d: mul(mul(literal(math.log(2), wide(e.dtype)), _wide(e)), d[0]),
    "log": lambda e, d: div(d[0], _wide(e.operands[0])), "log2": _log2, "sqrt": _sqrt, "rsqrt": _rsqrt,
    "sin": lambda e, d: mul(apply("cos", _wide(e.operands[0])), d[0]),
    "cos": lambda e, d: mul(neg(apply("sin", _wide(e.operands[0]))), d[0]),
    "tanh": _tanh, "erf": _erf, "floor": _zero, "ceil": _zero,
}  # fmt: skip
