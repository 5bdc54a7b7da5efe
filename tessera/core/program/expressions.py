"""Integer expressions of shape symbols: how long a loop is, how large a workspace, before a launch says of what.

An expression is a number, the name of a symbol, or `(operation, a, b)`: plain data, which attributes and stored
artifacts can hold.
"""

from collections.abc import Callable
from typing import Final, Protocol, TypeVar, cast

T = TypeVar("T")
_PARTS: Final = 3
_FAR: Final = 1 << 48
"""More than any extent."""

Expression = int | str | tuple[str, "Expression", "Expression"]

OPERATIONS: Final[dict[str, Callable[[int, int], int]]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b if b else 0,
    "mod": lambda a, b: a % b if b else 0,
    "min": min,
    "max": max,
}
"""By the opcodes of a Program, whose semantics they have."""
_SIGNS: Final = {"add": "+", "sub": "-", "mul": "*", "floordiv": "//", "mod": "%"}
_PRODUCTS: Final = ("mul", "floordiv", "mod")


def evaluate(expression: Expression, lookup: Callable[[str], int]) -> int:
    """The value of `expression`; `lookup` gives that of a symbol."""
    match expression:
        case int():
            return expression
        case str():
            return lookup(expression)
        case (name, a, b):
            return OPERATIONS[name](evaluate(a, lookup), evaluate(b, lookup))


def symbols_in(expression: Expression) -> set[str]:
    """The symbols of `expression`."""
    match expression:
        case int():
            return set()
        case str():
            return {expression}
        case (_, a, b):
            return symbols_in(a) | symbols_in(b)


def make(name: str, a: Expression, b: Expression) -> Expression:
    """`(name, a, b)`, with what is known of it worked out."""
    if isinstance(a, int) and isinstance(b, int):
        return OPERATIONS[name](a, b)
    if (name in ("add", "sub") and b == 0) or (name in ("mul", "floordiv") and b == 1):
        return a
    if (name == "add" and a == 0) or (name == "mul" and a == 1):
        return b
    if name == "sub" and a == b:
        return 0
    if name == "max" and b == 0 and _never_negative(a):
        return a
    match name, a, b:
        case "add" | "sub", ("add" | "sub" as inner, rest, int() as number), int():
            total = (number if inner == "add" else -number) + (b if name == "add" else -b)
            return make("add", rest, total) if total >= 0 else make("sub", rest, -total)
        case _:
            return (name, a, b)


class Emits(Protocol[T]):
    """Emits code for an expression: signed arithmetic on 64 bits; `divide` is asked for nothing negative."""

    def leaf(self, leaf: int | str) -> T:
        """A number, or the value of a symbol."""
        ...

    def apply(self, name: str, a: T, b: T) -> T:
        """One of add, sub, mul, min, max; or divide: of numbers that are not negative, the second not 0."""
        ...


def translate(expression: Expression, emits: Emits[T]) -> T:
    """The code of `expression`, whose symbols are not negative; everything is divided by positive numbers."""
    if not isinstance(expression, tuple):
        return emits.leaf(expression)
    name, left, right = expression
    if name == "mod":
        return translate(("sub", left, ("mul", ("floordiv", left, right), right)), emits)
    a, b = translate(left, emits), translate(right, emits)
    if name != "floordiv":
        return emits.apply(name, a, b)
    if _never_negative(left) or not isinstance(right, int):
        return emits.apply("divide", a, b)
    # Far enough to the right nothing is negative: a + k * b holds b as often as a does, and k times more.
    multiple = -(-_FAR // right)
    raised = emits.apply("add", a, emits.leaf(multiple * right))
    return emits.apply("sub", emits.apply("divide", raised, b), emits.leaf(multiple))


def can_translate(name: str, b: Expression) -> bool:
    """Return whether code can do `name` with `b` on its right: it divides by positive numbers."""
    return name not in ("floordiv", "mod") or (isinstance(b, int) and b > 0)


def _never_negative(expression: Expression) -> bool:
    match expression:
        case int():
            return expression >= 0
        case str():
            return True
        case ("sub", _, _):
            return False
        case ("max", a, b):
            return _never_negative(a) or _never_negative(b)
        case (_, a, b):
            return _never_negative(a) and _never_negative(b)


def trips(length: Expression, step: int) -> Expression:
    """How many trips a loop of `length` has in steps of `step`; no loop has fewer than none."""
    return make("max", make("floordiv", make("add", length, step - 1), step), 0)


def to_text(expression: Expression) -> str:
    """The expression as it is written in Python."""
    match expression:
        case int() | str():
            return str(expression)
        case ("min" | "max" as name, a, b):
            return f"{name}({to_text(a)}, {to_text(b)})"
        case (name, a, b):
            left, right = _operand(a, name, right=False), _operand(b, name, right=True)
            return f"{left} {_SIGNS[name]} {right}"


def _operand(expression: Expression, outer: str, *, right: bool) -> str:
    text = to_text(expression)
    if not isinstance(expression, tuple) or expression[0] not in _SIGNS:
        return text
    binds = expression[0] in _PRODUCTS
    plain = (binds and not right) or (binds and outer not in _PRODUCTS) or (outer in ("add", "sub") and not right)
    return text if plain else f"({text})"


def read_expression(value: object) -> Expression:
    """`value` as an expression.  Raises ValueError for anything else, such as what a damaged file holds."""
    if isinstance(value, int | str):
        return value
    parts = cast("tuple[object, ...]", value) if isinstance(value, tuple) else ()
    if len(parts) != _PARTS or parts[0] not in OPERATIONS:
        msg = f"not an expression: {value}"
        raise ValueError(msg)
    return (str(parts[0]), read_expression(parts[1]), read_expression(parts[2]))
