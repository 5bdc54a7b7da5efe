"""Functions called by a kernel: their statements become part of it."""

import ast
from collections.abc import Mapping
from types import FunctionType

from tessera.core.base.source import Span
from tessera.core.errors.base import TesseraError
from tessera.core.errors.catalog import NotCallable, UnsupportedReturn
from tessera.frontend.base.bindings import Region
from tessera.frontend.base.context import Context
from tessera.frontend.syntax.kernel_source import KernelSource
from tessera.frontend.syntax.source_file import source_for

_DEEPEST = 16


def inline(
    context: Context, function: FunctionType, args: list[object], keywords: dict[str, object], span: Span
) -> object:
    """Build the body of `function` in place of the call, and return what it returns.

    before: ``def square(v): return v * v`` and ``y[i] = square(x[i])``
    after:  ``y[i] = x[i] * x[i]`` (with `x[i]` read once)
    Names in the body are the function's own; its text is found as a kernel's is.
    """
    kernel = source_for(function)
    if context.inlined.count(kernel.name) or len(context.inlined) >= _DEEPEST:
        raise NotCallable(f"{kernel.name} calls itself", span, "a kernel's functions are expanded: use a loop")
    scope = _bind(kernel, function, args, keywords, context, span)
    outside = (context.scope, context.source, context.namespace, context.loops)
    context.scope, context.source, context.namespace = scope, kernel.source, _names(function)
    context.loops = 0
    context.inlined.append(kernel.name)
    try:
        return _run(context, kernel)
    except TesseraError as error:
        raise error.with_source(kernel.source) from None
    finally:
        context.inlined.pop()
        context.scope, context.source, context.namespace, context.loops = outside


def _run(context: Context, kernel: KernelSource) -> object:
    body = kernel.function.body
    last = body[-1]
    if any(isinstance(n, ast.Return) for statement in body[:-1] for n in ast.walk(statement)):
        raise UnsupportedReturn(
            "a function called by a kernel returns at its end only", context.span(last), "set a name and return it last"
        )
    context.run(body[:-1] if isinstance(last, ast.Return) else body)
    if isinstance(last, ast.Return) and last.value is not None:
        return context.evaluate(last.value)
    return None


def _bind(
    kernel: KernelSource, function: FunctionType, args: list[object], keywords: dict[str, object], context: Context,
    span: Span,
) -> dict[str, object]:  # fmt: skip
    arguments = kernel.function.args
    if arguments.vararg or arguments.kwarg:
        raise NotCallable(f"{kernel.name} takes any number of arguments", span, "name its parameters")
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
    defaults = function.__defaults__ or ()
    scope: dict[str, object] = dict(zip(names[len(names) - len(defaults) :], defaults, strict=True))
    scope |= function.__kwdefaults__ or {}
    scope |= dict(zip(names, args, strict=False)) | keywords
    known = {*names, *(a.arg for a in arguments.kwonlyargs)}
    if len(args) > len(names) or set(scope) != known:
        raise NotCallable(f"{kernel.name} takes ({', '.join(names)})", span, "give each parameter one value")
    return {name: value if isinstance(value, int | float | str | tuple | list) else _read(context, value, span)
            for name, value in scope.items()}  # fmt: skip


def _read(context: Context, value: object, span: Span) -> object:
    """A slice given as an argument is read once, at the call; arrays and other things go in as they are."""
    return context.builder.operand(value, span) if isinstance(value, Region) else value


def _names(function: FunctionType) -> Mapping[str, object]:
    closure = dict(
        zip(function.__code__.co_freevars, (c.cell_contents for c in function.__closure__ or ()), strict=True)
    )
    return {**function.__globals__, **closure}
