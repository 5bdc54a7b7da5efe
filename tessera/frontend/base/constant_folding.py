"""Operations on numbers that are known while a kernel is built, as Python computes them."""

import math
import operator
from collections.abc import Callable
from typing import Any, Final

from tessera.core.base.source import Span
from tessera.core.errors.catalog import DivisionByZero, TypeMismatch
from tessera.frontend.base.bindings import Number

_FOLD: Final[dict[str, Callable[[Any, Any], Number]]] = {  # Any - Python refuses floats where only integers do
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b,
    "floordiv": lambda a, b: a // b, "mod": lambda a, b: a % b, "pow": lambda a, b: a**b, "min": min, "max": max,
    "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b, "mulhi": lambda a, b: a * b >> 64,
}  # fmt: skip
_COMPARE: Final[dict[str, Callable[[Number, Number], bool]]] = {
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "eq": operator.eq, "ne": operator.ne,
}  # fmt: skip


def fold(opcode: str, a: Number, b: Number, span: Span) -> Number:
    """`a opcode b`.

    Raises:
        DivisionByZero: the divisor is 0.
        TypeMismatch: Python has no such operation on these numbers, or no number for the result.
    """
    try:
        return _FOLD[opcode](a, b)
    except ZeroDivisionError:
        raise DivisionByZero(f"{a} divided by {b}", span, "a constant divisor must not be 0") from None
    except (TypeError, ValueError, OverflowError) as error:
        raise TypeMismatch(f"{a!r} and {b!r}: {error}", span) from None


def fold_comparison(predicate: str, a: Number, b: Number) -> bool:
    """`a predicate b`."""
    return _COMPARE[predicate](a, b)


def fold_unary(opcode: str, x: Number, span: Span) -> Number:
    """`opcode x`.

    Raises:
        TypeMismatch: the function has no value there.
    """
    if opcode == "neg":
        return -x
    if opcode == "not":
        return not x
    if opcode == "rsqrt":
        return 1.0 / math.sqrt(x) if x > 0 else math.nan
    try:
        return abs(x) if opcode == "abs" else getattr(math, opcode)(x)
    except (ValueError, OverflowError) as error:
        raise TypeMismatch(f"{opcode}({x}): {error}", span) from None
