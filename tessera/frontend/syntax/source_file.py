"""From a cell, a file or a function to the kernels in it: `KernelSource`, and host code ready to compile."""

import ast
import inspect
import linecache
import warnings
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import CodeType, FunctionType
from typing import TypeVar

from tessera.core.base.source import Source
from tessera.core.errors.call_site import cell_label
from tessera.core.errors.catalog import NoSource, SyntaxMistake
from tessera.frontend.syntax.declarations import store_declared
from tessera.frontend.syntax.kernel_source import KernelSource
from tessera.frontend.syntax.normalize import node_span
from tessera.frontend.syntax.parse import guarded, parse, parse_python, shift_columns, unix_line_ends
from tessera.frontend.syntax.tree_depth import cut_chains

Definition = ast.FunctionDef | ast.AsyncFunctionDef
Node = TypeVar("Node", bound=ast.AST)
_Place = tuple[int, str]  # first line (the first decorator's) and name, as a code object has them


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class CellText:
    """The text of a cell's functions, by place.

    Every code object of the cell holds it among its constants: it lives as long as one of the cell's functions (or a
    traceback through them), and takes the cell's lines out of `linecache` when it goes.
    """

    functions: Mapping[_Place, KernelSource]


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """A cell or file of Tessera syntax, kernels and host code together.

    tree: the whole text as plain Python; annotations of functions are strings, so shape names are never evaluated
    kernels: every function decorated with `kernel`, `kernel.autotune(...)` ..., in the order of the text
    """

    source: Source
    tree: ast.Module
    kernels: tuple[KernelSource, ...]
    text: CellText

    def compile(self, tree: ast.Module | ast.Interactive | None = None, mode: str = "exec") -> CodeType:
        """Compile the cell, or a part of its tree; `source_for` finds the functions that the code defines."""
        code = compile(self.tree if tree is None else tree, self.source.name, mode, dont_inherit=True)
        return _holding(code, self.text)


def _holding(code: CodeType, text: CellText) -> CodeType:
    """`code`, and the code inside it, with `text` as its last constant, which no instruction refers to."""
    constants = (_holding(one, text) if isinstance(one, CodeType) else one for one in code.co_consts)
    return code.replace(co_consts=(*constants, text))


def read_cell(text: str, name: str, first_line: int = 1, label: str = "") -> Cell:
    """Read Tessera syntax that stands at line `first_line` of a file or cell called `name`.

    `name` becomes the file name of the compiled code: tracebacks show the user's own lines.  Raises SyntaxMistake, and
    nothing else, for any text.
    """
    source = Source(name, unix_line_ends(text), first_line, label)
    written = parse(source)
    with warnings.catch_warnings():
        # Python's own warnings ("invalid escape sequence") were given once, above.
        warnings.simplefilter("ignore", SyntaxWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        runnable = parse(source, fold_units=True)
        guarded(source, lambda: _make_runnable(runnable, source))
    functions = _functions(written, source)
    kernels = tuple(functions[_place(node)] for node in _definitions(written) if is_kernel(node))
    held = CellText(functions)
    _show_lines(source, held)
    return Cell(source, runnable, kernels, held)


def _show_lines(source: Source, text: CellText) -> None:
    """Do for a cell what `linecache` does for files, as long as `text` lives."""
    lines = ["\n"] * (source.first_line - 1) + [line + "\n" for line in source.text.split("\n")]
    # None keeps `linecache` from looking for a file and dropping the entry.
    entry = (len(source.text), None, lines, source.name)
    linecache.cache[source.name] = entry

    def drop(name: str = source.name) -> None:
        if linecache.cache.get(name) is entry:  # a later cell may have the same name
            del linecache.cache[name]

    weakref.finalize(text, drop).atexit = False


def read_file(path: str | Path) -> Cell:
    """Read a `.tsr` file (UTF-8).  Raises SyntaxMistake, or OSError where the file cannot be read."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise SyntaxMistake(f"{path} is not UTF-8: {error.reason}", hint="save it as UTF-8") from None
    return read_cell(text, str(path), label=path.name)


def from_function(function: Callable[..., object]) -> KernelSource:
    """Return the definition of a Python function, found through its code object's file and line.

    Raises NoSource for what no `def` made, and for functions whose text is not to be had (typed into `python -c`,
    built by `exec`) or was edited since they were defined.
    """
    function = inspect.unwrap(function)
    if not isinstance(function, FunctionType) or function.__name__ == "<lambda>":
        raise NoSource(f"{function!r} is not a function made by def", hint="define the kernel with def")
    if inspect.iscoroutinefunction(function):
        raise NoSource(f"{function.__qualname__} is a coroutine", hint="write def, not async def")
    code = function.__code__
    lines = linecache.getlines(code.co_filename, function.__globals__)
    if not lines:
        raise NoSource(
            f"the text of {function.__qualname__} is not to be had",
            hint="define it in a file or a notebook cell, or give its text to tessera.compile_source",
        )
    functions = _plain_functions(code.co_filename, "".join(lines), cell_label(code.co_filename))
    found = functions.get((code.co_firstlineno, code.co_name))
    if found is None:
        raise NoSource(
            f"{code.co_filename} has no def {code.co_name} at line {code.co_firstlineno} any more",
            hint="the file was edited since it was imported: import it again",
        )
    return found


def source_for(function: Callable[..., object]) -> KernelSource:
    """Return the definition behind `function`, whether a cell that `read_cell` read defined it or plain Python."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if isinstance(code, CodeType):
        text = next((one for one in reversed(code.co_consts) if isinstance(one, CellText)), None)
        found = None if text is None else text.functions.get((code.co_firstlineno, code.co_name))
        if found is not None:
            return found
    return from_function(function)


def to_plain_python(text: str) -> str:
    """Tessera syntax spelled as plain Python, without comments.  Raises SyntaxMistake."""
    source = Source("<text>", text)
    return guarded(source, lambda: ast.unparse(parse(source)))


class AnnotationTransformer(ast.NodeTransformer):
    """Make strings of the annotations of kernels in ordinary cells, where `f32[n]` would look for a variable n.

    For `get_ipython().ast_transformers`; leaves every other function alone.
    """

    def visit(self, node: ast.AST) -> ast.AST:
        """Quote the annotations of every kernel in `node`, and let Python compile its long chains of operators."""
        # A walk, not the visitor's recursion: a sum of a thousand terms is a tree a thousand levels deep.
        for part in ast.walk(node):
            if isinstance(part, ast.FunctionDef) and is_kernel(part):
                quote_annotations(part)
                cut_chains(part)
        return node


def is_kernel(node: Definition) -> bool:
    """Is one of the decorators `kernel`, `kernel.autotune(...)`, `tessera.kernel(...)` or alike?"""
    return any("kernel" in _dotted(decorator) for decorator in node.decorator_list)


def _dotted(node: ast.expr) -> list[str]:
    """The names in `a.b.c(...)`, innermost last."""
    names: list[str] = []
    while True:
        match node:
            case ast.Call(function):
                node = function
            case ast.Attribute(value, name):
                names.append(name)
                node = value
            case ast.Name(name):
                return [*names, name]
            case _:
                return names


def quote_annotations(node: Definition) -> None:
    """Replace the annotations of `node` by strings, as `from __future__ import annotations` does."""
    everything = node.args
    parameters = [*everything.posonlyargs, *everything.args, *everything.kwonlyargs]
    parameters += [extra for extra in (everything.vararg, everything.kwarg) if extra is not None]
    for parameter in parameters:
        parameter.annotation = _quoted(parameter.annotation)
    node.returns = _quoted(node.returns)


def _quoted(annotation: ast.expr | None) -> ast.expr | None:
    if annotation is None or (isinstance(annotation, ast.Constant) and isinstance(annotation.value, str)):
        return annotation
    return ast.copy_location(ast.Constant(ast.unparse(annotation)), annotation)


def _make_runnable(tree: ast.Module, source: Source) -> None:
    store_declared(tree)
    for node in _definitions(tree):
        quote_annotations(node)
        cut_chains(node)
    # Some mistakes only the compiler sees: `return` outside a function, two parameters of one name.  It goes first,
    # so that its errors count characters too.
    compile(tree, source.name, "exec", dont_inherit=True)
    if not source.text.isascii():
        shift_columns(tree, source, to_bytes=True)


def _definitions(tree: ast.Module) -> list[Definition]:
    """Every function of `tree`, nested ones included, in the order of the text."""
    found = [node for node in ast.walk(tree) if isinstance(node, Definition)]
    return sorted(found, key=lambda node: (node.lineno, node.col_offset))


def _place(node: Definition) -> _Place:
    first = node.decorator_list[0] if node.decorator_list else node
    return first.lineno, node.name


def _functions(tree: ast.Module, source: Source) -> dict[_Place, KernelSource]:
    """The source of each function of `tree`, which is `source` parsed."""
    found: dict[_Place, KernelSource] = {}
    for node in _definitions(tree):
        if isinstance(node, ast.FunctionDef):
            found[_place(node)] = _kernel_source(node, source)
        elif is_kernel(node):
            mistake = SyntaxMistake("a kernel is no coroutine", node_span(source, node), "write def, not async def")
            raise mistake.with_source(source)
    return found


def _kernel_source(node: ast.FunctionDef, source: Source) -> KernelSource:
    """Cut `node` out of `source`: its own lines, decorators included, and the definition without decorators."""
    first, last = _place(node)[0], node.end_lineno or node.lineno
    lines = source.text.split("\n")[first - source.first_line : last - source.first_line + 1]
    own = Source(source.name, "\n".join(lines), first, source.label)
    fields = {name: value for name, value in ast.iter_fields(node) if name != "decorator_list"}
    function = ast.copy_location(ast.FunctionDef(**fields, decorator_list=[]), node)
    return KernelSource(node.name, function, own)


@lru_cache(maxsize=16)
def _plain_functions(name: str, text: str, label: str) -> dict[_Place, KernelSource]:
    """The functions of one file of plain Python, by place."""
    source = Source(name, unix_line_ends(text), 1, label)
    return _functions(guarded(source, lambda: parse_python(source.text, source)), source)
