"""Ordinary Python inside a kernel: a few functions, and the constants of modules."""

import math
from collections.abc import Callable
from types import ModuleType
from typing import Final

from tessera.core.base.source import Span
from tessera.core.errors.catalog import TypeMismatch, UnknownAttribute, WrongArguments
from tessera.frontend.base.bindings import items_of
from tessera.frontend.base.context import Context, suggestion
from tessera.frontend.base.describe import describe
from tessera.frontend.operations import intrinsics


def _fold(opcode: str) -> Callable[..., object]:
    def apply(context: Context, span: Span, *values: object) -> object:
        if len(values) < 2:
            raise WrongArguments(f"{opcode} takes two values or more", span, f"{opcode}(a, b)")
        result = values[0]
        for value in values[1:]:
            result = context.builder.binary(opcode, result, value, span)
        return result

    return apply


def _length(_context: Context, span: Span, value: object) -> object:
    items = items_of(value)
    if items is not None:
        return len(items)
    raise TypeMismatch(f"len() of {describe(value)}", span, "use .shape[0]")


def _power(context: Context, span: Span, a: object, b: object) -> object:
    return context.builder.binary("pow", a, b, span)


_MATH: Final = ("exp", "exp2", "log", "log2", "sqrt", "sin", "cos", "tanh", "erf", "floor", "ceil")

HOST_FUNCTIONS: Final[dict[object, intrinsics.Handler]] = {
    min: _fold("min"),
    max: _fold("max"),
    abs: intrinsics.HANDLERS["abs"],
    len: _length,
    pow: _power,
    **{getattr(math, name): intrinsics.HANDLERS[name] for name in _MATH},
}
"""Python's functions that mean something in a kernel, by identity."""


def host_attribute(owner: object, name: str, span: Span) -> object:
    """An attribute of a Python object: a module's constant or function, or a plain number of an object."""
    try:
        value: object = getattr(owner, name)
    except AttributeError:
        near = suggestion(name, dir(owner)) if isinstance(owner, ModuleType) else "only modules have attributes here"
        hint = near or "use the operations of tile"
        raise UnknownAttribute(f"{describe(owner)} has no {name!r}", span, hint) from None
    return value
