"""Arguments to look at a kernel with, made from its annotations alone: for `--show` before the first call."""

import ast
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tessera.core.source import NOWHERE, Span
from tessera.frontend.annotations import Declared, parse_annotation
from tessera.kernels import Kernel

EXTENT: Final = 1024
"""What every shape name stands for; kernels keep most of them as names, so that the number does not matter."""


def example_arguments(kernel: Kernel) -> tuple[Any, ...] | None:
    """Return arguments that fit the annotations of `kernel`, or None where they do not say enough."""
    names = kernel.function.__globals__
    found: list[Any] = []
    for parameter in kernel.source.function.args.args:
        declared = parse_annotation(parameter.annotation, names.get, _nowhere)
        value = _example(declared, names.get)
        if value is None:
            return None
        found.append(value)
    return tuple(found)


def _example(declared: Declared, lookup: Callable[[str], object]) -> Any:
    if declared.dtype is None or declared.array is None or declared.extents is None:
        return None
    if not declared.array:
        return declared.dtype.numpy.type(1)
    extents = [_extent(node, lookup) for node in declared.extents]
    if any(extent is None for extent in extents):
        return None
    return np.zeros([extent or 0 for extent in extents], declared.dtype.numpy)


def _extent(node: ast.expr, lookup: Callable[[str], object]) -> int | None:
    """The number an extent stands for; names that the user has not given a number are `EXTENT`."""
    match node:
        case ast.Constant(int() as value):
            return value
        case ast.Name(name):
            value = lookup(name)
            return value if isinstance(value, int) else EXTENT
        case ast.BinOp(left, ast.Div() | ast.FloorDiv(), right):
            above, below = _extent(left, lookup), _extent(right, lookup)
            # A name below the line (`K/tp`) is a mesh axis: one device here.
            return above if isinstance(right, ast.Name) else above // below if above and below else None
        case _:
            return None


def _nowhere(_node: ast.AST) -> Span:
    return NOWHERE
