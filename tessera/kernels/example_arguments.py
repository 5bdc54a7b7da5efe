"""Argument types for a kernel that was never called, where its annotations alone say enough to compile it."""

import ast
import itertools
from collections.abc import Iterator, Mapping

from tessera.core.base.source import Span
from tessera.core.errors.catalog import UnknownLevel
from tessera.core.program.arguments import Argument, ArrayArgument, ScalarArgument
from tessera.core.program.program import Program
from tessera.core.program.types import Array
from tessera.frontend.build.annotations import parse_annotation
from tessera.frontend.syntax.kernel_source import KernelSource

_FIRST_EXTENT = 1021  # a prime: no extent divides another by accident


def example_arguments(
    kernel: KernelSource, names: Mapping[str, object], *, aligned: bool = False
) -> tuple[Argument, ...]:
    """Return arguments that fit `kernel`'s annotations, with extents made up for its shape names.

    With `aligned`, every row begins and ends at a multiple of 16 bytes (see `Array`), where its length is made up too.
    Raises UnknownLevel where an annotation leaves the dtype or the rank open.
    """
    args = kernel.function.args
    fresh = itertools.count(_FIRST_EXTENT, 2)
    symbols: dict[str, int] = {}
    found: list[Argument] = []
    for node in (*args.posonlyargs, *args.args, *args.kwonlyargs):
        declared = parse_annotation(node.annotation, names.get, lambda at: span_of(kernel, at))
        if declared.dtype is None or declared.array is None or declared.extents is None:
            raise _not_enough(kernel, node)
        if declared.array:
            extents = tuple(_extent(kernel, node, extent, symbols, fresh) for extent in declared.extents)
            rows = aligned and bool(extents) and _ends_well(extents[-1], declared.dtype.bytes)
            found.append(ArrayArgument(declared.dtype, extents, aligned=rows))
        else:
            found.append(ScalarArgument(declared.dtype))
    return tuple(found)


def _ends_well(extent: int, size: int) -> bool:
    """Return whether a row of `extent` elements of `size` bytes may end at a multiple of 16 bytes."""
    return extent >= _FIRST_EXTENT or extent * size % 16 == 0


def require_symbolic(kernel: KernelSource, program: Program) -> Program:
    """Return `program`, built for example arguments, unless it was compiled for an extent that was made up."""
    args = kernel.function.args
    for node, parameter in zip((*args.posonlyargs, *args.args, *args.kwonlyargs), program.parameters, strict=True):
        kind = parameter.value.type
        extents = kind.shape if isinstance(kind, Array) else ()
        if any(isinstance(extent, int) and extent >= _FIRST_EXTENT for extent in extents):
            raise _not_enough(kernel, node)
    return program


def span_of(kernel: KernelSource, node: ast.AST) -> Span:
    """Return the place of a node of `kernel`'s definition."""
    line, column = getattr(node, "lineno", 0), getattr(node, "col_offset", 0)
    end_line, end_column = getattr(node, "end_lineno", line), getattr(node, "end_col_offset", column)
    return Span(kernel.source.name, line, column + 1, end_line, end_column + 1)


def _extent(
    kernel: KernelSource, parameter: ast.arg, node: ast.expr, symbols: dict[str, int], fresh: Iterator[int]
) -> int:
    match node:
        case ast.Constant(int() as number):
            return number
        case ast.Name(name) | ast.Constant(str() as name):
            if name not in symbols:
                symbols[name] = next(fresh)
            return symbols[name]
        case _:
            raise _not_enough(kernel, parameter)


def _not_enough(kernel: KernelSource, node: ast.arg) -> UnknownLevel:
    args = kernel.function.args
    names = ", ".join(arg.arg for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs))
    error = UnknownLevel(
        f"{kernel.name} was not called yet, and {node.arg}'s annotation alone does not say what to compile for",
        span_of(kernel, node),
        f"call it first, or compile it for arguments: {kernel.name}.compile({names})",
    )
    error.with_source(kernel.source)
    return error
