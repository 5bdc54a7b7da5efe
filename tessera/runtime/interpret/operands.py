"""Operands of an operation as the interpreter holds them, and its attributes as the numbers that they are."""

from typing import Any, TypeAlias

from tessera.core.program.program import Attribute, Op

Operand: TypeAlias = Any  # numbers, `Partial`, `Poisoned`, `Memory` or `Choice`: which one, the operation's types say


def number(op: Op, name: str) -> int | float:
    """Return an attribute that is a number.  Raises TypeError for any other."""
    value = op.attributes[name]
    if not isinstance(value, int | float):
        raise _unexpected(op, name, value)
    return value


def integer(op: Op, name: str) -> int:
    """Return an attribute that is an integer.  Raises TypeError for any other."""
    value = op.attributes[name]
    if not isinstance(value, int):
        raise _unexpected(op, name, value)
    return value


def integer_or_none(op: Op, name: str) -> int | None:
    """Return an attribute that is an integer or None.  Raises TypeError for any other."""
    return None if op.attributes[name] is None else integer(op, name)


def integers(op: Op, name: str) -> tuple[int, ...]:
    """Return an attribute that is a tuple of integers.  Raises TypeError for any other."""
    value = op.attributes[name]
    if not isinstance(value, tuple):
        raise _unexpected(op, name, value)
    found = tuple(item for item in value if isinstance(item, int))
    if len(found) != len(value):
        raise _unexpected(op, name, value)
    return found


def _unexpected(op: Op, name: str, value: Attribute) -> TypeError:
    return TypeError(f"{op.opcode} has {name}={value!r}")
