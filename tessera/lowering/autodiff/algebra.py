"""Build scalar expressions that are simple from the start: zeros, ones and numbers do not survive.

A 0 of a derivative is structural: `0 * x` is 0 even where x is infinite or no number.  A product with
`select(c, a, 0)` goes into the branch, so that what the condition excludes is excluded from the product, too: neither
an infinite derivative nor an infinite cotangent comes out of a branch that was not taken.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from tessera.core.base.dtypes import DType, f32, f64
from tessera.core.graph.expr import Apply, Argument, Expr, Literal, Number, apply, walk
from tessera.core.graph.expr import cast as cast_expr


def wide(dtype: DType) -> DType:
    """Return the dtype in which derivatives of a float are computed: f64 for f64, else f32."""
    return f64 if dtype == f64 else f32


def literal(value: Number, dtype: DType) -> Literal:
    """Return a number of a float dtype of at least 32 bits, rounded to it."""
    if dtype == f64 or value in (0, 1):  # nothing to round
        return Literal(float(value), dtype)
    with np.errstate(all="ignore"):
        return Literal(float(dtype.numpy.type(value)), dtype)


def is_number(expr: Expr, value: float) -> bool:
    """Return whether `expr` is this number; -0 is 0."""
    return isinstance(expr, Literal) and not isinstance(expr.value, bool) and expr.value == value


def is_zero(expr: Expr) -> bool:
    """Return whether `expr` is structurally zero."""
    return is_number(expr, 0)


def meet(a: Expr, b: Expr) -> tuple[Expr, Expr]:
    """Return two floats of 32 or 64 bits in the wider of their dtypes."""
    dtype = f64 if f64 in (a.dtype, b.dtype) else f32
    return convert(a, dtype), convert(b, dtype)


def convert(expr: Expr, dtype: DType) -> Expr:
    """Convert to a float dtype of at least 32 bits, numbers at once, conversions that lose nothing through."""
    if isinstance(expr, Literal) and dtype in (f32, f64):
        return literal(expr.value, dtype)
    return cast_expr(expr, dtype)


def _folded(function: Callable[[np.floating, np.floating], np.floating], a: Expr, b: Expr) -> Expr | None:
    """Return the number that a function of two numbers of f32 or f64 is, None where they are no such numbers."""
    if not isinstance(a, Literal) or not isinstance(b, Literal) or a.dtype not in (f32, f64):
        return None
    with np.errstate(all="ignore"):
        return literal(float(function(a.dtype.numpy.type(a.value), a.dtype.numpy.type(b.value))), a.dtype)


def neg(a: Expr) -> Expr:
    """Return -a."""
    if isinstance(a, Literal):
        return Literal(-a.value, a.dtype)
    if isinstance(a, Apply) and a.opcode == "neg":
        return a.operands[0]
    return apply("neg", a)


def add(a: Expr, b: Expr) -> Expr:
    """Return a + b."""
    a, b = meet(a, b)
    if is_zero(a) or is_zero(b):
        return b if is_zero(a) else a
    if (folded := _folded(operator.add, a, b)) is not None:
        return folded
    if a == b:
        return mul(literal(2, a.dtype), a)
    if isinstance(b, Apply) and b.opcode == "neg":
        return sub(a, b.operands[0])
    return apply("add", a, b)


def sub(a: Expr, b: Expr) -> Expr:
    """Return a - b."""
    a, b = meet(a, b)
    if is_zero(b):
        return a
    if is_zero(a):
        return neg(b)
    if (folded := _folded(operator.sub, a, b)) is not None:
        return folded
    if isinstance(b, Apply) and b.opcode == "neg":
        return add(a, b.operands[0])
    return apply("sub", a, b)


def mul(a: Expr, b: Expr) -> Expr:
    """Return a * b; numbers come first."""
    a, b = meet(a, b)
    if isinstance(b, Literal):
        a, b = b, a
    if isinstance(a, Literal):
        return _scaled(a, b)
    for x, y in ((a, b), (b, a)):
        if isinstance(y, Apply) and y.opcode == "mul" and isinstance(y.operands[0], Literal):
            return _scaled(y.operands[0], mul(x, y.operands[1]) if y is b else mul(y.operands[1], x))
        if isinstance(y, Apply) and y.opcode == "neg":
            return neg(mul(x, y.operands[0]) if y is b else mul(y.operands[0], x))
        if isinstance(y, Apply) and y.opcode == "select" and any(map(is_zero, y.operands[1:])):
            condition, chosen, other = y.operands
            return select(condition, mul(x, chosen), mul(x, other))
        if isinstance(y, Apply) and y.opcode == "div" and is_number(y.operands[0], 1):
            return div(x, y.operands[1])
    return apply("mul", a, b)


def _scaled(factor: Literal, x: Expr) -> Expr:
    """Return a number times an expression."""
    if is_zero(factor):
        return literal(0, factor.dtype)
    if is_number(factor, 1):
        return x
    if is_number(factor, -1):
        return neg(x)
    if (folded := _folded(operator.mul, factor, x)) is not None:
        return folded
    if isinstance(x, Apply) and x.opcode == "neg":
        return _scaled(literal(-factor.value, factor.dtype), x.operands[0])
    if isinstance(x, Apply) and x.opcode == "mul" and isinstance(x.operands[0], Literal):
        return mul(mul(factor, x.operands[0]), x.operands[1])
    if isinstance(x, Apply) and x.opcode == "div" and isinstance(x.operands[0], Literal):
        return div(mul(factor, x.operands[0]), x.operands[1])
    if isinstance(x, Apply) and x.opcode == "select" and any(map(is_zero, x.operands[1:])):
        return select(x.operands[0], mul(factor, x.operands[1]), mul(factor, x.operands[2]))
    return apply("mul", factor, x)


def div(a: Expr, b: Expr) -> Expr:
    """Return a / b."""
    a, b = meet(a, b)
    if is_zero(a) or is_number(b, 1):
        return a
    if (folded := _folded(_quotient, a, b)) is not None:
        return folded
    if isinstance(a, Apply) and a.opcode == "select" and any(map(is_zero, a.operands[1:])):
        return select(a.operands[0], div(a.operands[1], b), div(a.operands[2], b))
    if isinstance(a, Apply) and a.opcode == "neg":
        return neg(div(a.operands[0], b))
    return apply("div", a, b)


def _quotient(a: np.floating, b: np.floating) -> np.floating:
    return a / b


def select(condition: Expr, a: Expr, b: Expr) -> Expr:
    """Return a where the condition holds, else b."""
    a, b = meet(a, b)
    if a == b:
        return a
    if isinstance(condition, Literal):
        return a if condition.value else b
    # One of them 0, the other chosen by the same condition: one selection.
    if is_zero(b) and isinstance(a, Apply) and a.opcode == "select" and a.operands[0] == condition:
        return select(condition, a.operands[1], b)
    return apply("select", condition, a, b)


_BINARY: Final[Mapping[str, Callable[[Expr, Expr], Expr]]] = {"add": add, "sub": sub, "mul": mul, "div": div}


def replaced(expr: Expr, table: Mapping[Expr, Expr]) -> Expr:
    """Return `expr` with subexpressions that `table` names replaced, the outermost first, and simplified."""
    done: dict[Expr, Expr] = {}
    for each in walk(expr):
        if each in table:
            done[each] = table[each]
        elif isinstance(each, Apply):
            done[each] = _rebuilt(each, tuple([done[operand] for operand in each.operands]))
        else:
            done[each] = each
    return done[expr]


def _rebuilt(each: Apply, operands: Sequence[Expr]) -> Expr:
    computed = each.dtype in (f32, f64)
    if computed and each.opcode in _BINARY:
        return _BINARY[each.opcode](operands[0], operands[1])
    if computed and each.opcode == "neg":
        return neg(operands[0])
    if computed and each.opcode == "select":
        return select(*operands)
    if computed and each.opcode == "cast" and operands[0].dtype.is_float:
        return convert(operands[0], each.dtype)
    return Apply(each.opcode, tuple(operands), each.dtype, each.predicate)


def renumbered(expr: Expr, numbers: Mapping[int, int]) -> Expr:
    """Return `expr` with its arguments given other numbers."""
    table: dict[Expr, Expr] = {
        each: Argument(numbers[each.number], each.dtype) for each in walk(expr) if isinstance(each, Argument)
    }
    return replaced(expr, table)
