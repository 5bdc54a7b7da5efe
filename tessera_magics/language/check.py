"""Check a cell without running it: every mistake that the frontend finds, and what each name stands for.

A cell that does not parse has one mistake.  Otherwise each kernel is built for arguments that fit its annotations, or
like those of its last call; a kernel for which neither says enough is looked through for names that nothing has.
Extents are made up (`example_arguments`): a mistake is told only if it is there for two choices of them.
"""

import ast
import builtins
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, cast

from tessera.core.base.source import Source, Span
from tessera.core.errors.base import TesseraError
from tessera.core.errors.catalog import UnknownLevel
from tessera.core.program.arguments import Argument, ArrayArgument
from tessera.core.program.program import Attribute, Program
from tessera.frontend.base.bindings import Knowledge
from tessera.frontend.base.builder import Builder
from tessera.frontend.base.context import Context
from tessera.frontend.base.observer import UNKNOWN, Mistake, Observer, OutOfTime
from tessera.frontend.build.annotations import check_signature
from tessera.frontend.build.build import specialise
from tessera.frontend.language.namespace import LANGUAGE
from tessera.frontend.syntax.kernel_source import KernelSource
from tessera.frontend.syntax.parse import parse
from tessera.frontend.syntax.source_file import is_kernel, read_cell
from tessera.kernels.example_arguments import example_arguments
from tessera.kernels.kernel import Kernel
from tessera.kernels.options import Options, read_options, with_space
from tessera_magics.language.static_names import StaticNames, evaluate, set_by, static_names

FILE: Final = "<tessera language service>"
_FIRST_MADE_UP: Final = 1021
_ROUND: Final = 1024
_SECONDS: Final = 1.0
_NOTHING: Final = Options()

warnings.filterwarnings("ignore", module=FILE)
"""Python warns of what it reads ("invalid escape sequence") when the cell runs, not at every key."""


@dataclass(frozen=True, slots=True)
class Built:
    """Findings about one kernel.

    extents: the shape name that each made-up extent stands for
    """

    source: KernelSource
    bindings: Mapping[Span, object]
    extents: Mapping[int, str]
    program: Program | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One mistake: lines and columns count from 1 and characters, in the body of the cell."""

    code: str
    title: str
    message: str
    hint: str
    span: Span
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Checked:
    """A cell that was looked at."""

    findings: tuple[Finding, ...]
    kernels: tuple[Built, ...] = ()
    complete: bool = True


@dataclass(slots=True)
class _Check:
    names: StaticNames
    user: Mapping[str, object]
    seconds: float
    mistakes: list[Mistake] = field(default_factory=list[Mistake])
    complete: bool = True


def check(body: str, user: Mapping[str, object], seconds: float = _SECONDS) -> Checked:
    """Check a cell's body; `user` holds the names of the notebook.  Raises nothing for any text."""
    text = _without_magics(body)
    source = Source(FILE, text)
    try:
        cell = read_cell(text, FILE)
        tree = parse(source)
    except TesseraError as error:
        return Checked((_finding(error, error.span),))
    state = _Check(static_names(cell, tree, user), user, seconds)
    definitions = _kernels(tree)
    built = tuple(_built(state, kernel, definitions) for kernel in cell.kernels)
    found = {(m.error.code, m.error.message, _place(m)): m for m in state.mistakes}
    findings = tuple(_finding(mistake.error, _place(mistake)) for mistake in found.values())
    return Checked(tuple(sorted(findings, key=lambda one: one.span)), built, state.complete)


def _without_magics(body: str) -> str:
    """Put a constant in the place of each line that is IPython's: a magic, or a shell command."""
    lines = body.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    for at, line in enumerate(lines):
        rest = line.lstrip(" \t")
        if rest.startswith(("%", "!")):
            lines[at] = line[: len(line) - len(rest)] + "0"
    return "\n".join(lines)


def _kernels(tree: ast.Module) -> dict[tuple[int, str], tuple[ast.FunctionDef, set[str]]]:
    """Return the kernels of a tree by place and name, each with the names of the functions around it."""
    found: dict[tuple[int, str], tuple[ast.FunctionDef, set[str]]] = {}
    waiting: list[tuple[ast.AST, set[str]]] = [(tree, set())]
    while waiting:
        node, around = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if isinstance(node, ast.FunctionDef) and is_kernel(node):
                found[node.lineno, node.name] = node, around
            parameters = {a.arg for a in ast.walk(node) if isinstance(a, ast.arg)}
            around = around | set_by(node) | parameters
        waiting += [(child, around) for child in ast.iter_child_nodes(node)]
    return found


def _built(
    state: _Check, kernel: KernelSource, definitions: Mapping[tuple[int, str], tuple[ast.FunctionDef, set[str]]]
) -> Built:
    node, around = definitions[kernel.function.lineno, kernel.name]
    names = state.names.with_unknown(around) if around else state.names
    statement = _span(kernel, kernel.function)
    try:
        check_signature(kernel)
        options = _options(kernel, node, names)
        arguments = None if options is None else _arguments(state, kernel, names)
        if options is None or arguments is None:
            _check_names(state, kernel, names)
            return Built(kernel, {}, {})
        return _observed(state, kernel, names, options, arguments)
    except TesseraError as error:
        state.mistakes.append(Mistake(error, statement))
    except OutOfTime:
        state.complete = False
    return Built(kernel, {}, {})


def _options(kernel: KernelSource, node: ast.FunctionDef, names: StaticNames) -> Options | None:
    """Return the options of a kernel's decorators; None where they cannot be told without running them."""
    options = _NOTHING
    for decorator in node.decorator_list:
        match decorator:
            case ast.Name("kernel") | ast.Attribute(attr="kernel"):
                continue
            case ast.Call(ast.Name("kernel") | ast.Attribute(attr="kernel"), [], keywords):
                pass
            case ast.Call(ast.Attribute(attr="autotune"), [], keywords):
                pass
            case _:
                return None
        given = {keyword.arg or "": evaluate(keyword.value, names) for keyword in keywords}
        if UNKNOWN in given.values() or "" in given:
            return None
        try:
            if isinstance(decorator.func, ast.Attribute) and decorator.func.attr == "autotune":
                options = with_space(options, given.pop("space", None), given)  # type: ignore[arg-type]
            else:
                options = read_options(given)
        except TesseraError as error:
            error.span = _span(kernel, decorator)
            raise
    return options


def _constants(options: Options) -> dict[str, Attribute]:
    """Return the tuning parameters: those that are fixed, and of a space the first choice of each."""
    return {**options.constants, **{name: values[0] for name, values in (options.space or {}).items()}}


def _arguments(state: _Check, kernel: KernelSource, names: StaticNames) -> tuple[Argument, ...] | None:
    """Return arguments to build a kernel for: as its annotations say, else like those of its last call."""
    try:
        return example_arguments(kernel, names)
    except UnknownLevel:
        before = state.user.get(kernel.name)
        if not issubclass(type(before), Kernel):
            return None
        called = cast("Kernel", before)
        same = ast.dump(called.source.function.args) == ast.dump(kernel.function.args)
        return called.last_arguments.arguments if called.last_arguments is not None and same else None


def _observed(
    state: _Check, kernel: KernelSource, names: StaticNames, options: Options, arguments: tuple[Argument, ...]
) -> Built:
    observer = Observer(state.seconds)
    program = _build(state, kernel, names, options, arguments, observer)
    if observer.mistakes and any(_made_up(argument) for argument in arguments):
        second = Observer(state.seconds)
        _build(state, kernel, names, options, tuple(map(_rounded, arguments)), second)
        also = {(mistake.error.code, mistake.error.span) for mistake in second.mistakes}
        observer.mistakes = [one for one in observer.mistakes if (one.error.code, one.error.span) in also]
    state.mistakes += observer.mistakes
    return Built(kernel, observer.bindings, _extent_names(kernel, arguments), program)


def _build(
    state: _Check, kernel: KernelSource, names: StaticNames, options: Options, arguments: tuple[Argument, ...],
    observer: Observer,
) -> Program | None:  # fmt: skip
    """Build for one choice of arguments; the observer has what goes wrong, and there may be no Program then."""
    try:
        return specialise(
            kernel, arguments, names, group=options.tile, shared_limit=options.shared, constants=_constants(options),
            observer=observer,
        )  # fmt: skip
    except OutOfTime:
        state.complete = False
    except TesseraError as error:
        observer.leave_out(error, _span(kernel, kernel.function), 0)
    return None


def _made_up(argument: Argument) -> bool:
    return isinstance(argument, ArrayArgument) and any(extent >= _FIRST_MADE_UP for extent in argument.shape)


def _rounded(argument: Argument) -> Argument:
    """Return an argument with extents that are equal and powers of two wherever they are made up."""
    if not isinstance(argument, ArrayArgument):
        return argument
    return replace(argument, shape=tuple(_ROUND if extent >= _FIRST_MADE_UP else extent for extent in argument.shape))


def _extent_names(kernel: KernelSource, arguments: Sequence[Argument]) -> dict[int, str]:
    args = kernel.function.args
    nodes = (*args.posonlyargs, *args.args, *args.kwonlyargs)
    return {
        extent: written
        for node, argument in zip(nodes, arguments, strict=True)
        if node.annotation is not None and isinstance(argument, ArrayArgument)
        for extent, written in zip(argument.shape, _subscripts(node.annotation), strict=False)
        if extent >= _FIRST_MADE_UP and written.isidentifier()
    }


def _subscripts(annotation: ast.expr) -> list[str]:
    """Return what stands between the innermost brackets of an annotation, a text for each axis."""
    while isinstance(annotation, ast.Subscript) and isinstance(annotation.slice, ast.Subscript):
        annotation = annotation.slice
    if not isinstance(annotation, ast.Subscript):
        return []
    items = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
    return [item.value if isinstance(item, ast.Constant) and isinstance(item.value, str) else ast.unparse(item)
            for item in items]  # fmt: skip


def _check_names(state: _Check, kernel: KernelSource, names: StaticNames) -> None:
    """Note the names in a kernel that nothing has: all that can be said where the types are open."""
    function = kernel.function
    parameters = {a.arg for a in ast.walk(function.args) if isinstance(a, ast.arg)}
    annotated = [a.annotation for a in ast.walk(function.args) if isinstance(a, ast.arg) and a.annotation is not None]
    extents = {n.id for one in annotated for n in ast.walk(one) if isinstance(n, ast.Name)}
    texts = [n.value for one in annotated for n in ast.walk(one) if isinstance(n, ast.Constant)]
    extents |= {one for one in texts if isinstance(one, str)}
    own = parameters | extents | set_by(function)
    context = Context(kernel.source, Builder(Knowledge({})), names, {}, None, None)
    context.scope.update(dict.fromkeys(own, UNKNOWN))
    for statement in function.body:
        for node in ast.walk(statement):
            if not isinstance(node, ast.Name) or node.id in own or node.id in names or node.id in LANGUAGE:
                continue
            if not hasattr(builtins, node.id) and node.id != "kernel":
                state.mistakes.append(Mistake(context.undefined(node.id, context.span(node)), context.span(statement)))


def _span(kernel: KernelSource, node: ast.FunctionDef | ast.expr) -> Span:
    """Return the place of an expression, or of a function's head."""
    column = node.col_offset + 1
    if isinstance(node, ast.FunctionDef):
        return Span(kernel.source.name, node.lineno, column, node.lineno, column + len("def ") + len(node.name))
    return Span(kernel.source.name, node.lineno, column, node.end_lineno or node.lineno, (node.end_col_offset or 0) + 1)


def _place(mistake: Mistake) -> Span:
    """Return where to show a mistake: in the statement of the cell that leads to it, if it lies elsewhere."""
    span = mistake.error.span
    return span if span.file == FILE and span.line > 0 else mistake.statement


def _finding(error: TesseraError, span: Span) -> Finding:
    notes = tuple(note.message for note in error.notes)
    return Finding(error.code, error.title, error.message, error.hint, span, notes)
