"""Execute the body of a `%%tessera` cell as if it were an ordinary cell: same names, same display, same tracebacks."""

import ast
import builtins
import inspect
import io
import linecache
import tokenize
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tessera.core.errors.catalog import SyntaxMistake
from tessera.frontend.syntax.source_file import Cell, read_cell
from tessera_magics.ipython import Shell


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a cell's body: the file name IPython uses, its first line there, and its label for people."""

    name: str
    first_line: int
    label: str


def place_of(shell: Shell, magic_line: str, body: str) -> Place:
    """Return the place of a cell magic's body, under the name and number that IPython gave the cell.

    The cell's own text replaces, for tracebacks, what IPython made of it (`get_ipython().run_cell_magic(...)`).
    """
    raw = f"%%tessera {magic_line}".rstrip() + "\n" + body
    name = _running_name(shell)
    if name is None:
        name = shell.compile.cache("\n" + body, shell.execution_count, raw_code=raw)
    typed = _typed_text(shell)
    if typed is not None and typed.rstrip("\n").endswith(body.rstrip("\n")):
        raw = typed
    first_line = raw[: raw.rstrip("\n").rfind(body.rstrip("\n"))].count("\n") + 1
    linecache.cache[name] = (len(raw), None, [line + "\n" for line in raw.split("\n")], name)
    named = shell.compile.format_code_name(name)
    return Place(name, first_line, " ".join(named) if named else name)


def _running_name(shell: Shell) -> str | None:
    """Return the file name of the cell that is being executed, from the frame that called the magic."""
    frame = inspect.currentframe()
    while frame is not None:
        name = frame.f_code.co_filename
        if shell.compile.format_code_name(name) is not None:
            return name
        frame = frame.f_back
    return None


def _typed_text(shell: Shell) -> str | None:
    """Return the text that the user typed into the running cell, where the history keeps it."""
    history: object = getattr(shell, "history_manager", None)
    typed: list[str] = getattr(history, "input_hist_raw", None) or []
    return typed[-1] if typed else None


def read_body(shell: Shell, body: str, place: Place) -> Cell:
    """Read the body as Tessera syntax; lines with a magic or a shell command are IPython's.  Raises SyntaxMistake."""
    try:
        return read_cell(body, place.name, place.first_line, place.label)
    except SyntaxMistake:
        lines = body.split("\n")
        if not any(line.lstrip().startswith(("%", "!")) for line in lines):
            raise
        plain = [
            shell.transform_cell(line).rstrip("\n") if line.lstrip().startswith(("%", "!")) else line for line in lines
        ]
        return read_cell("\n".join(plain), place.name, place.first_line, place.label)


def run(shell: Shell, cell: Cell, names: Mapping[str, object]) -> None:
    """Execute the cell in the user's namespace; its last expression is displayed like any cell's.

    `names` are visible to the cell's code without being put among the user's own, which go first.
    """
    # IPython hides such frames in tracebacks, and its debugger all those above this mark.
    __tracebackhide__ = "__ipython_bottom__"
    namespace = shell.user_ns
    before = namespace.get("__builtins__", builtins)
    # Functions keep the builtins of the moment they are defined in: their code sees the names later, too.
    namespace["__builtins__"] = {**vars(builtins), **names}
    try:
        for node, mode in _steps(cell.tree, shell.ast_node_interactivity, _is_silenced(cell.source.text)):
            exec(cell.compile(node, mode), namespace)  # noqa: S102 - running what the user wrote is what a cell is for
    finally:
        namespace["__builtins__"] = before


def _steps(tree: ast.Module, interactivity: str, silenced: bool) -> Iterator[tuple[ast.Module | ast.Interactive, str]]:
    """Yield the statements to execute: "single" displays the value of an expression, "exec" does not."""
    body = list(tree.body)
    if interactivity == "last_expr_or_assign" and body and isinstance(body[-1], ast.Assign):
        target = body[-1].targets[0]
        if isinstance(target, ast.Name):
            body.append(ast.copy_location(ast.Expr(ast.copy_location(ast.Name(target.id, ast.Load()), target)), target))
    if interactivity == "none" or not body:
        shown: list[ast.stmt] = []
    elif interactivity == "all":
        shown = [statement for statement in body if isinstance(statement, ast.Expr)]
    else:
        shown = [body[-1]] if isinstance(body[-1], ast.Expr) or interactivity == "last" else []
    if silenced:
        shown = [statement for statement in shown if statement is not body[-1]]
    run_together: list[ast.stmt] = []
    for statement in body:
        if statement not in shown:
            run_together.append(statement)
            continue
        if run_together:
            yield ast.Module(run_together, []), "exec"
            run_together = []
        yield ast.Interactive([statement]), "single"
    if run_together:
        yield ast.Module(run_together, []), "exec"


def _is_silenced(text: str) -> bool:
    """Return whether the text ends in a semicolon, which asks for no display."""
    last = ""
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.OP or token.type not in _BLANK:
                last = token.string
    except (tokenize.TokenError, SyntaxError):  # Tessera's own spellings, which Python cannot tokenize
        last = text.rstrip()[-1:]
    return last == ";"


_BLANK = (tokenize.NL, tokenize.NEWLINE, tokenize.COMMENT, tokenize.ENDMARKER, tokenize.INDENT, tokenize.DEDENT)
